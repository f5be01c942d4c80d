//! Cache of parents. A stored response's chain never changes, so the next turn of a chain reads one
//! session instead of all, and renders only what is new.

use std::sync::{Arc, Mutex};

use quick_cache::{Weighter, unsync::Cache};

use super::parent::ParentState;
use crate::{
    limits::{PARENT_CACHE_BYTES_MAX, PARENT_PROMPT_CACHE_BYTES_MAX},
    lock::IgnorePoison as _,
    session::SessionId,
};

/// Entries that the caches are prepared for; they grow beyond.
const ENTRIES_EXPECTED: usize = 1024;

/// The weight of an entry: its bytes in memory.
#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<SessionId, Arc<ParentState>> for Bytes {
    fn weight(&self, _: &SessionId, state: &Arc<ParentState>) -> u64 {
        state.bytes() as u64
    }
}

impl Weighter<SessionId, Arc<str>> for Bytes {
    fn weight(&self, _: &SessionId, prompt: &Arc<str>) -> u64 {
        prompt.len() as u64
    }
}

/// A cache by session that evicts by recency of use.
///
/// One lock and not a sharded cache: a shard admits only its share of the bound, which a long
/// conversation exceeds.
type BySession<T> = Mutex<Cache<SessionId, Arc<T>, Bytes>>;

/// Parents and their rendered prompts by session, in this process only.
#[derive(Debug)]
pub(crate) struct ParentCache {
    states: BySession<ParentState>,
    prompts: BySession<str>,
}

impl Default for ParentCache {
    fn default() -> Self {
        Self::new(PARENT_CACHE_BYTES_MAX, PARENT_PROMPT_CACHE_BYTES_MAX)
    }
}

impl ParentCache {
    fn new(state_bytes_max: u64, prompt_bytes_max: u64) -> Self {
        Self {
            states: Mutex::new(Cache::with_weighter(
                ENTRIES_EXPECTED,
                state_bytes_max,
                Bytes,
            )),
            prompts: Mutex::new(Cache::with_weighter(
                ENTRIES_EXPECTED,
                prompt_bytes_max,
                Bytes,
            )),
        }
    }

    /// Returns a cached parent.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<ParentState>> {
        self.states.lock().ignore_poison().get(&session).cloned()
    }

    /// Caches a parent.
    pub(crate) fn insert(&self, state: Arc<ParentState>) {
        let mut states = self.states.lock().ignore_poison();
        states.insert(state.id(), state);
    }

    /// Returns the cached prompt of a response, as its template rendered it.
    pub(crate) fn prompt(&self, session: SessionId) -> Option<Arc<str>> {
        self.prompts.lock().ignore_poison().get(&session).cloned()
    }

    /// Caches a response's rendered prompt.
    pub(crate) fn insert_prompt(&self, session: SessionId, text: Arc<str>) {
        self.prompts.lock().ignore_poison().insert(session, text);
    }

    /// Removes all entries of a response.
    pub(crate) fn forget(&self, session: SessionId) {
        self.states.lock().ignore_poison().remove(&session);
        self.prompts.lock().ignore_poison().remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> SessionId {
        SessionId([n; 16])
    }

    #[test]
    fn a_forgotten_response_leaves_nothing() {
        let cache = ParentCache::default();
        cache.insert_prompt(id(1), "<user>Hi.".into());
        cache.insert_prompt(id(2), "<user>Ho.".into());
        assert_eq!(cache.prompt(id(1)).as_deref(), Some("<user>Hi."));
        cache.forget(id(1));
        cache.forget(id(3));
        assert_eq!(cache.prompt(id(1)), None);
        assert_eq!(cache.prompt(id(2)).as_deref(), Some("<user>Ho."));
    }

    #[test]
    fn the_bound_counts_bytes_and_used_prompts_stay() {
        let cache = ParentCache::new(0, 1000);
        let text: Arc<str> = "x".repeat(100).into();
        cache.insert_prompt(id(0), Arc::clone(&text));
        for n in 1..100 {
            assert!(cache.prompt(id(0)).is_some(), "evicted after {n}");
            cache.insert_prompt(id(n), Arc::clone(&text));
            assert!(cache.prompts.lock().unwrap().weight() <= 1000);
        }
        let kept = (0..100).filter(|n| cache.prompt(id(*n)).is_some());
        assert!((5..=10).contains(&kept.count()));
    }
}
