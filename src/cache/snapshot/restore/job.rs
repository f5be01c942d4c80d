//! A restore on its way to the reader threads.

use std::sync::mpsc::SyncSender;

use super::super::{SnapshotId, file::hash::Namespace};
use crate::{id::TokenId, model::exec::KvLayout};

/// One snapshot of a chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainLink {
    pub(crate) id: SnapshotId,
    pub(crate) is_trunk: bool,
    /// End of its token range.
    pub(crate) end: usize,
}

/// Verified KV data of the next tokens.
#[derive(Debug)]
pub struct KvChunk {
    /// Number of tokens.
    pub tokens: usize,
    /// Bytes in the format of [`KvCache::import`](crate::model::exec::KvCache::import).
    pub bytes: Vec<u8>,
}

/// A prefix to restore.
pub(crate) struct RestoreJob {
    pub(crate) realm: Namespace,
    pub(crate) layout: KvLayout,
    pub(crate) parts: Vec<ChainLink>,
    /// All tokens of the prefix.
    pub(crate) tokens: Vec<TokenId>,
    /// First token to read.
    pub(crate) from: usize,
    pub(crate) pieces: SyncSender<KvChunk>,
    pub(crate) wake: Box<dyn Fn() + Send>,
}
