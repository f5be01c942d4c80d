//! The index alone: random histories, whose files are simulated.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    super::{
        file::{
            format::Header,
            hash::{RollingHash, hash},
        },
        index::{Change, Entry, Index},
    },
    *,
};

#[derive(Debug, Clone)]
enum Operation {
    /// A turn that continues a prefix of another turn.
    Write {
        from: usize,
        keep: usize,
        seed: u32,
    },
    Forget(usize),
    Discard(usize),
    Shrink(u64),
    Expire {
        before_ms: i64,
        now_ms: i64,
    },
    Use(usize),
    Restart,
}

fn operation() -> impl Strategy<Value = Operation> {
    let any = 0usize..40;
    prop_oneof![
        6 => (any.clone(), 0usize..120, 0u32..5)
            .prop_map(|(from, keep, seed)| Operation::Write { from, keep, seed }),
        2 => any.clone().prop_map(Operation::Forget),
        1 => any.clone().prop_map(Operation::Discard),
        1 => (0u64..1500).prop_map(Operation::Shrink),
        1 => (0i64..60, 0i64..60)
            .prop_map(|(before_ms, now_ms)| Operation::Expire { before_ms, now_ms }),
        2 => any.prop_map(Operation::Use),
        1 => Just(Operation::Restart),
    ]
}

/// Index, simulated files, and the tokens of each turn.
#[derive(Default)]
struct World {
    index: Index,
    files: BTreeSet<(SnapshotId, bool)>,
    said: Vec<Vec<TokenId>>,
    now_ms: i64,
}

fn realm() -> Namespace {
    Namespace {
        model: [0; 32],
        scope: SCOPE,
    }
}

fn id(at: usize) -> SnapshotId {
    SnapshotId(at as u128 + 1)
}

impl World {
    fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Remove { id, is_trunk } => {
                    assert!(self.files.remove(&(id, is_trunk)), "{id} has no file");
                }
                Change::MakeTrunk(id) => {
                    assert!(self.files.remove(&(id, false)), "{id} has no file");
                    self.files.insert((id, true));
                }
            }
        }
    }

    fn write(&mut self, from: usize, keep: usize, seed: u32) {
        let before = self.said.get(from % self.said.len().max(1));
        let mut said = before.cloned().unwrap_or_default();
        said.truncate(keep);
        said.extend(tokens(seed, 20));
        let base = self.index.longest(realm(), &said, true);
        let start = base.and_then(|base| self.index.get(base));
        let start = start.map_or(0, |base| base.header.tokens.end);
        let own = id(self.said.len());
        if start < said.len() {
            if let Some(base) = base {
                assert!(self.index.hold(base));
            }
            let header = Header {
                id: own,
                base,
                realm: realm(),
                tokens: start..said.len(),
                rolling: RollingHash::of(&said),
                token_hash: hash(&said),
                keep: match seed {
                    0 => Retention::UntilMs(self.now_ms + 10),
                    _ => Retention::WithResponse,
                },
                layout: KvLayout {
                    layers: 1,
                    heads: 1,
                    head_dim: 1,
                    element: KvElementType::F16,
                },
            };
            let bytes = (said.len() - start) as u64;
            self.index
                .put(Entry::new(header, bytes, self.now_ms, false));
            self.files.insert((own, false));
        }
        self.said.push(said);
    }

    fn restart(&mut self) {
        let entries = self.files.iter().map(|&(id, is_trunk)| {
            let entry = self.index.get(id).expect("an entry of each file");
            let header = entry.header.clone();
            Entry::new(header, entry.bytes, entry.last_use_ms, is_trunk)
        });
        let (index, changes) = Index::of(entries.collect());
        assert!(changes.is_empty(), "{changes:?}");
        self.index = index;
    }

    fn check(&self) {
        let mut bytes = 0;
        for &(id, is_trunk) in &self.files {
            let entry = self.index.get(id).expect("an entry of each file");
            assert_eq!(entry.is_trunk, is_trunk);
            bytes += entry.bytes;
            let chain = self.index.chain(id);
            assert_eq!(chain[0].header.tokens.start, 0, "{id} lacks a base");
            for pair in chain.windows(2) {
                assert_eq!(pair[0].header.tokens.end, pair[1].header.tokens.start);
            }
            if is_trunk {
                let needed = |(other, _): &&(SnapshotId, bool)| {
                    let other = self.index.get(*other);
                    other.is_some_and(|other| other.header.base == Some(id))
                };
                assert!(self.files.iter().any(|file| needed(&file)), "{id} is idle");
            }
        }
        assert_eq!(self.index.size(), (self.files.len(), bytes));
        for (at, said) in self.said.iter().enumerate() {
            let expected = self.longest(said);
            let found = self.index.longest(realm(), said, false);
            let len = |id: SnapshotId| self.index.get(id).map(|entry| entry.header.tokens.end);
            assert_eq!(found.and_then(len), expected, "turn {at}");
        }
    }

    /// The longest prefix that a file of a response that is not deleted has.
    fn longest(&self, said: &[TokenId]) -> Option<usize> {
        let live = self.files.iter().filter(|(_, is_trunk)| !is_trunk);
        let ends = live.filter_map(|(id, _)| {
            let other = &self.said[id.0 as usize - 1];
            said.starts_with(other).then_some(other.len())
        });
        ends.max()
    }
}

proptest! {
    #[test]
    fn files_and_index_agree(operations in prop::collection::vec(operation(), 1..60)) {
        let mut world = World::default();
        for operation in operations {
            world.now_ms += 1;
            let count = world.said.len().max(1);
            match operation {
                Operation::Write { from, keep, seed } => world.write(from, keep, seed),
                Operation::Forget(at) => {
                    let changes = world.index.forget(id(at % count));
                    world.apply(changes);
                }
                Operation::Discard(at) => {
                    let changes = world.index.discard(id(at % count));
                    world.apply(changes);
                }
                Operation::Shrink(bytes_max) => {
                    let changes = world.index.shrink(bytes_max);
                    world.apply(changes);
                    prop_assert!(world.index.size().1 <= bytes_max);
                }
                Operation::Expire { before_ms, now_ms } => {
                    let changes = world.index.expire(before_ms, now_ms);
                    world.apply(changes);
                }
                Operation::Use(at) => world.index.touch(id(at % count), world.now_ms),
                Operation::Restart => world.restart(),
            }
            world.check();
        }
    }
}

#[test]
fn what_is_held_outlives_its_response_until_it_is_released() {
    let mut world = World::default();
    world.write(0, 0, 1);
    assert!(world.index.hold(id(0)));
    assert_eq!(world.index.shrink(0), []);
    let changes = world.index.forget(id(0));
    assert_eq!(changes, [Change::MakeTrunk(id(0))]);
    let changes = world.index.release(id(0));
    let gone = Change::Remove {
        id: id(0),
        is_trunk: true,
    };
    assert_eq!(changes, [gone]);
    assert!(!world.index.hold(id(0)));
}
