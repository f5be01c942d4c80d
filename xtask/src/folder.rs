//! Creating, emptying and listing folders. Errors name the folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Creates a folder and its parents.
pub(crate) fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Removes a folder and its contents, if it exists.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Creates an empty folder; removes the contents of an existing one.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    remove(folder)?;
    create(folder)
}

/// Lists the entries of a folder that have an extension, sorted by name.
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
