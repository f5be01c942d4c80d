//! Storages for tests that count operations or stop at a gate.

use std::sync::{
    atomic::{AtomicU64, Ordering::Relaxed},
    mpsc,
};

use crate::session::{
    keys::{Key, KeyRange},
    store::{Batch, Storage, StorageError, Value, memory::MemoryStorage},
};

/// A storage that counts reads and records the largest batch.
#[derive(Default)]
pub(super) struct CountingStorage {
    pub(super) inner: MemoryStorage,
    reads: AtomicU64,
    pub(super) largest_batch_bytes: AtomicU64,
}

impl CountingStorage {
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    fn count(&self) {
        self.reads.fetch_add(1, Relaxed);
    }
}

impl Storage for CountingStorage {
    fn id(&self) -> [u8; 16] {
        self.inner.id()
    }

    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.count();
        self.inner.get(key)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.count();
        self.inner.scan(range, limit)
    }

    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let bytes: usize = batch.writes.values().flatten().map(Vec::len).sum();
        self.largest_batch_bytes.fetch_max(bytes as u64, Relaxed);
        self.inner.commit(batch)
    }

    fn recover(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn close(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// A storage that stops each commit between write and sync, and can make it fail.
pub(super) struct GatedStorage {
    pub(super) inner: MemoryStorage,
    pub(super) gate: std::sync::Mutex<Option<(mpsc::SyncSender<()>, mpsc::Receiver<bool>)>>,
}

impl Storage for GatedStorage {
    fn id(&self) -> [u8; 16] {
        self.inner.id()
    }

    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.inner.get(key)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.inner.scan(range, limit)
    }

    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        self.inner.commit(batch)?;
        let gate = self.gate.lock().unwrap();
        let Some((at_sync, wait)) = &*gate else {
            return Ok(());
        };
        at_sync.send(()).unwrap();
        if wait.recv().unwrap() {
            return Ok(());
        }
        Err(StorageError::Failed("injected".into()))
    }

    fn recover(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn close(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
