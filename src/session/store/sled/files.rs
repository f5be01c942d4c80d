//! The files of a store: private, made durable with their folders, used by one process.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::session::store::StorageError;

/// What a failed step was about, as an error that names the file.
pub(super) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let what = format!("{doing} {}", path.display());
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StorageError::Full(format!("{what}: {error}"))
        }
        _ => StorageError::Failed(format!("{what}: {error}")),
    }
}

/// Makes a folder, and those above it, for the owner only, and durable.
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

/// Takes from others what they may do with a folder that was there before. What matters lies in a
/// folder below that is private in any case, so it is no error if this one belongs to somebody else.
pub(super) fn make_private(dir: &Path) {
    let is_open = fs::metadata(dir).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
    if is_open && let Err(error) = set_mode(dir, 0o700) {
        tracing::warn!(%error, "session folder permissions: chmod failed");
    }
}

/// Opens a file for reading and writing, made for the owner only if it is not there.
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

/// Opens a file that must be there, for reading and writing.
pub(super) fn open_existing(path: &Path) -> Result<File, StorageError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(failed("opening", path))
}

/// Takes the folder for this process; released when the file is dropped.
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

/// Makes what a folder lists durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(failed("syncing the folder", dir))
}

/// Makes everything below a folder durable and private, and the folder itself.
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

/// Removes a folder with all below it, if it is there.
pub(super) fn remove_tree(dir: &Path) -> Result<(), StorageError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", dir)(error))
        }
        _ => Ok(()),
    }
}

/// Copies a folder with all below it, privately.
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

/// Renames a folder; durable once the old parent is synced, if that is another one.
pub(super) fn rename_dir(from: &Path, to: &Path) -> Result<(), StorageError> {
    fs::rename(from, to).map_err(failed("renaming", from))?;
    to.parent().map_or(Ok(()), sync_dir)
}

/// Takes space that [`give_up_reserve`] frees when the disk is full, so that the engine can still be
/// opened and read then. Succeeds only while there is that much space.
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

/// Frees the space of the reserve, if there is one.
pub(super) fn free_reserve(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", path)(error))
        }
        _ => Ok(()),
    }
}

/// Enough for the engine's summary of a large file and for one of its segments.
const RESERVE_LEN_BYTES: usize = 8 << 20;
