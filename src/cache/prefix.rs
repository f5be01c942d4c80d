//! Token sequences and their memories: longest common prefix, least recently used out.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound::{Excluded, Included, Unbounded},
    rc::Rc,
};

use super::{CacheScope, CacheStats};
use crate::{id::TokenId, model::exec::KvMemory};

/// Memories by the tokens they hold. Of a sequence and its continuation only the continuation is
/// kept, because it serves both.
///
/// An ordered map is all the trie this needs. No sequence in it is a prefix of another, and what
/// lies between a sequence and a prefix of it begins with that prefix too. So one of a sequence's
/// two neighbours shares the most with it, its successor is the one that may continue it, and its
/// predecessor the one that it may continue.
///
/// Memories are large and therefore few: eviction and sizes look at all of them.
#[derive(Debug)]
pub struct PrefixCache<K> {
    bytes_max: usize,
    scopes: HashMap<CacheScope, Memories<K>>,
    /// Continued by others, but still pinned.
    superseded: Vec<Memory<K>>,
    /// Counts uses, to tell which was the last.
    uses: u64,
    stats: CacheStats,
}

type Memories<K> = BTreeMap<Rc<[TokenId]>, Memory<K>>;

#[derive(Debug)]
struct Memory<K> {
    kv: K,
    last_use: u64,
    /// Shared with the pins.
    pins: Rc<()>,
}

/// A prefix that was found.
#[derive(Debug)]
pub struct Hit<K> {
    /// A memory of the prefix: a fork of one in the cache.
    pub kv: K,
    /// Keeps that one in the cache.
    pub pin: Pin,
}

/// Keeps a memory in the cache while a fork of it has not been written to and thus takes no bytes
/// of its own. Dropping it unpins.
#[derive(Debug)]
pub struct Pin(#[expect(dead_code, reason = "held for its reference count")] Rc<()>);

impl<K> Memory<K> {
    fn is_pinned(&self) -> bool {
        Rc::strong_count(&self.pins) > 1
    }
}

impl<K: KvMemory> PrefixCache<K> {
    /// An empty cache that may grow to so many bytes; with 0 it stays empty.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            scopes: HashMap::new(),
            superseded: Vec::new(),
            uses: 0,
            stats: CacheStats::default(),
        }
    }

    /// Forks and pins a memory with the longest prefix of `tokens` that any in the scope has. The
    /// prefix lacks at least the last token, which must be run to know what follows.
    pub fn find(&mut self, scope: CacheScope, tokens: &[TokenId]) -> Option<Hit<K>> {
        let (_, tokens) = tokens.split_last()?;
        let memories = self.scopes.get_mut(&scope)?;
        let (shared, nearest) = nearest(memories, tokens)?;
        let memory = memories.get_mut(&nearest)?;
        self.uses += 1;
        memory.last_use = self.uses;
        self.stats.hits += 1;
        self.stats.hit_tokens += shared as u64;
        Some(Hit {
            kv: memory.kv.fork(shared),
            pin: Pin(Rc::clone(&memory.pins)),
        })
    }

    /// Takes in the memory of `tokens`, one token of memory for each. Drops it at once when it is
    /// too large, or when the cache has these tokens already.
    pub fn insert(&mut self, scope: CacheScope, tokens: &[TokenId], kv: K) {
        if tokens.is_empty() || kv.bytes() > self.bytes_max {
            return;
        }
        self.uses += 1;
        let memories = self.scopes.entry(scope).or_default();
        if let Some(continuation) = continuation(memories, tokens) {
            continuation.last_use = self.uses;
            return;
        }
        if let Some(beginning) = take_beginning(memories, tokens) {
            self.superseded.push(beginning);
        }
        let memory = Memory {
            kv,
            last_use: self.uses,
            pins: Rc::default(),
        };
        memories.insert(tokens.into(), memory);
        self.shrink(self.bytes_max);
    }

    /// Drops memories, the least recently used first, until at most `bytes` are left or all are
    /// pinned.
    pub fn shrink(&mut self, bytes: usize) {
        self.superseded.retain(Memory::is_pinned);
        let bytes = bytes.min(self.bytes_max);
        while self.bytes() > bytes && self.evict() {}
    }

    /// Drops all memories, pinned ones too.
    pub fn clear(&mut self) {
        self.scopes.clear();
        self.superseded.clear();
    }

    /// Bytes of all memories; what several share is counted for each.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // Summed up anew because a memory grows while a fork of it is extended in place.
        self.memories().map(|memory| memory.kv.bytes()).sum()
    }

    /// What the cache holds and what it has done.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            memories: self.memories().count(),
            bytes: self.bytes(),
            ..self.stats
        }
    }

    fn memories(&self) -> impl Iterator<Item = &Memory<K>> {
        let kept = self.scopes.values().flat_map(BTreeMap::values);
        kept.chain(&self.superseded)
    }

    /// Drops the least recently used memory that is not pinned. Returns whether there was one.
    fn evict(&mut self) -> bool {
        let unpinned = self.scopes.iter().flat_map(|(&scope, memories)| {
            let unpinned = memories.iter().filter(|(_, memory)| !memory.is_pinned());
            unpinned.map(move |(tokens, memory)| (memory.last_use, scope, tokens))
        });
        let Some((_, scope, tokens)) = unpinned.min_by_key(|&(last_use, ..)| last_use) else {
            return false;
        };
        let tokens = Rc::clone(tokens);
        if let Some(memories) = self.scopes.get_mut(&scope) {
            memories.remove(&tokens);
            if memories.is_empty() {
                self.scopes.remove(&scope);
            }
        }
        self.stats.evictions += 1;
        true
    }
}

/// The sequence that shares the most tokens with these, at least one, and how many; of two the one
/// that comes after.
fn nearest<K>(memories: &Memories<K>, tokens: &[TokenId]) -> Option<(usize, Rc<[TokenId]>)> {
    let mut before = memories.range::<[TokenId], _>((Unbounded, Excluded(tokens)));
    let mut after = memories.range::<[TokenId], _>((Included(tokens), Unbounded));
    [before.next_back(), after.next()]
        .into_iter()
        .flatten()
        .map(|(stored, _)| (shared(stored, tokens), stored))
        .filter(|&(shared, _)| shared > 0)
        .max_by_key(|&(shared, _)| shared)
        .map(|(shared, stored)| (shared, Rc::clone(stored)))
}

fn shared(one: &[TokenId], other: &[TokenId]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The memory of a sequence that begins with these tokens.
fn continuation<'a, K>(
    memories: &'a mut Memories<K>,
    tokens: &[TokenId],
) -> Option<&'a mut Memory<K>> {
    let mut after = memories.range_mut::<[TokenId], _>((Included(tokens), Unbounded));
    let (stored, memory) = after.next()?;
    stored.starts_with(tokens).then_some(memory)
}

/// Takes out the memory of a sequence that these tokens begin with.
fn take_beginning<K>(memories: &mut Memories<K>, tokens: &[TokenId]) -> Option<Memory<K>> {
    let mut before = memories.range::<[TokenId], _>((Unbounded, Excluded(tokens)));
    let (stored, _) = before.next_back()?;
    let beginning = tokens.starts_with(stored).then(|| Rc::clone(stored))?;
    memories.remove(&beginning)
}
