//! Random histories against a list of sequences, and the rules that they may not show.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use proptest::prelude::*;

use super::*;
use crate::{id::TokenId, model::exec::KvCache};

/// KV cache that holds its tokens and a size that a test can change.
#[derive(Debug, Clone)]
struct Kv {
    tokens: Vec<TokenId>,
    bytes: Rc<Cell<usize>>,
}

impl Kv {
    fn new(tokens: &[TokenId], bytes: usize) -> Self {
        Self {
            tokens: tokens.to_vec(),
            bytes: Rc::new(Cell::new(bytes)),
        }
    }
}

impl KvCache for Kv {
    fn len(&self) -> usize {
        self.tokens.len()
    }

    fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn fork(&self, len: usize) -> Self {
        Self {
            tokens: self.tokens[..len].to_vec(),
            bytes: Rc::clone(&self.bytes),
        }
    }
}

const SCOPE: CacheScope = CacheScope(7);

fn cache(sequences: &[&[TokenId]]) -> PrefixCache<Kv> {
    let mut cache = PrefixCache::new(100);
    for tokens in sequences {
        cache.insert(SCOPE, None, tokens, Kv::new(tokens, 10));
    }
    cache
}

fn found(cache: &mut PrefixCache<Kv>, tokens: &[TokenId]) -> Vec<TokenId> {
    let hit = cache.find(SCOPE, None, tokens);
    hit.map(|hit| hit.kv.tokens).unwrap_or_default()
}

#[test]
fn the_longest_common_prefix_is_found_wherever_it_ends() {
    let mut cache = cache(&[&[1, 2, 3, 4], &[1, 2, 5], &[9]]);
    let mut check = |tokens: &[TokenId], expected: &[TokenId]| {
        assert_eq!(found(&mut cache, tokens), expected, "{tokens:?}");
    };
    check(&[1, 2, 3, 4, 8, 8], &[1, 2, 3, 4]);
    check(&[1, 2, 3, 8], &[1, 2, 3]);
    check(&[1, 2, 5, 0], &[1, 2, 5]);
    check(&[1, 2, 4, 0], &[1, 2]);
    check(&[1, 0], &[1]);
    check(&[9, 9, 9], &[9]);
    check(&[2, 1], &[]);
    check(&[], &[]);
}

#[test]
fn the_last_token_is_never_found() {
    let mut cache = cache(&[&[1, 2, 3]]);
    assert_eq!(found(&mut cache, &[1, 2, 3]), [1, 2]);
    assert!(found(&mut cache, &[1]).is_empty());
    assert_eq!((cache.stats().hits, cache.stats().hit_tokens), (1, 2));
}

#[test]
fn scopes_do_not_see_each_other() {
    let mut cache = cache(&[&[1, 2, 3]]);
    assert!(cache.find(CacheScope(8), None, &[1, 2, 3, 4]).is_none());
    cache.insert(CacheScope(8), None, &[1, 2], Kv::new(&[1, 2], 10));
    assert_eq!(cache.stats().entries, 2);
    assert_eq!(found(&mut cache, &[1, 2, 3, 4]), [1, 2, 3]);
}

#[test]
fn a_continuation_supersedes_what_it_continues() {
    let mut cache = cache(&[&[1, 2], &[1, 3], &[1, 2, 3, 4], &[1, 2, 3]]);
    assert_eq!(cache.stats().entries, 2);
    assert_eq!(found(&mut cache, &[1, 2, 3, 4, 5]), [1, 2, 3, 4]);
    assert_eq!(found(&mut cache, &[1, 3, 3]), [1, 3]);
    assert_eq!(cache.stats().evictions, 0);
}

#[test]
fn what_is_continued_stays_while_it_is_pinned() {
    let mut cache = cache(&[&[1, 2]]);
    let hit = cache.find(SCOPE, None, &[1, 2, 3]).expect("a hit");
    cache.insert(SCOPE, None, &[1, 2, 3], Kv::new(&[1, 2, 3], 10));
    assert_eq!(cache.stats().bytes, 20);
    drop(hit);
    cache.shrink(100);
    assert_eq!(cache.stats().bytes, 10);
}

#[test]
fn a_memory_too_large_for_the_cache_displaces_nothing() {
    let mut cache = cache(&[&[1], &[2]]);
    cache.insert(SCOPE, None, &[3], Kv::new(&[3], 101));
    assert_eq!(cache.stats().entries, 2);
    let mut none = PrefixCache::new(0);
    none.insert(SCOPE, None, &[1], Kv::new(&[1], 1));
    assert_eq!(none.stats(), CacheStats::default());
}

#[test]
fn a_memory_that_grows_in_place_makes_room() {
    let mut cache = cache(&[&[1], &[2]]);
    let growing = cache.find(SCOPE, None, &[2, 2]).expect("a hit");
    growing.kv.bytes.set(95);
    cache.shrink(100);
    assert_eq!((cache.stats().entries, cache.stats().bytes), (1, 95));
    assert_eq!(found(&mut cache, &[2, 2]), [2]);
}

#[test]
fn entries_of_a_recently_used_key_stay() {
    let [one, other] = [1, 2].map(|key| Some(PromptCacheKey(key)));
    let filled = || {
        let mut cache = PrefixCache::new(100);
        for (key, first) in [(one, 1), (None, 2), (one, 3), (other, 4)] {
            cache.insert(SCOPE, key, &[first, 0], Kv::new(&[first, 0], 20));
        }
        cache
    };
    let left = |mut cache: PrefixCache<Kv>| {
        cache.shrink(40);
        [1, 2, 3, 4].map(|first| cache.match_len(SCOPE, &[first, 0, 0]) > 0)
    };
    assert_eq!(left(filled()), [false, false, true, true]);
    let mut used = filled();
    assert!(used.find(SCOPE, one, &[9, 9]).is_none());
    assert_eq!(left(used), [true, false, true, false], "nothing was found");
    let mut elsewhere = filled();
    assert!(elsewhere.find(CacheScope(8), one, &[9, 9]).is_none());
    assert_eq!(left(elsewhere), [false, false, true, true]);
    let mut moved = filled();
    assert!(moved.find(SCOPE, other, &[1, 0, 0]).is_some());
    assert_eq!(left(moved), [true, false, false, true]);
}

#[test]
fn a_key_does_not_keep_more_than_half_the_cache() {
    let key = Some(PromptCacheKey(1));
    let mut cache = PrefixCache::new(100);
    for first in [1, 2, 3] {
        cache.insert(SCOPE, key, &[first], Kv::new(&[first], 20));
    }
    cache.insert(SCOPE, None, &[4], Kv::new(&[4], 40));
    assert!(cache.find(SCOPE, key, &[9, 9]).is_none());
    // Eviction keeps 60 bytes of one key apart, because they exceed half the cache; 40 bytes stay
    // together.
    cache.shrink(60);
    assert_eq!(
        [1, 2, 3, 4].map(|n| cache.match_len(SCOPE, &[n, n])),
        [0, 1, 1, 0]
    );
}

#[test]
fn clearing_leaves_nothing() {
    let mut cache = cache(&[&[1], &[2, 2]]);
    let _pinned = cache.find(SCOPE, None, &[1, 1]).expect("a hit");
    cache.insert(SCOPE, None, &[1, 1], Kv::new(&[1, 1], 10));
    cache.clear();
    assert_eq!((cache.stats().entries, cache.bytes()), (0, 0));
}

/// List-based model of the cache, least recently used first.
#[derive(Default)]
struct List {
    all: Vec<Listed>,
    uses: u64,
    /// Last use of each key.
    keys: HashMap<Key, u64>,
}

type Key = (CacheScope, PromptCacheKey);

struct Listed {
    scope: CacheScope,
    key: Option<PromptCacheKey>,
    tokens: Vec<TokenId>,
    last_use: u64,
    /// Shared with the entry and its forks.
    bytes: Rc<Cell<usize>>,
    /// One more reference for each hit.
    pins: Rc<()>,
    superseded: bool,
}

impl Listed {
    fn key(&self) -> Option<Key> {
        self.key.map(|key| (self.scope, key))
    }
}

const BYTES_MAX: usize = 60;

impl List {
    /// Moves a used entry to the end.
    fn touch(&mut self, index: usize, key: Option<PromptCacheKey>) -> &Listed {
        let mut used = self.all.remove(index);
        used.last_use = self.uses;
        used.key = key.or(used.key);
        self.all.push(used);
        &self.all[self.all.len() - 1]
    }

    fn use_key(&mut self, scope: CacheScope, key: Option<PromptCacheKey>) {
        self.uses += 1;
        if let Some(key) = key {
            self.keys.insert((scope, key), self.uses);
        }
    }

    fn live(&self, scope: CacheScope) -> impl Iterator<Item = (usize, &Listed)> {
        let live =
            move |(_, listed): &(usize, &Listed)| listed.scope == scope && !listed.superseded;
        self.all.iter().enumerate().filter(live)
    }

    fn find(
        &mut self,
        (scope, key): (CacheScope, Option<PromptCacheKey>),
        tokens: &[TokenId],
    ) -> Option<(usize, Rc<()>)> {
        self.use_key(scope, key);
        let tokens = &tokens[..tokens.len() - 1];
        let shared = |listed: &Listed| {
            (0..=tokens.len())
                .rev()
                .find(|&len| listed.tokens.starts_with(&tokens[..len]))
        };
        let longest = self
            .live(scope)
            .filter_map(|(_, listed)| shared(listed))
            .max();
        let longest = longest.filter(|&len| len > 0)?;
        let best = self
            .live(scope)
            .filter(|(_, listed)| shared(listed) == Some(longest));
        // The first entry at or after the tokens, else the last one before them.
        let best = best.min_by(|(_, a), (_, b)| {
            let (a, b) = (&a.tokens[..], &b.tokens[..]);
            match (a >= tokens, b >= tokens) {
                (true, true) => a.cmp(b),
                (false, false) => b.cmp(a),
                (a_after, b_after) => b_after.cmp(&a_after),
            }
        });
        let (index, _) = best?;
        Some((longest, Rc::clone(&self.touch(index, key).pins)))
    }

    fn insert(
        &mut self,
        (scope, key): (CacheScope, Option<PromptCacheKey>),
        tokens: &[TokenId],
        bytes: Rc<Cell<usize>>,
    ) {
        self.use_key(scope, key);
        if bytes.get() > BYTES_MAX {
            return;
        }
        let continuation = self
            .live(scope)
            .filter(|(_, listed)| listed.tokens.starts_with(tokens))
            .min_by_key(|(_, listed)| listed.tokens.clone());
        if let Some((index, _)) = continuation {
            self.touch(index, key);
            return;
        }
        for listed in &mut self.all {
            listed.superseded |= listed.scope == scope && tokens.starts_with(&listed.tokens);
        }
        self.all.push(Listed {
            scope,
            key,
            tokens: tokens.to_vec(),
            last_use: self.uses,
            bytes,
            pins: Rc::default(),
            superseded: false,
        });
        self.shrink(BYTES_MAX);
    }

    fn shrink(&mut self, bytes: usize) {
        let pinned = |listed: &Listed| Rc::strong_count(&listed.pins) > 1;
        self.all
            .retain(|listed| !listed.superseded || pinned(listed));
        while self.bytes() > bytes.min(BYTES_MAX) {
            let unpinned = self.all.iter().enumerate().filter(|(_, it)| !pinned(it));
            let Some((index, _)) = unpinned.min_by_key(|(_, it)| self.order(it)) else {
                return;
            };
            self.all.remove(index);
        }
    }

    /// Eviction order: the least first.
    fn order(&self, listed: &Listed) -> (u64, u64) {
        let same_key = |other: &&Listed| other.key() == listed.key() && !other.superseded;
        let together: usize = self
            .all
            .iter()
            .filter(same_key)
            .map(|it| it.bytes.get())
            .sum();
        let by_key = match listed.key() {
            Some(key) if together <= BYTES_MAX / 2 => self.keys[&key],
            _ => 0,
        };
        (by_key.max(listed.last_use), listed.last_use)
    }

    fn bytes(&self) -> usize {
        self.all.iter().map(|listed| listed.bytes.get()).sum()
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Find(CacheScope, Option<PromptCacheKey>, Vec<TokenId>),
    Insert(CacheScope, Option<PromptCacheKey>, Vec<TokenId>, usize),
    Shrink(usize),
    /// Drops the oldest hit.
    Unpin,
    /// Extends the oldest hit in place, and counts.
    Grow(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let scope = || (0u64..2).prop_map(CacheScope);
    let key = || prop::option::of((0u64..3).prop_map(PromptCacheKey));
    // Few tokens, so that sequences share much.
    let tokens = || prop::collection::vec(0u32..3, 1..9);
    prop_oneof![
        4 => (scope(), key(), tokens())
            .prop_map(|(scope, key, tokens)| Operation::Find(scope, key, tokens)),
        4 => (scope(), key(), tokens(), 1usize..25)
            .prop_map(|(scope, key, tokens, bytes)| Operation::Insert(scope, key, tokens, bytes)),
        1 => (0usize..80).prop_map(Operation::Shrink),
        2 => Just(Operation::Unpin),
        1 => (1usize..15).prop_map(Operation::Grow),
    ]
}

fn check(operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let mut cache = PrefixCache::new(BYTES_MAX);
    let mut list = List::default();
    let mut hits = Vec::new();
    for operation in operations {
        match operation {
            Operation::Find(scope, key, tokens) => {
                let longest = cache.match_len(scope, &tokens);
                let hit = cache.find(scope, key, &tokens);
                let expected = list.find((scope, key), &tokens);
                prop_assert_eq!(
                    longest,
                    hit.as_ref().map_or(0, |hit: &Hit<Kv>| hit.kv.len())
                );
                prop_assert_eq!(
                    hit.as_ref().map(|hit: &Hit<Kv>| &hit.kv.tokens[..]),
                    expected.as_ref().map(|&(len, _)| &tokens[..len])
                );
                hits.push((hit, expected));
            }
            Operation::Insert(scope, key, tokens, bytes) => {
                let kv = Kv::new(&tokens, bytes);
                list.insert((scope, key), &tokens, Rc::clone(&kv.bytes));
                cache.insert(scope, key, &tokens, kv);
            }
            Operation::Grow(bytes) => {
                if let Some((Some(hit), _)) = hits.first() {
                    hit.kv.bytes.set(hit.kv.bytes.get() + bytes);
                }
                cache.shrink(BYTES_MAX);
                list.shrink(BYTES_MAX);
            }
            Operation::Shrink(bytes) => {
                cache.shrink(bytes);
                list.shrink(bytes);
            }
            Operation::Unpin if hits.is_empty() => {}
            Operation::Unpin => drop(hits.remove(0)),
        }
        let stats = cache.stats();
        prop_assert_eq!((stats.entries, stats.bytes), (list.all.len(), list.bytes()));
    }
    Ok(())
}

proptest! {
    #[test]
    fn histories_equal_those_of_a_list(operations in prop::collection::vec(operation(), 1..80)) {
        check(operations)?;
    }
}

#[test]
fn prefixes_are_as_long_as_they_are() {
    for (differs_at, len) in [(0, 10), (63, 200), (64, 200), (130, 200), (200, 200)] {
        let one: Vec<TokenId> = (0..len).collect();
        let mut other = one.clone();
        other.push(7);
        other[differs_at] = 99_999;
        assert_eq!(common_prefix(&one, &other), differs_at);
        assert_eq!(common_prefix(&other, &one), differs_at);
    }
}
