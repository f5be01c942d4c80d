//! The storage over sled 0.34, the only module that uses sled.
//!
//! Measurements showed that sled alone loses acknowledged data. Five rules prevent that. (1) On
//! Linux `sync_file_range` is replaced by `fdatasync`, because sled's flush does not sync. (2) No
//! value exceeds 4 KiB, because sled never syncs its blob files. (3) No write is accepted after a
//! failed sync. (4) A manifest outside sled states what the store must contain. It is checked
//! before sled opens a file, because sled rewrites a damaged file on opening. (5) Panics of sled
//! are caught.

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
        Mutex, MutexGuard, RwLock,
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
use crate::lock::IgnorePoison as _;
use db::Db;
use paths::Paths;
use writer::{Writer, WriterState};

/// Options of a sled store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SledOptions {
    /// The size of sled's page cache, in bytes.
    pub cache_bytes: u64,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
        }
    }
}

/// A store in a folder. One process uses it.
pub struct SledStorage {
    paths: Paths,
    options: SledOptions,
    store: [u8; 16],
    db: RwLock<Db>,
    writer: Mutex<Writer>,
    counters: Counters,
    lock: File,
}

/// Counters of write operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteStats {
    /// Commits made durable.
    pub commits: u64,
    /// Flushes of sled.
    pub flushes: u64,
    /// Files synced. sled's file counts once per flush, although sled syncs it once per buffer.
    pub syncs: u64,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    flushes: AtomicU64,
    syncs: AtomicU64,
}

impl SledStorage {
    /// Opens the store in `dir`, or creates one there.
    ///
    /// # Errors
    /// [`StorageError::Refused`] if another process uses the store, a newer program wrote it, or
    /// its content does not match the manifest.
    pub fn open(dir: &Path, options: &SledOptions) -> Result<Self, StorageError> {
        open::open(dir, options)
    }

    /// Returns an empty folder for a store that will replace this one. The next opening removes an
    /// unused folder.
    ///
    /// # Errors
    /// From removing the files of an earlier attempt.
    pub fn begin_replacement(&self) -> Result<PathBuf, StorageError> {
        let dir = self.paths.replacement();
        files::remove_tree(&dir)?;
        Ok(dir)
    }

    /// Closes this store and replaces it by the one in the replacement folder, durably. A crash
    /// leaves one of the two.
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

    /// Returns the write counters since the store was opened.
    pub fn write_stats(&self) -> WriteStats {
        WriteStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            flushes: self.counters.flushes.load(Ordering::Relaxed),
            syncs: self.counters.syncs.load(Ordering::Relaxed),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().ignore_poison()
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Db) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        read(&self.db.read().ignore_poison())
    }

    fn try_commit(&self, writer: &mut Writer, batch: &Batch) -> Result<(), StorageError> {
        writer.write_manifest(false, &self.paths)?;
        // The manifest states the previous, durable commit, so its sync may run beside sled's.
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

    /// Frees the disk reserve and reopens sled, so that reads work on a full disk.
    fn reopen_with_reserve(&self, writer: &mut Writer) -> Result<(), StorageError> {
        files::free_reserve(&self.paths.reserve())?;
        self.reopen(writer)
    }

    /// Reopens sled for reads after a failed write. sled then refuses reads of every page that the
    /// write changed, possibly all pages. A reopened sled serves them. No commit follows, and
    /// readers still get the values from before the write.
    fn reopen_for_reads(&self, durable: u64) {
        let mut db = self.db.write().ignore_poison();
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

    /// Closes sled and opens it again over the same file.
    fn reopen(&self, writer: &mut Writer) -> Result<(), StorageError> {
        let mut db = self.db.write().ignore_poison();
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

/// Returns the totals of a reopened sled. They must be of the durable commit, or of the next one if
/// that was written completely.
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
                // sled refuses some reads after a failed write.
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
        self.db.write().ignore_poison().close();
        let closed = flushed
            .and_then(|()| writer.sync(&self.paths))
            .and_then(|()| writer.write_manifest(true, &self.paths))
            .and_then(|()| writer.manifest.sync());
        writer.state = WriterState::Failed("the store is closed".into());
        // A remaining reference to this store can no longer read, so another process may open the
        // store.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "session folder unlock failed");
        }
        closed
    }
}
