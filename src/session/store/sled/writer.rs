//! The state that only the writer uses: the manifest, and the last durable commit.

use std::fs::File;

use super::{files, log_check, manifest::ManifestFile, paths::Paths};
use crate::session::{
    format::{migrate::FORMAT_VERSION, record::Manifest},
    store::{StorageError, Totals},
};

/// The state of the writer.
pub(super) struct Writer {
    /// A second handle of sled's file, to sync it.
    pub(super) db_file: File,
    pub(super) manifest: ManifestFile,
    /// The last durable commit.
    pub(super) durable: Totals,
    pub(super) state: WriterState,
}

pub(super) enum WriterState {
    Ready,
    /// The disk is full. Recoverable.
    Full(String),
    /// Writes fail until the store is opened again.
    Failed(String),
}

impl Writer {
    /// Writes the last durable commit into the manifest, without a sync.
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

    /// Syncs sled's file and the manifest.
    pub(super) fn sync(&self, paths: &Paths) -> Result<(), StorageError> {
        sync_db(&self.db_file, paths)?;
        self.manifest.sync()
    }
}

/// Syncs sled's file with `fdatasync`.
fn sync_db(db: &File, paths: &Paths) -> Result<(), StorageError> {
    // After a failed sync dirty pages may be lost, whatever the error. So it is never retried.
    db.sync_data().map_err(|error| {
        StorageError::Failed(format!("syncing {}: {error}", paths.db_file().display()))
    })
}
