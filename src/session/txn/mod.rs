//! The transaction: the changes of one commit, over a storage. Later steps of the same commit see
//! earlier ones.

pub mod durable_view;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    format::{
        codec::{self, Stamp},
        event_batch::EventBatch,
        payload::{Payload, part_len_bytes, seal_parts},
        record::{Record, seal_record},
    },
    keys::{Key, KeyRange, SessionId},
    store::{Batch, ReadStore, Storage, StorageError, Totals, Value, scan_under},
};

/// The changes of one commit.
pub struct Txn<'a> {
    storage: &'a dyn Storage,
    /// The totals after the changes so far. [`Txn::finish`] counts `records`.
    pub totals: Totals,
    writes: BTreeMap<Key, Option<Value>>,
    /// Keys that the storage does not contain.
    absent: HashSet<Key>,
    undo: Vec<(Key, Option<Option<Value>>)>,
    /// The last events of sessions that this commit appends to, if further events fit into the same
    /// value.
    tails: HashMap<SessionId, Tail>,
    len_bytes: usize,
}

/// Events that this commit writes into one value.
struct Tail {
    /// The number of the first event.
    first: u64,
    /// The number after the last event.
    end: u64,
    payload: Payload,
}

/// A state of a [`Txn`] to roll back to.
pub struct Savepoint {
    undo_len: usize,
    totals: Totals,
    len_bytes: usize,
}

impl<'a> Txn<'a> {
    /// Begins the commit that follows `totals`.
    pub fn begin(storage: &'a dyn Storage, totals: Totals) -> Self {
        Self {
            storage,
            totals: Totals {
                commit: totals.commit + 1,
                ..totals
            },
            writes: BTreeMap::new(),
            absent: HashSet::new(),
            undo: Vec::new(),
            tails: HashMap::new(),
            len_bytes: 0,
        }
    }

    /// True if the transaction has no changes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the bytes of the values written so far.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns a savepoint of the current state.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            undo_len: self.undo.len(),
            totals: self.totals,
            len_bytes: self.len_bytes,
        }
    }

    /// Undoes every change since the savepoint.
    pub fn roll_back(&mut self, to: &Savepoint) {
        for (key, before) in self.undo.drain(to.undo_len..).rev() {
            match before {
                Some(write) => self.writes.insert(key, write),
                None => self.writes.remove(&key),
            };
        }
        self.totals = to.totals;
        self.len_bytes = to.len_bytes;
    }

    fn write(&mut self, key: Key, value: Option<Value>) {
        self.len_bytes += value.as_ref().map_or(0, Vec::len);
        let before = self.writes.insert(key.clone(), value);
        self.undo.push((key, before));
    }

    /// Writes a record.
    pub fn put<T: Record>(&mut self, key: Key, record: &T) {
        let value = seal_record(&key, record, self.totals.commit);
        self.write(key, Some(value));
    }

    /// Records that the storage does not contain a key, unless this commit already changed it.
    fn expect_absent(&mut self, key: &Key) {
        if !self.writes.contains_key(key) {
            self.absent.insert(key.clone());
        }
    }

    /// Writes a record under a key that the storage does not contain.
    pub fn create<T: Record>(&mut self, key: Key, record: &T) {
        self.expect_absent(&key);
        self.put(key, record);
    }

    /// Writes an encoded record.
    pub fn put_payload(&mut self, key: Key, payload: &Payload) {
        let stamp = Stamp {
            kind: payload.kind,
            schema: payload.schema,
            more: false,
            commit: self.totals.commit,
        };
        let value = codec::seal(stamp, &key, &payload.bytes);
        self.write(key, Some(value));
    }

    /// Writes a payload in consecutive parts, beginning with part `first`. The storage must not
    /// contain their keys. With `more`, further bytes follow later. Returns the number of the next
    /// part.
    pub fn create_parts(
        &mut self,
        payload: &Payload,
        key_of: impl Fn(u32) -> Key,
        first: u32,
        more: bool,
    ) -> u32 {
        let stamp = Stamp {
            kind: payload.kind,
            schema: payload.schema,
            more,
            commit: self.totals.commit,
        };
        let mut next = first;
        for (key, value) in seal_parts(stamp, key_of, first, &payload.bytes) {
            self.expect_absent(&key);
            self.write(key, Some(value));
            next += 1;
        }
        next
    }

    /// Appends events to a session that has `seq` events. They go into the value of the events that
    /// this commit appended before, if they fit.
    pub fn append_events(&mut self, id: SessionId, seq: u64, batch: &EventBatch) {
        let room = part_len_bytes(|part| Key::event(id, seq, part));
        let end = seq + batch.digests.len() as u64;
        let added = &batch.rest.bytes;
        // A tail from before a rollback does not end at the session's end.
        let before = self.tails.remove(&id).filter(|tail| {
            tail.end == seq
                && batch.staged_parts == 0
                && tail.payload.bytes.len() + added.len() <= room
        });
        let tail = match before {
            Some(mut tail) => {
                tail.payload.bytes.extend_from_slice(added);
                Tail { end, ..tail }
            }
            None => Tail {
                first: seq,
                end,
                payload: batch.rest.clone(),
            },
        };
        let first = tail.first;
        self.create_parts(
            &tail.payload,
            |part| Key::event(id, first, part),
            batch.staged_parts,
            false,
        );
        if batch.staged_parts == 0 {
            self.tails.insert(id, tail);
        }
    }

    /// Removes the value of a key, if any.
    pub fn remove(&mut self, key: Key) {
        self.write(key, None);
    }

    /// Removes at most `limit` entries of a range. Returns the number removed.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn remove_range(&mut self, range: &KeyRange, limit: usize) -> Result<usize, StorageError> {
        let found = self.scan(range, limit)?;
        let count = found.len();
        found.into_iter().for_each(|(key, _)| self.remove(key));
        Ok(count)
    }

    /// Returns the batch to commit, and the old values of the keys that it changes.
    ///
    /// # Errors
    /// Errors of the storage from reading the old values.
    pub fn finish(mut self) -> Result<(Batch, BTreeMap<Key, Option<Value>>), StorageError> {
        let mut before = BTreeMap::new();
        let mut records = i128::from(self.totals.records);
        for (key, value) in &self.writes {
            let old = if self.absent.contains(key) {
                None
            } else {
                self.storage.get(key)?
            };
            records += i128::from(value.is_some()) - i128::from(old.is_some());
            before.insert(key.clone(), old);
        }
        // A key created and removed within the commit needs no write.
        self.writes
            .retain(|key, value| value.is_some() || before.get(key).is_some_and(Option::is_some));
        let key = Key::totals();
        let old = self.storage.get(&key)?;
        records += i128::from(old.is_none());
        self.totals.records = u64::try_from(records).unwrap_or(0);
        let value = seal_record(&key, &self.totals, self.totals.commit);
        before.insert(key.clone(), old);
        self.writes.insert(key, Some(value));
        Ok((
            Batch {
                totals: self.totals,
                writes: self.writes,
            },
            before,
        ))
    }
}

impl ReadStore for Txn<'_> {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        match self.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.storage.get(key),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        scan_under(self.storage, &self.writes, range, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{
        format::record::{Edge, load},
        keys::{EdgeKind, SessionId},
        store::memory::MemoryStorage,
    };

    fn edge(child: u8) -> (Key, Edge) {
        let key = Key::edge(SessionId([1; 16]), EdgeKind::Shares, SessionId([child; 16]));
        (
            key,
            Edge {
                shares_events: Some(u64::from(child)),
            },
        )
    }

    fn commit(storage: &MemoryStorage, totals: Totals, change: impl Fn(&mut Txn<'_>)) -> Totals {
        let mut txn = Txn::begin(storage, totals);
        change(&mut txn);
        let (batch, _) = txn.finish().unwrap();
        storage.commit(&batch).unwrap();
        batch.totals
    }

    #[test]
    fn a_commit_sees_its_own_changes_and_counts_records() {
        let storage = MemoryStorage::default();
        let totals = commit(&storage, Totals::default(), |txn| {
            for (key, edge) in [edge(2), edge(3)] {
                txn.create(key, &edge);
            }
        });
        assert_eq!((totals.commit, totals.records), (1, 3));
        let totals = commit(&storage, totals, |txn| {
            txn.remove(edge(2).0);
            txn.put(edge(3).0, &edge(9).1);
            txn.put(edge(4).0, &edge(4).1);
            let range = KeyRange::edges(SessionId([1; 16]), EdgeKind::Shares);
            let keys: Vec<_> = txn
                .scan(&range, 9)
                .unwrap()
                .into_iter()
                .map(|e| e.0)
                .collect();
            assert_eq!(keys, [edge(3).0, edge(4).0]);
            assert_eq!(txn.scan(&range, 1).unwrap().len(), 1);
        });
        assert_eq!((totals.commit, totals.records), (2, 3));
        assert_eq!(storage.entries().len() as u64, totals.records);
    }

    #[test]
    fn rollback_restores_the_savepoint() {
        let storage = MemoryStorage::default();
        let mut txn = Txn::begin(&storage, Totals::default());
        txn.put(edge(2).0, &edge(2).1);
        let savepoint = txn.savepoint();
        txn.put(edge(2).0, &edge(9).1);
        txn.put(edge(3).0, &edge(3).1);
        txn.totals.sessions += 1;
        txn.roll_back(&savepoint);
        assert_eq!(load::<Edge>(&txn, &edge(2).0).unwrap(), Some(edge(2).1));
        assert_eq!(load::<Edge>(&txn, &edge(3).0).unwrap(), None);
        assert_eq!(txn.totals.sessions, 0);
    }
}
