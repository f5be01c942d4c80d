//! Prefixes on disk, as the flags ask for them.

use std::{convert::Infallible, sync::Arc, time::Duration};

use crate::{
    cache::snapshot::{SnapshotOptions, Snapshots},
    cli::ServeArgs,
    clock::SystemClock,
    limits,
    responses::Service,
};

/// The folder of snapshots in that of the session log.
pub(super) const FOLDER: &str = "snapshots";

/// Between two looks for what the log has dropped; readers see none of that anyway.
const PAUSE: Duration = Duration::from_secs(30);

/// Starts to look through the folder, if any are to be kept.
pub(super) fn open(args: &ServeArgs) -> anyhow::Result<Option<Snapshots>> {
    let keeping = &args.keeping;
    if keeping.snapshot_max_bytes == 0 {
        return Ok(None);
    }
    let age_ms_max = match keeping.snapshot_max_age {
        0 => None,
        seconds => Some(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX)),
    };
    let options = SnapshotOptions {
        folder: args.sessions.join(FOLDER),
        bytes_max: keeping.snapshot_max_bytes,
        age_ms_max,
        free_bytes_min: limits::SNAPSHOT_DISK_FREE_BYTES_MIN,
        reads_always: false,
        clock: Arc::new(SystemClock),
    };
    let snapshots = Snapshots::open(options).map_err(anyhow::Error::msg)?;
    Ok(Some(snapshots))
}

/// Removes snapshots that have outlived their time or their responses.
pub(super) async fn sweep(service: &Arc<Service>) -> Infallible {
    loop {
        let service = Arc::clone(service);
        let swept = tokio::task::spawn_blocking(move || service.sweep_snapshots());
        if let Err(error) = swept.await {
            tracing::error!(%error, "snapshot expiry failed");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
