//! The sled database. Errors and panics of sled become [`StorageError`].
//!
//! A damaged file makes sled panic, both on opening and on reading.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    thread,
    time::Duration,
};

use super::files;
use crate::session::{
    keys::{Key, KeyRange},
    store::{ReadStore, StorageError, Value},
};

/// An open sled database. Only its default tree is used.
pub(super) struct Db {
    db: Option<::sled::Db>,
}

impl Db {
    /// Opens or creates the database in a folder. Retries for up to two seconds, because threads of
    /// a database just closed may still hold its lock.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StorageError> {
        let config = || {
            // sled's periodic flusher would swallow sync errors, so it is disabled.
            ::sled::Config::new()
                .path(dir)
                .cache_capacity(cache_bytes)
                .flush_every_ms(None)
        };
        let mut attempts = 0;
        loop {
            match guarded("opening it", || config().open()) {
                Ok(db) => return Ok(Self { db: Some(db) }),
                Err(StorageError::Failed(why))
                    if why.contains("could not acquire lock") && attempts < 100 =>
                {
                    attempts += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn db(&self) -> Result<&::sled::Db, StorageError> {
        self.db
            .as_ref()
            .ok_or_else(|| StorageError::Failed("the store is closed".into()))
    }

    /// Applies changes atomically and flushes; returns when they are durable.
    pub(super) fn write<'a>(
        &self,
        writes: impl IntoIterator<Item = (&'a Key, &'a Option<Value>)>,
    ) -> Result<(), StorageError> {
        let db = self.db()?;
        let mut batch = ::sled::Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(key.as_bytes(), value.as_slice()),
                None => batch.remove(key.as_bytes()),
            }
        }
        guarded("writing it", || db.apply_batch(batch))?;
        self.flush()
    }

    /// Flushes: makes everything written durable.
    pub(super) fn flush(&self) -> Result<(), StorageError> {
        let db = self.db()?;
        guarded("flushing it", || db.flush()).map(|_bytes| ())
    }

    /// Closes the database.
    pub(super) fn close(&mut self) {
        let db = self.db.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

impl ReadStore for Db {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        let db = self.db()?;
        Ok(guarded("reading it", || db.get(key.as_bytes()))?.map(|value| value.to_vec()))
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        let db = self.db()?;
        guarded("reading it", || {
            let found = db
                .range(range.start.as_bytes()..range.end.as_bytes())
                .take(limit);
            found
                .map(|entry| entry.map(|(key, value)| (Key::from_bytes(&key), value.to_vec())))
                .collect()
        })
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.close();
    }
}

/// Calls sled and converts its errors and panics.
fn guarded<T>(doing: &str, call: impl FnOnce() -> ::sled::Result<T>) -> Result<T, StorageError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(::sled::Error::Io(error))) => Err(files::failed(doing, Path::new("db"))(error)),
        Ok(Err(error @ ::sled::Error::Corruption { .. })) => {
            Err(StorageError::Damaged(format!("{doing}: {error}")))
        }
        Ok(Err(error)) => Err(StorageError::Failed(format!("{doing}: {error}"))),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("panic");
            let first_line = text.lines().next().unwrap_or_default();
            Err(StorageError::Damaged(format!(
                "{doing}: sled panicked: {first_line}"
            )))
        }
    }
}
