//! Token sequences and their KV caches: longest common prefix, LRU eviction.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    ops::Bound::{Excluded, Included, Unbounded},
    rc::{Rc, Weak},
};

use super::{CacheScope, CacheStats, PromptCacheKey};
use crate::{id::TokenId, model::exec::KvCache};

/// Cache entries by the tokens they hold. Of a sequence and its continuation only the continuation
/// is kept, because it serves both.
///
/// An ordered map serves as the trie. No sequence in it is a prefix of another one. All sequences
/// between a sequence and one of its prefixes begin with that prefix too. So one of a sequence's
/// two neighbours shares the longest prefix with it. Its successor is the only one that may
/// continue it, and its predecessor the only one that it may continue.
///
/// Entries are large and therefore few: eviction scans all of them. Each step asks for the total
/// size, so it is kept up to date as entries come and go.
#[derive(Debug)]
pub struct PrefixCache<K> {
    bytes_max: usize,
    scopes: HashMap<CacheScope, Entries<K>>,
    /// Entries that a continuation replaced while they were still pinned.
    superseded: Vec<CacheEntry<K>>,
    /// Entries that may have grown since they were counted, because a fork was extended in place.
    growing: Vec<Weak<Counted<K>>>,
    /// Bytes of all entries at the last count.
    bytes: usize,
    /// Use counter, the clock of the LRU order.
    uses: u64,
    stats: CacheStats,
}

/// Entries of a key are kept together while they take at most `1 / KEY_SHARE` of the cache.
/// Otherwise a client that uses one key for everything would evict all others.
const KEY_SHARE: usize = 2;

type Entries<K> = BTreeMap<Rc<[TokenId]>, CacheEntry<K>>;

#[derive(Debug)]
struct CacheEntry<K> {
    counted: Rc<Counted<K>>,
    last_use: u64,
    /// The key of the last use that had one, and the time of that key's last use.
    key: Option<PromptCacheKey>,
    key_use: u64,
    /// Shared with the pins.
    pins: Rc<()>,
}

#[derive(Debug)]
struct Counted<K> {
    kv: K,
    /// Bytes at the last count.
    bytes: Cell<usize>,
    /// Shared with the leases.
    leases: Rc<()>,
}

/// Result of a lookup: a fork of the entry with the longest common prefix.
#[derive(Debug)]
pub struct Hit<K> {
    /// KV cache of the prefix, forked from an entry.
    pub kv: K,
    /// Protects that entry from eviction.
    pub pin: Pin,
    /// Must live as long as the fork.
    pub lease: Lease,
}

/// Protects an entry from eviction while its fork has no pages of its own. Dropping the pin unpins
/// the entry.
#[derive(Debug)]
pub struct Pin(#[expect(dead_code, reason = "held for its reference count")] Rc<()>);

/// Marks that a fork of an entry is alive. Extending the fork in place can increase the size of the
/// entry.
#[derive(Debug)]
pub struct Lease(#[expect(dead_code, reason = "held for its reference count")] Rc<()>);

impl<K> CacheEntry<K> {
    fn is_pinned(&self) -> bool {
        Rc::strong_count(&self.pins) > 1
    }

    fn touch(&mut self, now: u64, key: Option<PromptCacheKey>) {
        self.last_use = now;
        if key.is_some() {
            (self.key, self.key_use) = (key, now);
        }
    }
}

impl<K: KvCache> Counted<K> {
    fn new(kv: K) -> Rc<Self> {
        Rc::new(Self {
            bytes: Cell::new(kv.bytes()),
            kv,
            leases: Rc::default(),
        })
    }

    /// Updates the size and corrects `sum` by the difference.
    fn recount(&self, sum: &mut usize) {
        let bytes = self.kv.bytes();
        *sum = *sum - self.bytes.replace(bytes) + bytes;
    }

    fn is_leased(&self) -> bool {
        Rc::strong_count(&self.leases) > 1
    }
}

impl<K: KvCache> PrefixCache<K> {
    /// Returns an empty cache of at most `bytes_max` bytes; with 0 it stays empty.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            scopes: HashMap::new(),
            superseded: Vec::new(),
            growing: Vec::new(),
            bytes: 0,
            uses: 0,
            stats: CacheStats::default(),
        }
    }

    /// Forks and pins the entry of the scope with the longest common prefix with `tokens`. The
    /// prefix excludes at least the last token, because the model must run that token to produce
    /// logits.
    pub fn find(
        &mut self,
        scope: CacheScope,
        key: Option<PromptCacheKey>,
        tokens: &[TokenId],
    ) -> Option<Hit<K>> {
        self.touch(scope, key);
        let (_, tokens) = tokens.split_last()?;
        let entries = self.scopes.get_mut(&scope)?;
        let (shared, nearest) = nearest(entries, tokens)?;
        let memory = entries.get_mut(&nearest)?;
        memory.touch(self.uses, key);
        self.stats.hits += 1;
        self.stats.hit_tokens += shared as u64;
        let (kv, lease) = fork(&memory.counted, shared, &mut self.growing);
        Some(Hit {
            kv,
            pin: Pin(Rc::clone(&memory.pins)),
            lease,
        })
    }

    /// Returns the length of the prefix that [`Self::find`] would find. Does not count as a use.
    #[must_use]
    pub fn match_len(&self, scope: CacheScope, tokens: &[TokenId]) -> usize {
        let entries = self.scopes.get(&scope);
        let found = tokens.split_last().zip(entries);
        let found = found.and_then(|((_, tokens), entries)| nearest(entries, tokens));
        found.map_or(0, |(shared, _)| shared)
    }

    /// Returns the capacity in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Forks the entry of the scope with the longest common prefix with `tokens`. The lease must
    /// live as long as the fork. Does not count as a use.
    pub fn peek(&mut self, scope: CacheScope, tokens: &[TokenId]) -> Option<(K, Lease)> {
        let entries = self.scopes.get(&scope)?;
        let (shared, nearest) = nearest(entries, tokens)?;
        let memory = entries.get(&nearest)?;
        Some(fork(&memory.counted, shared, &mut self.growing))
    }

    /// Inserts the KV cache of `tokens`, which holds exactly these tokens. Drops the KV cache if it
    /// is larger than the capacity, or if an entry already begins with `tokens`. Otherwise returns
    /// a lease, which must live as long as another KV cache shares pages with the entry.
    pub fn insert(
        &mut self,
        scope: CacheScope,
        key: Option<PromptCacheKey>,
        tokens: &[TokenId],
        kv: K,
    ) -> Option<Lease> {
        self.touch(scope, key);
        if tokens.is_empty() || kv.bytes() > self.bytes_max {
            return None;
        }
        let entries = self.scopes.entry(scope).or_default();
        if let Some(continuation) = continuation(entries, tokens) {
            continuation.touch(self.uses, key);
            return None;
        }
        if let Some(beginning) = take_beginning(entries, tokens) {
            self.superseded.push(beginning);
        }
        let memory = CacheEntry {
            counted: Counted::new(kv),
            last_use: self.uses,
            key,
            key_use: self.uses,
            pins: Rc::default(),
        };
        let lease = Lease(Rc::clone(&memory.counted.leases));
        self.growing.push(Rc::downgrade(&memory.counted));
        self.bytes += memory.counted.bytes.get();
        entries.insert(tokens.into(), memory);
        self.shrink(self.bytes_max);
        Some(lease)
    }

    /// Evicts entries, least recently used first, until at most `bytes` are left or all are pinned.
    pub fn shrink(&mut self, bytes: usize) {
        self.recount();
        let bytes = bytes.min(self.bytes_max);
        while self.bytes > bytes && self.evict() {}
    }

    /// Drops all entries, pinned ones too.
    pub fn clear(&mut self) {
        self.scopes.clear();
        self.superseded.clear();
        self.growing.clear();
        self.bytes = 0;
    }

    /// Returns the bytes of all entries; pages that several entries share count for each. Growth in
    /// place since the last [`Self::shrink`] is not counted yet.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the cache's counts.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let kept: usize = self.scopes.values().map(BTreeMap::len).sum();
        CacheStats {
            entries: kept + self.superseded.len(),
            bytes: self.bytes,
            ..self.stats
        }
    }

    /// Updates the sizes of growing entries, and drops superseded entries that are no longer
    /// pinned.
    fn recount(&mut self) {
        let sum = &mut self.bytes;
        self.growing.retain(|growing| {
            let counted = growing.upgrade();
            counted.is_some_and(|counted| {
                counted.recount(sum);
                counted.is_leased()
            })
        });
        self.superseded.retain(|memory| {
            memory.counted.recount(sum);
            let pinned = memory.is_pinned();
            if !pinned {
                *sum -= memory.counted.bytes.get();
            }
            pinned
        });
    }

    /// Counts a use of the entry, and of its key's entries.
    fn touch(&mut self, scope: CacheScope, key: Option<PromptCacheKey>) {
        self.uses += 1;
        let Some(entries) = key.and_then(|_| self.scopes.get_mut(&scope)) else {
            return;
        };
        for memory in entries.values_mut().filter(|memory| memory.key == key) {
            memory.key_use = self.uses;
        }
    }

    /// Returns the bytes of each key's entries.
    fn bytes_by_key(&self) -> HashMap<(CacheScope, PromptCacheKey), usize> {
        let mut bytes = HashMap::new();
        for (&scope, entries) in &self.scopes {
            for memory in entries.values() {
                if let Some(key) = memory.key {
                    *bytes.entry((scope, key)).or_default() += memory.counted.bytes.get();
                }
            }
        }
        bytes
    }

    /// Evicts the least recently used entry that is not pinned. Entries that are kept together by
    /// key count by the last use of their key. Returns whether there was one.
    fn evict(&mut self) -> bool {
        let by_key = self.bytes_by_key();
        let last_use = |scope, memory: &CacheEntry<K>| match memory.key {
            Some(key) if by_key[&(scope, key)] <= self.bytes_max / KEY_SHARE => {
                (memory.key_use.max(memory.last_use), memory.last_use)
            }
            _ => (memory.last_use, memory.last_use),
        };
        let unpinned = self.scopes.iter().flat_map(|(&scope, entries)| {
            let unpinned = entries.iter().filter(|(_, memory)| !memory.is_pinned());
            unpinned.map(move |(tokens, memory)| (last_use(scope, memory), scope, tokens))
        });
        let Some((_, scope, tokens)) = unpinned.min_by_key(|&(last_use, ..)| last_use) else {
            return false;
        };
        let tokens = Rc::clone(tokens);
        if let Some(entries) = self.scopes.get_mut(&scope) {
            let evicted = entries.remove(&tokens);
            self.bytes -= evicted.map_or(0, |memory| memory.counted.bytes.get());
            if entries.is_empty() {
                self.scopes.remove(&scope);
            }
        }
        self.stats.evictions += 1;
        true
    }
}

/// Returns the length of the longest common prefix, at least 1, and the sequence that has it. Of
/// two equal candidates the successor wins.
fn nearest<K>(entries: &Entries<K>, tokens: &[TokenId]) -> Option<(usize, Rc<[TokenId]>)> {
    let mut before = entries.range::<[TokenId], _>((Unbounded, Excluded(tokens)));
    let mut after = entries.range::<[TokenId], _>((Included(tokens), Unbounded));
    [before.next_back(), after.next()]
        .into_iter()
        .flatten()
        .map(|(stored, _)| (common_prefix(stored, tokens), stored))
        .filter(|&(shared, _)| shared > 0)
        .max_by_key(|&(shared, _)| shared)
        .map(|(shared, stored)| (shared, Rc::clone(stored)))
}

/// Returns the length of the common prefix.
#[must_use]
pub fn common_prefix(one: &[TokenId], other: &[TokenId]) -> usize {
    /// Compared at once, which is faster than one by one.
    const STRETCH: usize = 64;
    let stretches = one.chunks_exact(STRETCH).zip(other.chunks_exact(STRETCH));
    let equal = STRETCH * stretches.take_while(|(a, b)| a == b).count();
    let rest = one[equal..].iter().zip(&other[equal..]);
    equal + rest.take_while(|(a, b)| a == b).count()
}

/// Forks the first `tokens` tokens. Extending the fork in place can grow the entry.
fn fork<K: KvCache>(
    counted: &Rc<Counted<K>>,
    tokens: usize,
    growing: &mut Vec<Weak<Counted<K>>>,
) -> (K, Lease) {
    if !counted.is_leased() {
        growing.push(Rc::downgrade(counted));
    }
    let lease = Lease(Rc::clone(&counted.leases));
    (counted.kv.fork(tokens), lease)
}

/// Returns the entry whose sequence begins with `tokens`.
fn continuation<'a, K>(
    entries: &'a mut Entries<K>,
    tokens: &[TokenId],
) -> Option<&'a mut CacheEntry<K>> {
    let mut after = entries.range_mut::<[TokenId], _>((Included(tokens), Unbounded));
    let (stored, memory) = after.next()?;
    stored.starts_with(tokens).then_some(memory)
}

/// Takes out the memory of a sequence that these tokens begin with.
fn take_beginning<K>(entries: &mut Entries<K>, tokens: &[TokenId]) -> Option<CacheEntry<K>> {
    let mut before = entries.range::<[TokenId], _>((Unbounded, Excluded(tokens)));
    let (stored, _) = before.next_back()?;
    let beginning = tokens.starts_with(stored).then(|| Rc::clone(stored))?;
    entries.remove(&beginning)
}
