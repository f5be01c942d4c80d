//! The state that only the writer uses: the manifest, and the last durable commit.

use std::fs::File;

use super::{files, log_check, manifest::ManifestFile, paths::Paths};
use crate::session::{
    format::{migrate::FORMAT_VERSION, record::Manifest},
    store::{StorageError, Totals},
};

/// What only the writer touches.
pub(super) struct Writer {
    /// Sled's file through a handle of our own, to sync it.
    pub(super) db_file: File,
    pub(super) manifest: ManifestFile,
    /// The last durable commit.
    pub(super) durable: Totals,
    pub(super) state: WriterState,
}

pub(super) enum WriterState {
    Ready,
    /// Recoverable.
    Full(String),
    /// For good.
    Failed(String),
}

impl Writer {
    /// States the last durable commit in the manifest, without syncing that.
    pub(super) fn write_manifest(
        &mut self,
        closed: bool,
        paths: &Paths,
    ) -> Result<(), StorageError> {
        let len = self
            .db_file
            .metadata()
            .map_err(files::failed("reading the length of", &paths.db_file()))?
            .len();
        let manifest = Manifest {
            version: FORMAT_VERSION,
            totals: self.durable,
            db_len_bytes: len,
            log_end: if closed {
                log_check::check(&paths.sled_dir())?.end
            } else {
                0
            },
            closed,
            ..self.manifest.current
        };
        self.manifest.write(manifest)
    }

    /// Makes all that was written durable.
    pub(super) fn sync(&self, paths: &Paths) -> Result<(), StorageError> {
        sync_db(&self.db_file, paths)?;
        self.manifest.sync()
    }
}

/// Makes durable what the engine wrote, whatever it was.
fn sync_db(db: &File, paths: &Paths) -> Result<(), StorageError> {
    // An error here may have dropped dirty pages, whatever its kind: no retry can tell.
    db.sync_data().map_err(|error| {
        StorageError::Failed(format!("syncing {}: {error}", paths.db_file().display()))
    })
}
