//! A storage for tests: fails on request, and loses unsynced writes at a crash.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    super::keys::{Key, KeyRange},
    Batch, Storage, StorageError, Value,
    memory::MemoryStorage,
};
use crate::lock::IgnorePoison as _;

/// A fault of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full before anything is written.
    FullBeforeWrite,
    /// The disk is full after everything is written and before it is synced.
    FullBeforeSync,
    /// The sync fails.
    SyncFails,
    /// The process dies before the write.
    CrashBeforeWrite,
    /// The process dies between write and sync.
    CrashBeforeSync,
    /// The process dies after the sync, before the reply.
    CrashAfterSync,
}

/// The fate of unsynced writes at a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// They are lost.
    Lost,
    /// They reached the disk.
    Kept,
    /// A random subset reached the disk, by this seed: the storage breaks its atomicity promise.
    Torn(u64),
}

#[derive(Default)]
struct State {
    durable: BTreeMap<Key, Value>,
    unsynced: BTreeMap<Key, Option<Value>>,
    /// The number of commits before the fault, and the fault.
    fault_in: Option<(u64, Fault)>,
    /// The number of reads before a read fails.
    read_fault_in: Option<u64>,
    full: bool,
    failed: Option<String>,
}

/// A storage in memory with a durable state beside the visible one.
#[derive(Default)]
pub struct FaultyStorage {
    visible: MemoryStorage,
    state: Mutex<State>,
}

impl FaultyStorage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }

    /// Injects a fault into the commit after `commits` further ones.
    pub fn fail_after(&self, commits: u64, fault: Fault) {
        self.state().fault_in = Some((commits, fault));
    }

    /// Injects an error into the read after `reads` further ones.
    pub fn fail_read_after(&self, reads: u64) {
        self.state().read_fault_in = Some(reads);
    }

    /// Frees space on the full disk.
    pub fn free_space(&self) {
        self.state().full = false;
    }

    /// Returns the storage as a new process finds it.
    pub fn restarted(&self, loss: Loss) -> Self {
        let state = self.state();
        let mut durable = state.durable.clone();
        let mut rng = SmallRng::seed_from_u64(if let Loss::Torn(seed) = loss { seed } else { 0 });
        for (key, value) in &state.unsynced {
            let kept = match loss {
                Loss::Lost => false,
                Loss::Kept => true,
                Loss::Torn(_) => rng.random(),
            };
            if kept {
                write(&mut durable, key, value.clone());
            }
        }
        let visible = MemoryStorage::holding(durable.clone());
        Self {
            visible,
            state: Mutex::new(State {
                durable,
                ..State::default()
            }),
        }
    }

    /// Returns the keys that are written but not synced.
    pub fn unsynced_keys(&self) -> Vec<Key> {
        self.state().unsynced.keys().cloned().collect()
    }

    fn due_fault(&self) -> Option<Fault> {
        let mut state = self.state();
        match state.fault_in {
            Some((0, fault)) => {
                state.fault_in = None;
                Some(fault)
            }
            Some((commits, fault)) => {
                state.fault_in = Some((commits - 1, fault));
                None
            }
            None => None,
        }
    }

    fn check_read(&self) -> Result<(), StorageError> {
        let mut state = self.state();
        match state.read_fault_in {
            Some(0) => {
                state.read_fault_in = None;
                Err(StorageError::Damaged("injected".into()))
            }
            reads => {
                state.read_fault_in = reads.map(|reads| reads - 1);
                Ok(())
            }
        }
    }

    fn fail(&self, why: &str) -> StorageError {
        self.state().failed = Some(why.into());
        StorageError::Failed(why.into())
    }

    fn fill(&self) -> StorageError {
        self.state().full = true;
        StorageError::Full("injected".into())
    }

    fn write(&self, batch: &Batch) -> Result<(), StorageError> {
        self.state().unsynced = batch.writes.clone();
        self.visible.commit(batch)
    }

    fn sync(&self) {
        let mut state = self.state();
        for (key, value) in std::mem::take(&mut state.unsynced) {
            write(&mut state.durable, &key, value);
        }
    }
}

fn write(entries: &mut BTreeMap<Key, Value>, key: &Key, value: Option<Value>) {
    match value {
        Some(value) => entries.insert(key.clone(), value),
        None => entries.remove(key),
    };
}

impl Storage for FaultyStorage {
    fn id(&self) -> [u8; 16] {
        self.visible.id()
    }

    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.check_read()?;
        self.visible.get(key)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.check_read()?;
        self.visible.scan(range, limit)
    }

    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        if let Some(why) = self.state().failed.clone() {
            return Err(StorageError::Failed(why));
        }
        if self.state().full {
            return Err(self.fill());
        }
        let fault = self.due_fault();
        match fault {
            Some(Fault::FullBeforeWrite) => return Err(self.fill()),
            Some(Fault::CrashBeforeWrite) => return Err(self.fail("crashed")),
            _ => self.write(batch)?,
        }
        match fault {
            Some(Fault::FullBeforeSync) => return Err(self.fill()),
            Some(Fault::SyncFails) => return Err(self.fail("the sync failed")),
            Some(Fault::CrashBeforeSync) => return Err(self.fail("crashed")),
            _ => self.sync(),
        }
        match fault {
            Some(Fault::CrashAfterSync) => Err(self.fail("crashed")),
            _ => Ok(()),
        }
    }

    fn recover(&self) -> Result<(), StorageError> {
        if let Some(why) = self.state().failed.clone() {
            return Err(StorageError::Failed(why));
        }
        if self.state().full {
            return Err(StorageError::Full("still".into()));
        }
        self.sync();
        Ok(())
    }

    fn close(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
