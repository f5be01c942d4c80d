//! A view of durable commits only, for readers.
//!
//! While a commit is written but not synced, readers get the values from before it. If its sync
//! fails, readers keep getting those values. So no reader sees data that a restart would lose.

use std::{
    collections::BTreeMap,
    sync::{Arc, RwLock, RwLockReadGuard},
};

use super::super::{
    keys::{Key, KeyRange},
    store::{ReadStore, Storage, StorageError, Value, scan_under},
};
use crate::lock::IgnorePoison as _;

/// The durable state of a storage.
pub struct DurableView {
    storage: Arc<dyn Storage>,
    /// The values from before the commit in progress, for every key that the commit changes.
    before: RwLock<BTreeMap<Key, Option<Value>>>,
}

/// A read transaction: one durable state. No commit begins or ends while it lives.
pub struct ReadTxn<'a> {
    storage: &'a dyn Storage,
    before: RwLockReadGuard<'a, BTreeMap<Key, Option<Value>>>,
}

impl DurableView {
    /// Creates a view that treats all data in `storage` as durable.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            before: RwLock::default(),
        }
    }

    /// Begins a read transaction for a short series of reads. Commits wait meanwhile.
    pub fn begin_read(&self) -> ReadTxn<'_> {
        let before = self.before.read().ignore_poison();
        ReadTxn {
            storage: &*self.storage,
            before,
        }
    }

    /// Keeps the old values of a commit visible until the commit is durable.
    pub fn begin_commit(&self, before: BTreeMap<Key, Option<Value>>) {
        *self.before.write().ignore_poison() = before;
    }

    /// Shows the new values: the commit is durable.
    pub fn end_commit(&self) {
        self.begin_commit(BTreeMap::new());
    }
}

impl ReadStore for ReadTxn<'_> {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        match self.before.get(key) {
            Some(before) => Ok(before.clone()),
            None => self.storage.get(key),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        scan_under(self.storage, &self.before, range, limit)
    }
}

impl ReadStore for DurableView {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.begin_read().get(key)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.begin_read().scan(range, limit)
    }
}
