//! The files and folders of a store.

use std::path::PathBuf;

/// The paths of a store.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) dir: PathBuf,
}

impl Paths {
    /// The folder that a backup must contain.
    pub(super) fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    /// The folder of sled.
    pub(super) fn sled_dir(&self) -> PathBuf {
        self.store().join("log")
    }

    /// The data file of sled.
    pub(super) fn db_file(&self) -> PathBuf {
        self.sled_dir().join("db")
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.store().join("manifest")
    }

    /// The disk reserve, which is freed when the disk is full.
    pub(super) fn reserve(&self) -> PathBuf {
        self.store().join("reserve")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// A store in creation.
    pub(super) fn new_store(&self) -> PathBuf {
        self.dir.join("store.new")
    }

    /// The previous store, during a replacement.
    pub(super) fn old_store(&self) -> PathBuf {
        self.dir.join("store.old")
    }

    /// The folder with a new store that will replace this one.
    pub(super) fn replacement(&self) -> PathBuf {
        self.dir.join("replacement")
    }

    /// The copy for a trial open.
    pub(super) fn trial(&self) -> PathBuf {
        self.dir.join("rehearsal")
    }
}
