//! Index of snapshots: which exist, which snapshot builds on which, and which are evicted first;
//! pure.
//!
//! A snapshot holds the tokens that its base lacks, so it is useful only while the base exists. A
//! snapshot whose response is deleted stays as a trunk while others build on it, as sessions do.

use std::collections::{BTreeMap, HashMap};

use super::{
    Retention, SnapshotId,
    file::{
        format::Header,
        hash::{Namespace, RollingHash},
    },
};
use crate::id::TokenId;

/// Index entry of one snapshot.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) header: Header,
    /// File size.
    pub(super) bytes: u64,
    pub(super) last_use_ms: i64,
    /// Its response is deleted; only those that build on it are of use.
    pub(super) is_trunk: bool,
    /// Number of snapshots that build on it, unfinished ones included.
    dependents: usize,
}

/// A change to make to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Remove the file.
    Remove {
        /// Id of the snapshot.
        id: SnapshotId,
        /// True if it was a trunk.
        is_trunk: bool,
    },
    /// Rename the file to a trunk.
    MakeTrunk(SnapshotId),
}

/// All snapshots of a directory.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<SnapshotId, Entry>,
    /// Snapshots by the end of their token range.
    ends: HashMap<Namespace, BTreeMap<usize, Vec<SnapshotId>>>,
    bytes: u64,
}

impl Entry {
    pub(super) fn new(header: Header, bytes: u64, last_use_ms: i64, is_trunk: bool) -> Self {
        Self {
            header,
            bytes,
            last_use_ms,
            is_trunk,
            dependents: 0,
        }
    }
}

impl Index {
    /// An index of what is found in a folder, and what is to be done with what is of no use.
    pub(super) fn of(found: Vec<Entry>) -> (Self, Vec<Change>) {
        let mut index = Self::default();
        let mut bases = HashMap::<SnapshotId, usize>::new();
        for entry in &found {
            if let Some(base) = entry.header.base {
                *bases.entry(base).or_default() += 1;
            }
        }
        for mut entry in found {
            entry.dependents = bases.get(&entry.header.id).copied().unwrap_or(0);
            index.put(entry);
        }
        let broken = |entry: &&Entry| !index.has_base(entry);
        let broken = index.entries.values().filter(broken);
        let broken: Vec<SnapshotId> = broken.map(|entry| entry.header.id).collect();
        let mut changes: Vec<Change> = broken.iter().flat_map(|&id| index.discard(id)).collect();
        let idle = index.entries.values().filter(|entry| entry.is_idle());
        let idle: Vec<SnapshotId> = idle.map(|entry| entry.header.id).collect();
        changes.extend(idle.iter().flat_map(|&id| index.remove(id)));
        (index, changes)
    }

    fn has_base(&self, entry: &Entry) -> bool {
        let Some(base) = entry.header.base else {
            return entry.header.tokens.start == 0;
        };
        self.entries.get(&base).is_some_and(|base| {
            base.header.realm == entry.header.realm
                && base.header.tokens.end == entry.header.tokens.start
        })
    }

    /// Inserts a snapshot whose base was [held](Self::hold).
    pub(super) fn put(&mut self, entry: Entry) {
        let header = &entry.header;
        let ends = self.ends.entry(header.realm).or_default();
        ends.entry(header.tokens.end).or_default().push(header.id);
        self.bytes += entry.bytes;
        self.entries.insert(header.id, entry);
    }

    /// Returns the number of snapshots and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        (self.entries.len(), self.bytes)
    }

    /// Counts the snapshots of other models.
    pub(super) fn foreign(&self, models: &[[u8; 32]]) -> usize {
        let is_foreign = |entry: &&Entry| !models.contains(&entry.header.realm.model);
        self.entries.values().filter(is_foreign).count()
    }

    pub(super) fn get(&self, id: SnapshotId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// Returns the ids of snapshots with [`Retention::WithResponse`] that are not trunks.
    pub(super) fn of_responses(&self) -> Vec<SnapshotId> {
        let kept = |entry: &&Entry| entry.header.keep == Retention::WithResponse && !entry.is_trunk;
        let entries = self.entries.values().filter(kept);
        entries.map(|entry| entry.header.id).collect()
    }

    /// Finds the snapshot with the longest prefix of `tokens`. `with_trunks` includes trunks, which
    /// only new dependents may use.
    pub(super) fn longest(
        &self,
        realm: Namespace,
        tokens: &[TokenId],
        with_trunks: bool,
    ) -> Option<SnapshotId> {
        let ends = self.ends.get(&realm)?.range(..=tokens.len());
        let (mut rolling, mut read, mut longest) = (RollingHash::new(), 0, None);
        for (&end, ids) in ends {
            tokens[read..end].iter().for_each(|&id| rolling.push(id));
            read = end;
            let found = ids.iter().find(|id| {
                let entry = self.entries.get(id);
                entry.is_some_and(|entry| {
                    entry.header.rolling == rolling.value() && (with_trunks || !entry.is_trunk)
                })
            });
            longest = found.copied().or(longest);
        }
        longest
    }

    /// Returns a snapshot and all its bases, the first tokens first.
    pub(super) fn chain(&self, id: SnapshotId) -> Vec<&Entry> {
        let mut chain = Vec::new();
        let mut next = Some(id);
        while let Some(entry) = next.and_then(|id| self.entries.get(&id)) {
            chain.push(entry);
            next = entry.header.base;
        }
        chain.reverse();
        chain
    }

    /// Sets the last use of a snapshot and of all its bases.
    pub(super) fn touch(&mut self, id: SnapshotId, now_ms: i64) {
        let mut next = Some(id);
        while let Some(entry) = next.and_then(|id| self.entries.get_mut(&id)) {
            entry.last_use_ms = entry.last_use_ms.max(now_ms);
            next = entry.header.base;
        }
    }

    /// Adds a dependent, which protects the snapshot from removal. Returns false if the snapshot
    /// does not exist.
    pub(super) fn hold(&mut self, id: SnapshotId) -> bool {
        let entry = self.entries.get_mut(&id);
        entry.map(|entry| entry.dependents += 1).is_some()
    }

    /// Gives up what was held.
    pub(super) fn release(&mut self, id: SnapshotId) -> Vec<Change> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Vec::new();
        };
        entry.dependents = entry.dependents.saturating_sub(1);
        match entry.is_idle() {
            true => self.remove(id),
            false => Vec::new(),
        }
    }

    /// Forgets the snapshot of a response that is deleted.
    pub(super) fn forget(&mut self, id: SnapshotId) -> Vec<Change> {
        match self.entries.get_mut(&id) {
            Some(entry) if entry.dependents > 0 => {
                let was_trunk = std::mem::replace(&mut entry.is_trunk, true);
                Vec::from_iter((!was_trunk).then_some(Change::MakeTrunk(id)))
            }
            Some(_) => self.remove(id),
            None => Vec::new(),
        }
    }

    /// Drops a snapshot that cannot be used, and all that build on it.
    pub(super) fn discard(&mut self, id: SnapshotId) -> Vec<Change> {
        let dependents = self.entries.values();
        let dependents = dependents.filter(|entry| entry.header.base == Some(id));
        let dependents: Vec<SnapshotId> = dependents.map(|entry| entry.header.id).collect();
        let mut changes = self.remove(id);
        for dependent in dependents {
            changes.extend(self.discard(dependent));
        }
        changes
    }

    /// Evicts snapshots, least recently used first and children before their bases, until at most
    /// `bytes_max` are left. Held snapshots stay.
    pub(super) fn shrink(&mut self, bytes_max: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        while self.bytes > bytes_max {
            let Some((_, id)) = self.oldest() else { break };
            changes.extend(self.remove(id));
        }
        changes
    }

    /// Removes what was last used before a moment, and what was to be kept until now.
    pub(super) fn expire(&mut self, used_before_ms: i64, now_ms: i64) -> Vec<Change> {
        let outlived = |entry: &&Entry| match entry.header.keep {
            Retention::UntilMs(until_ms) => until_ms <= now_ms && !entry.is_trunk,
            Retention::WithResponse => false,
        };
        let outlived = self.entries.values().filter(outlived);
        let outlived: Vec<SnapshotId> = outlived.map(|entry| entry.header.id).collect();
        let mut changes: Vec<Change> = outlived.iter().flat_map(|&id| self.forget(id)).collect();
        while let Some((last_use_ms, id)) = self.oldest()
            && last_use_ms < used_before_ms
        {
            changes.extend(self.remove(id));
        }
        changes
    }

    /// Returns the least recently used snapshot without dependents.
    fn oldest(&self) -> Option<(i64, SnapshotId)> {
        let ends = self.entries.values().filter(|entry| entry.dependents == 0);
        ends.map(|entry| (entry.last_use_ms, entry.header.id)).min()
    }

    /// Removes one, and then what was kept for it only.
    fn remove(&mut self, id: SnapshotId) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut next = Some(id);
        while let Some(entry) = next.and_then(|id| self.entries.remove(&id)) {
            let header = &entry.header;
            self.bytes -= entry.bytes;
            if let Some(ends) = self.ends.get_mut(&header.realm) {
                if let Some(ids) = ends.get_mut(&header.tokens.end) {
                    ids.retain(|other| *other != header.id);
                    if ids.is_empty() {
                        ends.remove(&header.tokens.end);
                    }
                }
                if ends.is_empty() {
                    self.ends.remove(&header.realm);
                }
            }
            changes.push(Change::Remove {
                id: header.id,
                is_trunk: entry.is_trunk,
            });
            next = header.base.filter(|base| {
                let base = self.entries.get_mut(base);
                base.is_some_and(|base| {
                    base.dependents = base.dependents.saturating_sub(1);
                    base.is_idle()
                })
            });
        }
        changes
    }
}

impl Entry {
    /// True if nothing needs it.
    fn is_idle(&self) -> bool {
        self.is_trunk && self.dependents == 0
    }
}
