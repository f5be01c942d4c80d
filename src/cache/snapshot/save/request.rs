//! A requested snapshot, on its way from the end of a turn over the engine to the writer thread.

use std::{fmt, sync::Arc};

use super::{
    super::{Handle, ModelSnapshots, Retention, SkipReason, SnapshotId, file::hash::Namespace},
    job::{Pending, SaveJob, Write},
};
use crate::{
    cache::CacheScope,
    id::TokenId,
    limits,
    model::exec::{KvExport, KvLayout},
};

/// A snapshot that will be saved at the end of its turn, unless its response is deleted.
pub struct SaveReservation {
    handle: Handle,
    realm: Namespace,
    layout: KvLayout,
    keep: Retention,
    pending: Pending,
}

/// A snapshot to save from an engine's KV cache.
pub struct SaveRequest {
    reservation: SaveReservation,
    tokens: Vec<TokenId>,
    /// First token that no snapshot holds.
    start: usize,
}

impl SaveReservation {
    pub(crate) fn new(
        model: &ModelSnapshots,
        id: SnapshotId,
        scope: CacheScope,
        keep: Retention,
    ) -> Self {
        let shared = Arc::clone(&model.handle.shared);
        shared.state().pending.insert(id, false);
        Self {
            realm: model.realm(scope),
            handle: model.handle.clone(),
            layout: model.layout,
            keep,
            pending: Pending { shared, id },
        }
    }

    /// Requests the snapshot of these tokens; `None` if snapshots have all but a few of them.
    #[must_use]
    pub fn request(self, tokens: Vec<TokenId>) -> Option<SaveRequest> {
        let start = {
            let index = &self.handle.shared.state().index;
            let base = index.longest(self.realm, &tokens, true);
            let base = base.and_then(|base| index.get(base));
            base.map_or(0, |base| base.header.tokens.end)
        };
        let lacking = tokens.len() - start;
        (lacking >= limits::SNAPSHOT_TOKENS_MIN).then_some(SaveRequest {
            reservation: self,
            tokens,
            start,
        })
    }
}

impl SaveRequest {
    /// Returns the cache scope.
    #[must_use]
    pub fn scope(&self) -> CacheScope {
        self.reservation.realm.scope
    }

    /// Returns all tokens of the sequence.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Returns the first token to save.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Submits the exported KV cache of the tokens from [`Self::start`] up to `len`. Never waits: if the
    /// queue is full, the snapshot is skipped.
    pub fn submit(mut self, kv: Box<dyn KvExport>, len: usize) {
        self.tokens.truncate(len);
        let Self {
            reservation,
            tokens,
            start,
        } = self;
        let SaveReservation {
            handle,
            realm,
            layout,
            keep,
            pending,
        } = reservation;
        let counters = &handle.shared.counters;
        let bytes = (tokens.len().saturating_sub(start) * layout.bytes_per_token()) as u64;
        if !counters.enqueue(bytes, limits::SNAPSHOT_QUEUE_BYTES_MAX) {
            counters.dropped(SkipReason::Queue);
            return;
        }
        let job = SaveJob {
            pending,
            realm,
            layout,
            keep,
            tokens,
            start,
            kv,
            bytes,
        };
        if handle.writes.try_send(Write::Job(Box::new(job))).is_err() {
            counters.dequeue(bytes);
            counters.dropped(SkipReason::Queue);
        }
    }

    /// Cancels the request: the engine no longer has the KV cache.
    pub fn cancel(self) {
        let counters = &self.reservation.handle.shared.counters;
        counters.dropped(SkipReason::Memory);
    }
}

impl fmt::Debug for SaveRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, tokens) = (self.reservation.pending.id, self.tokens.len());
        write!(f, "snapshot {id} of {tokens} tokens from {}", self.start)
    }
}
