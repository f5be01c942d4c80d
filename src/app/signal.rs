//! Being told to stop.

/// Waits for SIGINT or SIGTERM.
#[cfg(unix)]
pub(super) async fn stop() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub(super) async fn stop() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
