//! The storage interface of the log: an ordered key-value map with atomic, durable commits.

#[cfg(any(test, feature = "scripted"))]
pub mod faulty;
pub mod memory;
pub mod sled;

use std::collections::BTreeMap;

pub use super::format::v1::Totals;
use super::keys::{Key, KeyRange};

/// The bytes of one stored value: one whole envelope.
pub type Value = Vec<u8>;

/// Changes that are applied atomically.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The store's totals after the batch. A storage may also keep them outside of the tree.
    pub totals: Totals,
    /// The new value of each key; `None` removes the key.
    pub writes: BTreeMap<Key, Option<Value>>,
}

/// An ordered key-value map that survives crashes and power cuts.
///
/// There is one writer, which never runs two commits at once. Reads may run beside a commit and
/// then see its writes or not. [`DurableView`](super::txn::durable_view::DurableView) hides writes
/// that are not durable yet.
pub trait Storage: Send + Sync {
    /// Returns the store's random id, which never changes.
    fn id(&self) -> [u8; 16];

    /// Returns the value of a key, or `None`.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if the store's files are damaged.
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError>;

    /// Returns the first `limit` entries of a range, in key order.
    ///
    /// # Errors
    /// As [`Storage::get`].
    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError>;

    /// Applies a batch atomically and makes it durable. After `Ok` the batch survives a power cut.
    ///
    /// # Errors
    /// After an error the store contains either the whole batch or nothing of it.
    /// [`Storage::recover`] finds out.
    fn commit(&self, batch: &Batch) -> Result<(), StorageError>;

    /// Tries to make the store writable again after a recoverable error. Afterwards all readable
    /// data is durable.
    ///
    /// # Errors
    /// [`StorageError::Full`] while the disk is still full; [`StorageError::Failed`] if writes fail
    /// until a restart.
    fn recover(&self) -> Result<(), StorageError>;

    /// Closes the store cleanly. Writes fail afterwards.
    ///
    /// # Errors
    /// If the last state could not be made durable. Earlier commits are durable.
    fn close(&self) -> Result<(), StorageError>;
}

/// An error of a storage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The disk is full. Reads still work, and [`Storage::recover`] may succeed later.
    #[error("there is no space left for the session log: {0}")]
    Full(String),
    /// A write or sync failed, so unsynced writes may be lost. Writes fail until the store is
    /// opened again. Reads still work.
    #[error("the session log could not be written: {0}")]
    Failed(String),
    /// Stored data is damaged.
    #[error("the session log is damaged: {0}")]
    Damaged(String),
    /// The store must not be opened. The sentence gives the reason and what to do.
    #[error("{0}")]
    Refused(String),
}

/// Read access: a storage, a transaction, a view or an archive.
pub trait ReadStore {
    /// Returns the value of a key, or `None`.
    ///
    /// # Errors
    /// As [`Storage::get`].
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError>;

    /// Returns the first `limit` entries of a range.
    ///
    /// # Errors
    /// As [`Storage::scan`].
    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError>;
}

/// Reads a storage directly. Use it only while no log is running over the storage.
pub struct Direct<'a>(pub &'a dyn Storage);

impl ReadStore for Direct<'_> {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.0.get(key)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.0.scan(range, limit)
    }
}

/// Scans a range as if `overlay` were applied to the storage.
///
/// # Errors
/// As [`Storage::scan`].
pub fn scan_under(
    storage: &dyn Storage,
    overlay: &BTreeMap<Key, Option<Value>>,
    range: &KeyRange,
    limit: usize,
) -> Result<Vec<(Key, Value)>, StorageError> {
    if range.start >= range.end {
        return Ok(Vec::new());
    }
    let over: Vec<_> = overlay
        .range(range.start.clone()..range.end.clone())
        .collect();
    // Each key of the overlay hides at most one entry of the storage.
    let entries = storage.scan(range, limit.saturating_add(over.len()))?;
    if over.is_empty() {
        return Ok(entries);
    }
    let mut merged: BTreeMap<Key, Value> = entries.into_iter().collect();
    for (key, value) in over {
        match value {
            Some(value) => merged.insert(key.clone(), value.clone()),
            None => merged.remove(key),
        };
    }
    Ok(merged.into_iter().take(limit).collect())
}
