//! Files mapped into memory: reading a tensor is what touches the disk.

use std::{
    fs::File,
    ops::{Deref, Range},
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use super::LoadError;

/// A file mapped into memory, read-only.
pub(super) struct MappedFile {
    path: PathBuf,
    map: Mmap,
}

impl MappedFile {
    /// Maps the whole of a regular file that is not empty.
    pub(super) fn open(path: &Path) -> Result<Self, LoadError> {
        Self::map(path).map_err(|fault| fault.in_file(path))
    }

    fn map(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(|e| format!("cannot be opened: {e}"))?;
        let metadata = file
            .metadata()
            .map_err(|e| format!("cannot be examined: {e}"))?;
        if !metadata.is_file() {
            return Err("is not a file".into());
        }
        if metadata.len() == 0 {
            return Err("is empty".into());
        }
        #[expect(unsafe_code, reason = "a memory map is the point of this file")]
        // SAFETY: the map is read-only and private to this struct. The bytes can change only if
        // another process rewrites the file in place meanwhile: every value is decoded by copy and
        // no bit pattern of the element types is invalid, so that spoils numbers but not memory,
        // and a file cut short in place ends the process (SIGBUS) rather than reading elsewhere.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| format!("cannot be mapped: {e}"))?;
        Ok(Self {
            path: path.to_owned(),
            map,
        })
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a range, or an error where it leaves the file.
    pub(super) fn range(&self, name: &str, range: &Range<usize>) -> Result<&[u8], LoadError> {
        self.map.get(range.clone()).ok_or_else(|| {
            LoadError::tensor(name, "reaches past the end of the file").in_file(&self.path)
        })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
