//! Random histories against a list of sequences, and the rules that they may not show.

use std::{cell::Cell, rc::Rc};

use proptest::prelude::*;

use super::*;
use crate::{id::TokenId, model::exec::KvMemory};

/// A memory that has its tokens and a size that a test may change.
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

impl KvMemory for Kv {
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
        cache.insert(SCOPE, tokens, Kv::new(tokens, 10));
    }
    cache
}

fn found(cache: &mut PrefixCache<Kv>, tokens: &[TokenId]) -> Vec<TokenId> {
    let hit = cache.find(SCOPE, tokens);
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
    assert!(cache.find(CacheScope(8), &[1, 2, 3, 4]).is_none());
    cache.insert(CacheScope(8), &[1, 2], Kv::new(&[1, 2], 10));
    assert_eq!(cache.stats().memories, 2);
    assert_eq!(found(&mut cache, &[1, 2, 3, 4]), [1, 2, 3]);
}

#[test]
fn a_continuation_supersedes_what_it_continues() {
    let mut cache = cache(&[&[1, 2], &[1, 3], &[1, 2, 3, 4], &[1, 2, 3]]);
    assert_eq!(cache.stats().memories, 2);
    assert_eq!(found(&mut cache, &[1, 2, 3, 4, 5]), [1, 2, 3, 4]);
    assert_eq!(found(&mut cache, &[1, 3, 3]), [1, 3]);
    assert_eq!(cache.stats().evictions, 0);
}

#[test]
fn what_is_continued_stays_while_it_is_pinned() {
    let mut cache = cache(&[&[1, 2]]);
    let hit = cache.find(SCOPE, &[1, 2, 3]).expect("a hit");
    cache.insert(SCOPE, &[1, 2, 3], Kv::new(&[1, 2, 3], 10));
    assert_eq!(cache.stats().bytes, 20);
    drop(hit);
    cache.shrink(100);
    assert_eq!(cache.stats().bytes, 10);
}

#[test]
fn a_memory_too_large_for_the_cache_displaces_nothing() {
    let mut cache = cache(&[&[1], &[2]]);
    cache.insert(SCOPE, &[3], Kv::new(&[3], 101));
    assert_eq!(cache.stats().memories, 2);
    let mut none = PrefixCache::new(0);
    none.insert(SCOPE, &[1], Kv::new(&[1], 1));
    assert_eq!(none.stats(), CacheStats::default());
}

#[test]
fn a_memory_that_grows_in_place_makes_room() {
    let mut cache = cache(&[&[1], &[2]]);
    let growing = cache.find(SCOPE, &[2, 2]).expect("a hit");
    growing.kv.bytes.set(95);
    cache.shrink(100);
    assert_eq!((cache.stats().memories, cache.stats().bytes), (1, 95));
    assert_eq!(found(&mut cache, &[2, 2]), [2]);
}

#[test]
fn clearing_leaves_nothing() {
    let mut cache = cache(&[&[1], &[2, 2]]);
    let _pinned = cache.find(SCOPE, &[1, 1]).expect("a hit");
    cache.insert(SCOPE, &[1, 1], Kv::new(&[1, 1], 10));
    cache.clear();
    assert_eq!((cache.stats().memories, cache.bytes()), (0, 0));
}

/// The cache as a list, least recently used first.
#[derive(Default)]
struct List(Vec<Listed>);

struct Listed {
    scope: CacheScope,
    tokens: Vec<TokenId>,
    /// Shared with the memory and its forks.
    bytes: Rc<Cell<usize>>,
    /// As many as hits hold.
    pins: Rc<()>,
    superseded: bool,
}

const BYTES_MAX: usize = 60;

impl List {
    /// Moves what was used to the end.
    fn touch(&mut self, index: usize) -> &Listed {
        let used = self.0.remove(index);
        self.0.push(used);
        &self.0[self.0.len() - 1]
    }

    fn live(&self, scope: CacheScope) -> impl Iterator<Item = (usize, &Listed)> {
        let live =
            move |(_, listed): &(usize, &Listed)| listed.scope == scope && !listed.superseded;
        self.0.iter().enumerate().filter(live)
    }

    fn find(&mut self, scope: CacheScope, tokens: &[TokenId]) -> Option<(usize, Rc<()>)> {
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
        // The first at or after the tokens, else the last before them.
        let best = best.min_by(|(_, a), (_, b)| {
            let (a, b) = (&a.tokens[..], &b.tokens[..]);
            match (a >= tokens, b >= tokens) {
                (true, true) => a.cmp(b),
                (false, false) => b.cmp(a),
                (a_after, b_after) => b_after.cmp(&a_after),
            }
        });
        let (index, _) = best?;
        Some((longest, Rc::clone(&self.touch(index).pins)))
    }

    fn insert(&mut self, scope: CacheScope, tokens: &[TokenId], bytes: Rc<Cell<usize>>) {
        if bytes.get() > BYTES_MAX {
            return;
        }
        let continuation = self
            .live(scope)
            .filter(|(_, listed)| listed.tokens.starts_with(tokens))
            .min_by_key(|(_, listed)| listed.tokens.clone());
        if let Some((index, _)) = continuation {
            self.touch(index);
            return;
        }
        for listed in &mut self.0 {
            listed.superseded |= listed.scope == scope && tokens.starts_with(&listed.tokens);
        }
        self.0.push(Listed {
            scope,
            tokens: tokens.to_vec(),
            bytes,
            pins: Rc::default(),
            superseded: false,
        });
        self.shrink(BYTES_MAX);
    }

    fn shrink(&mut self, bytes: usize) {
        let pinned = |listed: &Listed| Rc::strong_count(&listed.pins) > 1;
        self.0.retain(|listed| !listed.superseded || pinned(listed));
        while self.bytes() > bytes.min(BYTES_MAX)
            && let Some(oldest) = self.0.iter().position(|listed| !pinned(listed))
        {
            self.0.remove(oldest);
        }
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|listed| listed.bytes.get()).sum()
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Find(CacheScope, Vec<TokenId>),
    Insert(CacheScope, Vec<TokenId>, usize),
    Shrink(usize),
    /// Drops the oldest hit.
    Unpin,
    /// Extends the oldest hit in place, and counts.
    Grow(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let scope = || (0u64..2).prop_map(CacheScope);
    // Few tokens, so that sequences share much.
    let tokens = || prop::collection::vec(0u32..3, 1..9);
    prop_oneof![
        4 => (scope(), tokens()).prop_map(|(scope, tokens)| Operation::Find(scope, tokens)),
        4 => (scope(), tokens(), 1usize..25)
            .prop_map(|(scope, tokens, bytes)| Operation::Insert(scope, tokens, bytes)),
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
            Operation::Find(scope, tokens) => {
                let (hit, expected) = (cache.find(scope, &tokens), list.find(scope, &tokens));
                prop_assert_eq!(
                    hit.as_ref().map(|hit: &Hit<Kv>| &hit.kv.tokens[..]),
                    expected.as_ref().map(|&(len, _)| &tokens[..len])
                );
                hits.push((hit, expected));
            }
            Operation::Insert(scope, tokens, bytes) => {
                let kv = Kv::new(&tokens, bytes);
                list.insert(scope, &tokens, Rc::clone(&kv.bytes));
                cache.insert(scope, &tokens, kv);
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
        prop_assert_eq!((stats.memories, stats.bytes), (list.0.len(), list.bytes()));
    }
    Ok(())
}

proptest! {
    #[test]
    fn histories_equal_those_of_a_list(operations in prop::collection::vec(operation(), 1..80)) {
        check(operations)?;
    }
}
