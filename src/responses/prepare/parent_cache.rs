//! Cache of parents. A stored response's chain never changes, so the next turn of a chain reads one
//! session instead of all, and renders only what is new.

use std::sync::{Arc, Mutex};

use super::parent::ParentState;
use crate::{
    limits::{PARENT_CACHE_BYTES_MAX, PARENT_PROMPT_CACHE_BYTES_MAX},
    lock::IgnorePoison as _,
    session::SessionId,
    weighted_lru::WeightedLru,
};

/// Parents and their rendered prompts by session, weighed in bytes. In this process only.
#[derive(Debug)]
pub(crate) struct ParentCache {
    states: Mutex<WeightedLru<SessionId, Arc<ParentState>>>,
    prompts: Mutex<WeightedLru<SessionId, Arc<str>>>,
}

impl Default for ParentCache {
    fn default() -> Self {
        Self {
            states: Mutex::new(WeightedLru::new(PARENT_CACHE_BYTES_MAX)),
            prompts: Mutex::new(WeightedLru::new(PARENT_PROMPT_CACHE_BYTES_MAX)),
        }
    }
}

impl ParentCache {
    /// Returns a cached parent.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<ParentState>> {
        self.states.lock().ignore_poison().get(&session).cloned()
    }

    /// Caches a parent.
    pub(crate) fn insert(&self, state: Arc<ParentState>) {
        let (id, bytes) = (state.id(), state.bytes());
        self.states.lock().ignore_poison().insert(id, state, bytes);
    }

    /// Returns the cached prompt of a response, as its template rendered it.
    pub(crate) fn prompt(&self, session: SessionId) -> Option<Arc<str>> {
        self.prompts.lock().ignore_poison().get(&session).cloned()
    }

    /// Caches a response's rendered prompt.
    pub(crate) fn insert_prompt(&self, session: SessionId, text: Arc<str>) {
        let (bytes, mut prompts) = (text.len(), self.prompts.lock().ignore_poison());
        prompts.insert(session, text, bytes);
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
    use crate::session::{ForkPoint, format::record::ResponseMeta, log::ForkSource};

    fn id(n: u8) -> SessionId {
        SessionId([n; 16])
    }

    fn state(id: SessionId) -> Arc<ParentState> {
        let record = ResponseMeta {
            owner: None,
            model: "test".to_owned(),
            created_at_ms: 0,
            previous: None,
            end_events: 3,
            preamble_digest: [0; 32],
            forkable: true,
            body_len_bytes: 0,
            body_digest: [0; 32],
            bytes: 0,
        };
        let fork = ForkPoint {
            parent: id,
            events: record.end_events,
        };
        let source = ForkSource {
            record,
            fork,
            head: String::new(),
            tokens: vec![7; 5],
        };
        Arc::new(ParentState {
            source,
            before: Vec::new(),
            output: Vec::new(),
            item_bytes: 0,
        })
    }

    #[test]
    fn a_forgotten_response_leaves_nothing() {
        let cache = ParentCache::default();
        cache.insert(state(id(1)));
        cache.insert_prompt(id(1), "<user>Hi.".into());
        cache.insert_prompt(id(2), "<user>Ho.".into());
        assert_eq!(cache.prompt(id(1)).as_deref(), Some("<user>Hi."));
        assert!(cache.get(id(1)).is_some());
        cache.forget(id(1));
        cache.forget(id(3));
        assert!(cache.get(id(1)).is_none() && cache.prompt(id(1)).is_none());
        assert_eq!(cache.prompt(id(2)).as_deref(), Some("<user>Ho."));
    }

    #[test]
    fn the_bound_counts_bytes_and_used_prompts_stay() {
        let cache = ParentCache::default();
        let text: Arc<str> = "x".repeat(1 << 20).into();
        cache.insert_prompt(id(0), Arc::clone(&text));
        for n in 1..100 {
            assert!(cache.prompt(id(0)).is_some(), "evicted after {n}");
            cache.insert_prompt(id(n), Arc::clone(&text));
        }
        let kept: Vec<u8> = (0..100)
            .filter(|n| cache.prompt(id(*n)).is_some())
            .collect();
        // 16 MiB.
        let newest: Vec<u8> = [0].into_iter().chain(85..100).collect();
        assert_eq!(kept, newest);
    }
}
