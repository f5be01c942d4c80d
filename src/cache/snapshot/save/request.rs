//! A snapshot that is wanted, on its way from the end of a turn over the engine to the writer.

use std::{fmt, sync::Arc};

use super::{
    super::{
        Handle, ModelSnapshots, Retention, Shared, SkipReason, SnapshotId, file::hash::Namespace,
    },
    writer::{self, Write},
};
use crate::{
    cache::CacheScope,
    id::TokenId,
    limits,
    model::exec::{KvExport, KvLayout},
};

/// A snapshot that will be wanted, unless its response is deleted.
pub struct SaveReservation {
    handle: Handle,
    realm: Namespace,
    layout: KvLayout,
    keep: Retention,
    pending: Pending,
}

/// A snapshot that is wanted of what an engine has in memory.
pub struct SaveRequest {
    announced: SaveReservation,
    tokens: Vec<TokenId>,
    /// The first token that no snapshot has.
    start: usize,
}

/// Keeps an id known as one on its way.
pub(crate) struct Pending {
    shared: Arc<Shared>,
    pub(crate) id: SnapshotId,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.shared.state().pending.remove(&self.id);
    }
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

    /// Orders the snapshot of these tokens, unless there is one of all but a few of them.
    #[must_use]
    pub fn order(self, tokens: Vec<TokenId>) -> Option<SaveRequest> {
        let start = {
            let index = &self.handle.shared.state().index;
            let base = index.longest(self.realm, &tokens, true);
            let base = base.and_then(|base| index.get(base));
            base.map_or(0, |base| base.header.tokens.end)
        };
        let lacking = tokens.len() - start;
        (lacking >= limits::SNAPSHOT_TOKENS_MIN).then_some(SaveRequest {
            announced: self,
            tokens,
            start,
        })
    }
}

impl SaveRequest {
    /// Returns the cache scope.
    #[must_use]
    pub fn scope(&self) -> CacheScope {
        self.announced.realm.scope
    }

    /// All tokens, from the first on.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The first token whose keys and values are to be delivered.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Hands over the keys and values of the tokens from [`Self::start`] up to `len`. Never waits: where
    /// too much waits to be written, there is no snapshot.
    pub fn deliver(mut self, kv: Box<dyn KvExport>, len: usize) {
        self.tokens.truncate(len);
        let Self {
            announced,
            tokens,
            start,
        } = self;
        let SaveReservation {
            handle,
            realm,
            layout,
            keep,
            pending,
        } = announced;
        let counters = &handle.shared.counters;
        let bytes = (tokens.len().saturating_sub(start) * layout.bytes_per_token()) as u64;
        if !counters.enqueue(bytes, limits::SNAPSHOT_QUEUE_BYTES_MAX) {
            counters.dropped(SkipReason::Queue);
            return;
        }
        let job = writer::SaveJob {
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

    /// Says that the engine has them no longer.
    pub fn decline(self) {
        let counters = &self.announced.handle.shared.counters;
        counters.dropped(SkipReason::Memory);
    }
}

impl fmt::Debug for SaveRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, tokens) = (self.announced.pending.id, self.tokens.len());
        write!(f, "snapshot {id} of {tokens} tokens from {}", self.start)
    }
}
