//! Serves connections until the signal to stop.

use std::{
    fmt::Debug,
    future::{self, IntoFuture as _},
    io,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::serve::{Listener, ListenerExt as _};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time,
};

use super::{AppState, Tls, router};

/// Part of the grace period that is left for sending terminal events.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves, over TLS if configured, until `signal`. Then the server accepts no connections and lets
/// running turns continue for `grace`. After `grace` it ends those that are left, each with its
/// terminal event, and returns.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    tls: Option<&Tls>,
    state: AppState,
    signal: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<()> {
    match tls {
        None => {
            let listener = listener.tap_io(|stream| send_at_once(stream));
            serve_on(listener, state, signal, grace).await
        }
        Some(tls) => {
            let listener = tls.listen(listener);
            let listener = listener.tap_io(|stream| send_at_once(stream.get_ref().0));
            serve_on(listener, state, signal, grace).await
        }
    }
}

/// Sets `TCP_NODELAY`: a token is a small packet that must not wait for the next.
fn send_at_once(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
}

async fn serve_on<L: Listener<Addr: Debug>>(
    listener: L,
    state: AppState,
    signal: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<()> {
    let service = Arc::clone(&state.service);
    let (stopping, stopped) = oneshot::channel();
    let stop = async move {
        signal.await;
        let _ = stopping.send(());
    };
    let server = axum::serve(listener, router(state)).with_graceful_shutdown(stop);
    let deadline = async move {
        if stopped.await.is_err() {
            // The server has ended by itself and returns its error.
            return future::pending().await;
        }
        tracing::info!("shutting down");
        let until = time::Instant::now() + grace;
        let turns_grace = grace.saturating_sub(FAREWELL.min(grace / 2));
        let _ = time::timeout_at(until, service.shutdown(turns_grace)).await;
        time::sleep_until(until).await;
    };
    tokio::select! {
        served = pin!(server.into_future()) => served,
        () = deadline => {
            tracing::warn!("closing connections that are still open");
            Ok(())
        }
    }
}
