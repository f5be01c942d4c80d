//! Key/value memories of sequences that have ended, kept for prompts that begin like them.
//!
//! Pure bookkeeping: it knows no device and no array, only a memory's length, its size and that
//! it can be forked.

mod prefix;
pub mod snapshot;

#[cfg(test)]
mod tests;

pub use prefix::{Hit, Lease, Pin, PrefixCache, common_prefix};

/// Whose memories a job may reuse and leave behind. How soon an answer begins tells whether its
/// prompt was known, so jobs of owners that must not learn of each other have different scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CacheScope(pub u64);

/// Names requests whose memories are kept together: those of a key that was used lately stay as if
/// they had been used then themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PromptCacheKey(pub u64);

/// What a cache holds and what it has done since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Memories held.
    pub memories: usize,
    /// Their bytes; what several share is counted for each.
    pub bytes: usize,
    /// Lookups that found a prefix.
    pub hits: u64,
    /// Tokens found by them, which need not be read again.
    pub hit_tokens: u64,
    /// Memories dropped to make room, least recently used first.
    pub evictions: u64,
}
