//! A save on its way to the writer thread.

use std::sync::Arc;

use super::super::{Retention, Shared, SnapshotId, file::hash::Namespace};
use crate::{
    id::TokenId,
    model::exec::{KvExport, KvLayout},
};

/// Marks an id as being saved, until it is dropped.
pub(crate) struct Pending {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: SnapshotId,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.shared.state().pending.remove(&self.id);
    }
}

/// Messages to the save thread.
pub(crate) enum Write {
    /// To write a snapshot.
    Job(Box<SaveJob>),
    /// End the thread.
    Stop,
}

/// Snapshot to write.
pub(crate) struct SaveJob {
    pub(crate) pending: Pending,
    pub(crate) realm: Namespace,
    pub(crate) layout: KvLayout,
    pub(crate) keep: Retention,
    pub(crate) tokens: Vec<TokenId>,
    /// First token that `kv` holds.
    pub(crate) start: usize,
    pub(crate) kv: Box<dyn KvExport>,
    /// Bytes that the job takes in the queue.
    pub(crate) bytes: u64,
}
