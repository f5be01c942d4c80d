//! Folders: making, emptying and listing them, with errors that name them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Makes a folder and those above it.
pub(crate) fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Removes a folder with all that is in it, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Makes a folder that holds nothing.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    remove(folder)?;
    create(folder)
}

/// What in a folder has an extension, in the order of the names.
pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|have| have == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
