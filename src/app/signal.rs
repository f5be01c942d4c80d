//! Being told to stop, or to read files again.

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

/// Waits for SIGHUP, again and again.
#[cfg(unix)]
pub(super) struct Reload(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Reload {
    /// From now on SIGHUP does not end the process.
    pub(super) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::hangup()).map(Self)
    }

    /// Returns when the process was told to.
    pub(super) async fn told(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// There is no such signal here.
#[cfg(not(unix))]
pub(super) struct Reload;

#[cfg(not(unix))]
impl Reload {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(super) async fn told(&mut self) {
        std::future::pending::<()>().await;
    }
}
