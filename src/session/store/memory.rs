//! A storage in memory. Nothing survives the process.

use std::{collections::BTreeMap, sync::RwLock};

use super::{
    super::keys::{Key, KeyRange},
    Batch, Storage, StorageError, Value,
};
use crate::lock::IgnorePoison as _;

/// A storage over an ordered map.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    entries: RwLock<BTreeMap<Key, Value>>,
}

impl MemoryStorage {
    /// Creates a storage with these entries.
    pub fn holding(entries: BTreeMap<Key, Value>) -> Self {
        Self {
            entries: RwLock::new(entries),
        }
    }

    /// Returns a copy of all entries.
    pub fn entries(&self) -> BTreeMap<Key, Value> {
        self.entries.read().ignore_poison().clone()
    }
}

impl Storage for MemoryStorage {
    fn id(&self) -> [u8; 16] {
        *b"stemma in memory"
    }

    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        Ok(self.entries.read().ignore_poison().get(key).cloned())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        let entries = self.entries.read().ignore_poison();
        let found = entries
            .range(range.start.clone()..range.end.clone())
            .take(limit);
        Ok(found
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let mut entries = self.entries.write().ignore_poison();
        for (key, value) in &batch.writes {
            match value {
                Some(value) => entries.insert(key.clone(), value.clone()),
                None => entries.remove(key),
            };
        }
        Ok(())
    }

    fn recover(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn close(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
