//! What the log asks of the engine that keeps its bytes, and nothing of how the engine does it.

#[cfg(any(test, feature = "scripted"))]
pub mod faulty;
pub mod memory;
pub mod sled;

use std::collections::BTreeMap;

pub use super::format::v1::Totals;
use super::keys::{Key, KeyRange};

/// The bytes of one stored value: a whole envelope.
pub type Value = Vec<u8>;

/// Changes that happen together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// What the store holds after the batch; a storage may keep them outside of the tree, too.
    pub totals: Totals,
    /// The new value of each key; `None` removes it.
    pub writes: BTreeMap<Key, Option<Value>>,
}

/// An ordered map from keys to values that survives crashes and power cuts.
///
/// There is one writer, which never calls [`Storage::commit`] twice at once. Reads may run beside a
/// commit and then see its writes or not: [`super::txn::durable_view::View`] hides what is not durable yet.
pub trait Storage: Send + Sync {
    /// Random, and the same for as long as the store exists.
    fn id(&self) -> [u8; 16];

    /// The value of one key.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if the engine cannot make sense of what it finds.
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError>;

    /// The first `limit` entries of a range, in the order of their keys.
    ///
    /// # Errors
    /// As [`Storage::get`].
    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError>;

    /// Makes all of a batch durable, or none of it: after `Ok` it survives a power cut.
    ///
    /// # Errors
    /// After an error the batch may or may not be there, in whole; [`Storage::recover`] finds out.
    fn commit(&self, batch: &Batch) -> Result<(), StorageError>;

    /// Tries to bring the store back into service after an error that allows it. Afterwards what
    /// can be read is durable.
    ///
    /// # Errors
    /// [`StorageError::Full`] while there is still no space; [`StorageError::Failed`] for good.
    fn recover(&self) -> Result<(), StorageError>;

    /// Ends the use of the store in order; nothing but reads may follow.
    ///
    /// # Errors
    /// If the last state could not be made durable. Everything committed before is.
    fn close(&self) -> Result<(), StorageError>;
}

/// Why a storage did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// There is no space for writes; reads go on, and [`Storage::recover`] may succeed later.
    #[error("there is no space left for the session log: {0}")]
    Full(String),
    /// Writing or syncing failed: what was written since the last commit may be lost, and no write
    /// is accepted until the store is opened anew. Reads go on.
    #[error("the session log could not be written: {0}")]
    Failed(String),
    /// What was read cannot be right.
    #[error("the session log is damaged: {0}")]
    Damaged(String),
    /// The store must not be opened; the sentence says why and what to do.
    #[error("{0}")]
    Refused(String),
}

/// Something that can be read like a storage.
pub trait ReadStore {
    /// The value of one key.
    ///
    /// # Errors
    /// As [`Storage::get`].
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError>;

    /// The first `limit` entries of a range.
    ///
    /// # Errors
    /// As [`Storage::scan`].
    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError>;
}

/// Reads a storage directly. To be used while nothing else uses the storage.
pub struct Direct<'a>(pub &'a dyn Storage);

impl ReadStore for Direct<'_> {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.0.get(key)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.0.scan(range, limit)
    }
}

/// Reads a range as if `overlay` were written over the storage.
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
    // Each key of the overlay hides at most one of the storage's entries.
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
