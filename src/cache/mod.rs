//! Prefix cache: KV caches of ended sequences, reused by prompts that begin like them.
//!
//! Pure bookkeeping: it knows no device and no array, only a KV cache's length, its size in bytes,
//! and that it can be forked.

mod prefix;
pub mod snapshot;

#[cfg(test)]
mod tests;

pub use prefix::{Hit, Lease, Pin, PrefixCache, common_prefix};

/// The scope of cache entries: a job reuses and leaves entries of its own scope only. The time to
/// the first token reveals whether a prompt was cached. So owners that must not learn of each other
/// have different scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CacheScope(pub u64);

/// A group of requests whose cache entries are evicted together. A use of one entry counts as a use
/// of all entries of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PromptCacheKey(pub u64);

/// Counts of a cache since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries in the cache.
    pub entries: usize,
    /// Bytes of the entries; shared pages count once for each entry.
    pub bytes: usize,
    /// Lookups that found a prefix.
    pub hits: u64,
    /// Tokens of these prefixes, which need no prefill.
    pub hit_tokens: u64,
    /// Entries evicted to make room, least recently used first.
    pub evictions: u64,
}
