//! The manifest: a small file outside sled that states what the store must contain.
//!
//! Given a damaged or truncated file, sled may open with less data, or with none, without an error.
//! The manifest records a durable state, never a later one: each commit writes the state of the
//! commit before it. There are two slots of one page each, written in turn. So a torn write leaves
//! the other slot intact.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::files;
use crate::session::{
    format::{
        codec::envelope_len,
        record::{Manifest, open_record, seal_record},
    },
    keys::Key,
    store::StorageError,
};

const SLOT_LEN_BYTES: usize = 4096;

/// The open manifest file.
#[derive(Debug)]
pub(super) struct ManifestFile {
    file: File,
    path: PathBuf,
    /// The newest manifest.
    pub(super) current: Manifest,
}

impl ManifestFile {
    /// Creates the file with its first manifest, durably.
    pub(super) fn create(path: &Path, first: Manifest) -> Result<Self, StorageError> {
        let file = files::open_private(path)?;
        let empty = vec![0; 2 * SLOT_LEN_BYTES];
        file.write_all_at(&empty, 0)
            .map_err(files::failed("writing", path))?;
        let mut manifest = Self {
            file,
            path: path.to_owned(),
            current: first,
        };
        manifest.write(first)?;
        manifest.sync()?;
        Ok(manifest)
    }

    /// Opens the file and reads its newest valid slot.
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        let unreadable = || {
            StorageError::Refused(format!(
                "{} cannot be read, so nothing says what the session log must hold: restore it \
                 from a backup, or rescue what is there with `stemma sessions export --carve`",
                path.display()
            ))
        };
        let file = files::open_existing(path).map_err(|_| unreadable())?;
        let mut slots = vec![0; 2 * SLOT_LEN_BYTES];
        file.read_exact_at(&mut slots, 0)
            .map_err(|_| unreadable())?;
        let manifests = slots.chunks_exact(SLOT_LEN_BYTES).filter_map(read_slot);
        let newest = manifests.max_by_key(|manifest| manifest.generation);
        let current = newest.ok_or_else(unreadable)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            current,
        })
    }

    /// Writes a new manifest into the older slot, without a sync.
    pub(super) fn write(&mut self, next: Manifest) -> Result<(), StorageError> {
        let generation = self.current.generation + 1;
        let next = Manifest { generation, ..next };
        let slot = seal_record(&slot_key(), &next, generation);
        let at = (generation % 2) * SLOT_LEN_BYTES as u64;
        self.file
            .write_all_at(&slot, at)
            .map_err(files::failed("writing", &self.path))?;
        self.current = next;
        Ok(())
    }

    /// Syncs the file.
    pub(super) fn sync(&self) -> Result<(), StorageError> {
        self.file
            .sync_data()
            .map_err(files::failed("syncing", &self.path))
    }
}

fn slot_key() -> Key {
    Key::from_bytes(b"manifest")
}

fn read_slot(slot: &[u8]) -> Option<Manifest> {
    let len = envelope_len(slot).ok()?;
    open_record(&slot_key(), slot.get(..len)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::store::Totals;

    fn at(commit: u64) -> Manifest {
        Manifest {
            version: 1,
            store: [5; 16],
            generation: 0,
            totals: Totals {
                commit,
                ..Totals::default()
            },
            db_len_bytes: 7,
            log_end: 0,
            closed: false,
        }
    }

    #[test]
    fn the_newest_valid_slot_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        let mut manifest = ManifestFile::create(&path, at(1)).unwrap();
        manifest.write(at(2)).unwrap();
        manifest.write(at(3)).unwrap();
        assert_eq!(ManifestFile::open(&path).unwrap().current.totals.commit, 3);
        let torn_slot = (manifest.current.generation % 2) * SLOT_LEN_BYTES as u64;
        manifest.file.write_all_at(&[0xff], torn_slot + 30).unwrap();
        let mut older = ManifestFile::open(&path).unwrap();
        assert_eq!(older.current.totals.commit, 2);
        older.write(at(4)).unwrap();
        assert_eq!(ManifestFile::open(&path).unwrap().current.totals.commit, 4);
    }

    #[test]
    fn a_manifest_without_a_valid_slot_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        std::fs::write(&path, [0; 100]).unwrap();
        let refused = ManifestFile::open(&path).unwrap_err();
        assert!(matches!(refused, StorageError::Refused(text) if text.contains("--carve")));
    }
}
