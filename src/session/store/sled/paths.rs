//! The files and folders of a store.

use std::path::PathBuf;

/// Where the parts of a store lie.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) dir: PathBuf,
}

impl Paths {
    /// What a backup has to hold.
    pub(super) fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    /// Sled's folder.
    pub(super) fn sled_dir(&self) -> PathBuf {
        self.store().join("log")
    }

    /// Sled's file.
    pub(super) fn db_file(&self) -> PathBuf {
        self.sled_dir().join("db")
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.store().join("manifest")
    }

    /// Space to fall back on when the disk is full.
    pub(super) fn reserve(&self) -> PathBuf {
        self.store().join("reserve")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// A store that is being made.
    pub(super) fn new_store(&self) -> PathBuf {
        self.dir.join("store.new")
    }

    /// A store that was replaced.
    pub(super) fn old_store(&self) -> PathBuf {
        self.dir.join("store.old")
    }

    /// A folder with a store that is to replace this one.
    pub(super) fn replacement(&self) -> PathBuf {
        self.dir.join("replacement")
    }

    /// A copy on which a doubtful opening is tried.
    pub(super) fn trial(&self) -> PathBuf {
        self.dir.join("rehearsal")
    }
}
