//! Snapshots of turns: when one is wanted, and what goes when a response goes.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::{ServedModel, Service};
use crate::{
    cache::{
        CacheScope,
        snapshot::{Retention, SaveReservation, SnapshotId, SnapshotStats, Snapshots},
    },
    conversation::{ResponseState, Status},
    id::{ResponseId, TokenId},
    limits,
    session::{Access, LogError, RetentionLimits, SessionId},
};

/// The target of a turn's KV snapshot: model, scope and lifetime.
pub(crate) struct SnapshotTarget {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) scope: CacheScope,
    /// Longest lifetime of the snapshot of an unstored turn.
    pub(crate) unstored_ms_max: i64,
}

impl SnapshotTarget {
    /// Says that the turn's snapshot will be wanted, if it will. To be called before the response can be
    /// deleted.
    pub(crate) fn reserve(
        &self,
        record: &ResponseState,
        now: Timestamp,
    ) -> Option<SaveReservation> {
        let snapshots = self.model.snapshots.as_ref()?;
        let ended = match record.status {
            Status::Completed | Status::Incomplete | Status::Cancelled => true,
            Status::Failed(_) | Status::InProgress => false,
        };
        let until_ms = now.as_millisecond().saturating_add(self.unstored_ms_max);
        let keep = match (record.turn.store, record.turn.keep_prefix) {
            (true, _) => Retention::WithResponse,
            (false, true) => Retention::UntilMs(until_ms),
            (false, false) => return None,
        };
        ended.then(|| snapshots.announce(id_of(record.id), self.scope, keep))
    }

    /// Orders the snapshot of a turn that has ended.
    pub(crate) fn save(&self, announced: SaveReservation, tokens: Vec<TokenId>) {
        if let Some(order) = announced.request(tokens) {
            self.model.engine.save_snapshot(order);
        }
    }
}

/// Returns the longest lifetime of an unstored turn's snapshot: that of its session in the log.
pub(crate) fn unstored_ms_max(bounds: &RetentionLimits) -> i64 {
    let retention = bounds.unstored_retention_ms.unwrap_or(i64::MAX);
    match bounds.persistence_disabled() {
        true => 0,
        false => retention.min(limits::SNAPSHOT_UNSTORED_MS),
    }
}

fn id_of(id: ResponseId) -> SnapshotId {
    SnapshotId(id.bits())
}

impl Service {
    /// The same with the snapshots that its models use.
    #[must_use]
    pub fn with_snapshots(self, snapshots: Option<Snapshots>) -> Self {
        Self { snapshots, ..self }
    }

    /// Returns snapshot statistics; `None` if snapshots are off.
    pub fn snapshot_stats(&self) -> Option<SnapshotStats> {
        self.snapshots.as_ref().map(Snapshots::stats)
    }

    /// Removes snapshots of what the log does not have any more, and those that have outlived their
    /// time. Reads from the disk.
    pub fn sweep_snapshots(&self) {
        let Some(snapshots) = &self.snapshots else {
            return;
        };
        snapshots.sweep(|id| {
            let session = SessionId::from_bits(id.0);
            let found = self.log.response_record(&Access::All, session);
            !matches!(found, Err(LogError::NotFound))
        });
    }

    /// Removes the snapshot of a response that was deleted.
    pub(crate) async fn forget_snapshot(&self, id: ResponseId) {
        if let Some(snapshots) = self.snapshots.clone() {
            let forgotten = tokio::task::spawn_blocking(move || snapshots.forget(id_of(id)));
            if let Err(error) = forgotten.await {
                tracing::error!(%error, response = %id, "a snapshot could not be removed");
            }
        }
    }
}
