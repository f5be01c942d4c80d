//! A sequence's KV cache: where it comes from and where it goes.

use super::Sequence;
use crate::{
    cache::PrefixCache,
    engine::{TokenEvent, prefix_sharing::Candidate},
    model::exec::KvCache,
};

impl<K: KvCache> Sequence<K> {
    /// Returns the state for prefix sharing.
    pub(in crate::engine) fn candidate(&self) -> Candidate<'_> {
        let known = if self.accepted { 0 } else { self.known };
        let is_open = self.kv.is_none() && (self.evicted || !self.accepted);
        Candidate {
            number: self.number,
            relatives: &self.relatives,
            cached: self.cached(),
            ready: self.is_ready(),
            open: is_open.then_some(known),
        }
    }

    /// True if the reader knows what it begins with.
    pub(in crate::engine) fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Pins the longest cached prefix, reports it in [`TokenEvent::Accepted`], and returns its
    /// length.
    pub(in crate::engine) fn accept(&mut self, cache: &mut PrefixCache<K>) -> usize {
        self.share(cache);
        self.accepted = true;
        let cached_tokens = self.cached();
        let before_restore = self.before_restore.unwrap_or(cached_tokens);
        self.events.emit(TokenEvent::Accepted {
            cached_tokens,
            restored_tokens: cached_tokens.saturating_sub(before_restore),
        });
        cached_tokens
    }

    /// Pins the longest prefix that the cache has of its tokens.
    pub(in crate::engine) fn share(&mut self, cache: &mut PrefixCache<K>) {
        if let Some(hit) = cache.find(self.cache_scope, self.cache_key, &self.tokens) {
            self.kv = Some(hit.kv);
            self.pin = Some(hit.pin);
            self.lease = Some(hit.lease);
        }
    }

    /// Leaves what it has in memory to the cache and goes on.
    pub(in crate::engine) fn lend(&mut self, cache: &mut PrefixCache<K>) {
        if self.is_pinned() {
            return;
        }
        if let Some(kv) = &self.kv {
            let (scope, key) = (self.cache_scope, self.cache_key);
            let (tokens, kv) = (&self.tokens[..kv.len()], kv.fork(kv.len()));
            if let Some(lease) = cache.insert(scope, key, tokens, kv) {
                self.lease = Some(lease);
            }
        }
    }

    /// Forks the first `tokens` tokens of the KV cache, which must hold that many.
    pub(in crate::engine) fn fork(&self, tokens: usize) -> Option<K> {
        self.kv.as_ref().map(|kv| kv.fork(tokens))
    }

    /// Takes a memory of its first tokens as its own.
    pub(in crate::engine) fn adopt(&mut self, kv: K) {
        self.kv = Some(kv);
        self.pin = None;
        self.lease = None;
    }

    /// True if it has lost a memory and has none since.
    pub(in crate::engine) fn is_preempted(&self) -> bool {
        self.evicted
    }

    /// Prepares it for a step that may run `count` tokens; returns how many it has to run. Its
    /// memory is its own from now on.
    pub(in crate::engine) fn begin(&mut self, count: usize) -> usize {
        let pending = self.tokens.len() - self.cached();
        self.pin = None;
        // A plan made before the sequence got its KV cache back did not count its draft.
        match std::mem::take(&mut self.evicted) || pending > 1 {
            true => count.min(pending),
            false => count,
        }
    }

    /// Frees the KV cache; a later prefill recomputes it.
    pub(in crate::engine) fn preempt(&mut self) {
        self.kv = None;
        self.pin = None;
        self.lease = None;
        self.evicted = true;
    }

    /// Moves the KV cache into the prefix cache.
    pub(in crate::engine) fn retire(&mut self, cache: &mut PrefixCache<K>) {
        if !self.is_pinned()
            && let Some(kv) = self.kv.take()
        {
            let (scope, key) = (self.cache_scope, self.cache_key);
            cache.insert(scope, key, &self.tokens[..kv.len()], kv);
        }
    }
}
