//! The storage over sled 0.34: the only place that knows which engine keeps the bytes.
//!
//! Measured rules, without which that engine loses acknowledged data: on Linux its flush does not sync, so
//! what it calls there is replaced by what does; no value exceeds 4 KiB, as larger ones
//! land in files that are never synced; nothing is accepted after a failed sync; what the store
//! must hold is stated outside of it and compared before the engine touches a file, because it
//! rewrites a damaged one when opening it; and its panics are caught.

mod db;
#[cfg(target_os = "linux")]
mod fdatasync_shim;
mod files;
mod log_check;
mod manifest;
mod open;
mod paths;
mod writer;

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use super::{
    super::{
        format::record::load,
        keys::{Key, KeyRange},
    },
    Batch, ReadStore, Storage, StorageError, Totals, Value,
};
use db::Db;
use paths::Paths;
use writer::{Writer, WriterState};

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SledOptions {
    /// Memory for pages of the tree, in bytes.
    pub cache_bytes: u64,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
        }
    }
}

/// A store in a folder, for this process alone.
pub struct SledStorage {
    paths: Paths,
    options: SledOptions,
    store: [u8; 16],
    db: RwLock<Db>,
    writer: Mutex<Writer>,
    counters: Counters,
    lock: File,
}

/// What writing has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteStats {
    /// Commits that became durable.
    pub commits: u64,
    /// Times that the engine was told to make its buffers durable.
    pub flushes: u64,
    /// Files synced; the engine's once for each flush, though it syncs it for each of its buffers.
    pub syncs: u64,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    flushes: AtomicU64,
    syncs: AtomicU64,
}

impl SledStorage {
    /// Opens the store in `dir`, or makes one there.
    ///
    /// # Errors
    /// [`StorageError::Refused`] with a sentence if another process uses it, if a newer program
    /// wrote it, or if it does not hold what its manifest says.
    pub fn open(dir: &Path, options: &SledOptions) -> Result<Self, StorageError> {
        open::open(dir, options)
    }

    /// A folder for a store that is to replace this one; the next opening removes it if it did not.
    ///
    /// # Errors
    /// From removing what an earlier attempt left.
    pub fn begin_replacement(&self) -> Result<PathBuf, StorageError> {
        let dir = self.paths.replacement();
        files::remove_tree(&dir)?;
        Ok(dir)
    }

    /// Closes this store and puts the one in the replacement folder in its place, durably. A crash
    /// on the way leaves either.
    ///
    /// # Errors
    /// From closing, renaming and removing.
    pub fn replace(self) -> Result<(), StorageError> {
        self.close()?;
        let new = Paths {
            dir: self.paths.replacement(),
        };
        files::rename_dir(&self.paths.store(), &self.paths.old_store())?;
        files::rename_dir(&new.store(), &self.paths.store())?;
        files::sync_dir(&self.paths.dir)?;
        files::remove_tree(&self.paths.old_store())?;
        files::remove_tree(&new.dir)
    }

    /// What commits have cost since the store was opened.
    pub fn write_stats(&self) -> WriteStats {
        WriteStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            flushes: self.counters.flushes.load(Ordering::Relaxed),
            syncs: self.counters.syncs.load(Ordering::Relaxed),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Db) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        read(&self.db.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn try_commit(&self, writer: &mut Writer, batch: &Batch) -> Result<(), StorageError> {
        writer.write_manifest(false, &self.paths)?;
        // The manifest states what is durable already, so it need not wait for the engine.
        let (manifest, durable) = (&writer.manifest, writer.durable.commit);
        let sync = |file: &dyn Fn() -> Result<(), StorageError>| {
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            file()
        };
        thread::scope(|scope| {
            let manifest_sync = scope.spawn(|| sync(&|| manifest.sync()));
            self.counters.flushes.fetch_add(1, Ordering::Relaxed);
            let written = sync(&|| self.read(|db| db.write(&batch.writes)));
            if let Err(StorageError::Failed(_)) = written {
                self.reopen_for_reads(durable);
            }
            written?;
            manifest_sync
                .join()
                .unwrap_or_else(|_| Err(StorageError::Failed("the sync panicked".into())))
        })
    }

    /// Makes the engine readable again after its disk was full.
    fn reopen_with_reserve(&self, writer: &mut Writer) -> Result<(), StorageError> {
        files::free_reserve(&self.paths.reserve())?;
        self.reopen(writer)
    }

    /// After a failed write the engine refuses reads of every page that the write had changed, and
    /// those may be all. Opened again it does not. No commit follows, and readers still get the values
    /// from before the write.
    fn reopen_for_reads(&self, durable: u64) {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        db.close();
        let opened = Db::open(&self.paths.sled_dir(), self.options.cache_bytes);
        match opened.and_then(|opened| {
            check_reopened(&opened, durable)?;
            Ok(opened)
        }) {
            Ok(opened) => *db = opened,
            Err(error) => tracing::error!(%error, "session log reopen for reads failed"),
        }
    }

    /// Closes the engine and opens it again over the same file.
    fn reopen(&self, writer: &mut Writer) -> Result<(), StorageError> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        db.close();
        writer.sync(&self.paths)?;
        *db = Db::open(&self.paths.sled_dir(), self.options.cache_bytes)?;
        let found = check_reopened(&db, writer.durable.commit)?;
        db.flush()?;
        files::sync_tree(&self.paths.sled_dir())?;
        writer.durable = found;
        Ok(())
    }
}

/// The totals in an engine that was opened again: of the commit that was durable, or of the one
/// after it, which then was written in whole.
fn check_reopened(db: &Db, durable: u64) -> Result<Totals, StorageError> {
    let found = load::<Totals>(db, &Key::totals())?.unwrap_or_default();
    if found.commit != durable && found.commit != durable + 1 {
        return Err(StorageError::Failed(format!(
            "opened again, the log ends with commit {} where {durable} was durable",
            found.commit
        )));
    }
    Ok(found)
}

impl Storage for SledStorage {
    fn id(&self) -> [u8; 16] {
        self.store
    }

    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.read(|db| db.get(key))
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        self.read(|db| db.scan(range, limit))
    }

    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        let mut writer = self.writer();
        match &writer.state {
            WriterState::Ready => {}
            WriterState::Full(why) => return Err(StorageError::Full(why.clone())),
            WriterState::Failed(why) => return Err(StorageError::Failed(why.clone())),
        }
        let committed = self.try_commit(&mut writer, batch);
        match &committed {
            Ok(()) => {
                writer.durable = batch.totals;
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(StorageError::Full(why)) => {
                writer.state = WriterState::Full(why.clone());
                // The engine refuses some reads after a failed write, too.
                if let Err(error) = self.reopen_with_reserve(&mut writer) {
                    tracing::error!(%error, "session log reopen on full disk failed");
                }
            }
            Err(error) => writer.state = WriterState::Failed(error.to_string()),
        }
        committed
    }

    fn recover(&self) -> Result<(), StorageError> {
        let mut writer = self.writer();
        match &writer.state {
            WriterState::Ready => return Ok(()),
            WriterState::Failed(why) => return Err(StorageError::Failed(why.clone())),
            WriterState::Full(_) => files::allocate_reserve(&self.paths.reserve())?,
        }
        let recovered = match self.read(Db::flush) {
            Ok(()) => Ok(()),
            Err(_) => self.reopen(&mut writer),
        };
        writer.state = match &recovered {
            Ok(()) => WriterState::Ready,
            Err(StorageError::Full(why)) => WriterState::Full(why.clone()),
            Err(error) => WriterState::Failed(error.to_string()),
        };
        recovered
    }

    fn close(&self) -> Result<(), StorageError> {
        let mut writer = self.writer();
        if let WriterState::Failed(why) | WriterState::Full(why) = &writer.state {
            return Err(StorageError::Failed(why.clone()));
        }
        let flushed = self.read(Db::flush);
        self.db
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .close();
        let closed = flushed
            .and_then(|()| writer.sync(&self.paths))
            .and_then(|()| writer.write_manifest(true, &self.paths))
            .and_then(|()| writer.manifest.sync());
        writer.state = WriterState::Failed("the store is closed".into());
        // Whoever still holds the store reads nothing any more; another may open it.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "session folder unlock failed");
        }
        closed
    }
}
