//! File operations of a store: private permissions, durable renames, the folder lock.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::session::store::StorageError;

/// Returns a mapper from an I/O error to a [`StorageError`] that names the step and the file.
pub(super) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let what = format!("{doing} {}", path.display());
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StorageError::Full(format!("{what}: {error}"))
        }
        _ => StorageError::Failed(format!("{what}: {error}")),
    }
}

/// Creates a folder and its parents with mode 0700, durably.
pub(super) fn make_private_dir(dir: &Path) -> Result<(), StorageError> {
    if dir.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(failed("making the folder", dir))?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    }
}

/// Sets mode 0700 on an existing folder. A failure is only logged: the store is in a subfolder that
/// is always private.
pub(super) fn make_private(dir: &Path) {
    let is_open = fs::metadata(dir).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
    if is_open && let Err(error) = set_mode(dir, 0o700) {
        tracing::warn!(%error, "session folder permissions: chmod failed");
    }
}

/// Opens a file for reading and writing; creates it with mode 0600 if it is missing.
pub(super) fn open_private(path: &Path) -> Result<File, StorageError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options.open(path).map_err(failed("opening", path))
}

/// Opens an existing file for reading and writing.
pub(super) fn open_existing(path: &Path) -> Result<File, StorageError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(failed("opening", path))
}

/// Locks the folder for this process. Dropping the file releases the lock.
pub(super) fn lock(path: &Path) -> Result<File, StorageError> {
    let file = open_private(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::Refused(format!(
            "another process is using the session log in {}: stop it first, or give this one \
             another --sessions folder",
            path.parent().unwrap_or(path).display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed("locking", path)(error)),
    }
}

/// Syncs a folder, so that its entries are durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(failed("syncing the folder", dir))
}

/// Syncs a folder with all files and folders below it, and makes them private.
pub(super) fn sync_tree(dir: &Path) -> Result<(), StorageError> {
    let entries = fs::read_dir(dir).map_err(failed("listing", dir))?;
    for entry in entries {
        let path = entry.map_err(failed("listing", dir))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            let file = File::open(&path).map_err(failed("opening", &path))?;
            set_mode(&path, 0o600)?;
            file.sync_all().map_err(failed("syncing", &path))?;
        }
    }
    set_mode(dir, 0o700)?;
    sync_dir(dir)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), StorageError> {
    let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set.map_err(failed("setting the permissions of", path))
}

/// Removes a folder with its contents, if it exists.
pub(super) fn remove_tree(dir: &Path) -> Result<(), StorageError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", dir)(error))
        }
        _ => Ok(()),
    }
}

/// Copies a folder with its contents; the copy is private.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), StorageError> {
    make_private_dir(to)?;
    for entry in fs::read_dir(from).map_err(failed("listing", from))? {
        let path = entry.map_err(failed("listing", from))?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        if path.is_dir() {
            copy_tree(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).map_err(failed("copying", &path))?;
        }
    }
    Ok(())
}

/// Renames a folder and syncs the new parent. If the old parent differs, the caller must sync it.
pub(super) fn rename_dir(from: &Path, to: &Path) -> Result<(), StorageError> {
    fs::rename(from, to).map_err(failed("renaming", from))?;
    to.parent().map_or(Ok(()), sync_dir)
}

/// Allocates the disk reserve, which [`free_reserve`] frees on a full disk so that sled can still
/// be opened and read.
///
/// # Errors
/// [`StorageError::Full`] if there is not enough space.
pub(super) fn allocate_reserve(path: &Path) -> Result<(), StorageError> {
    let reserve = open_private(path)?;
    let kept = reserve
        .metadata()
        .is_ok_and(|found| found.len() == RESERVE_LEN_BYTES as u64);
    if kept {
        return Ok(());
    }
    let written = reserve
        .write_all_at(&vec![0; RESERVE_LEN_BYTES], 0)
        .and_then(|()| reserve.sync_all());
    written.map_err(failed("writing", path)).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

/// Frees the disk reserve, if it exists.
pub(super) fn free_reserve(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", path)(error))
        }
        _ => Ok(()),
    }
}

/// The size of the disk reserve: enough for sled's snapshot of a large file and one segment.
const RESERVE_LEN_BYTES: usize = 8 << 20;
