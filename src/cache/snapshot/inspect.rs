//! Inspection of a snapshot directory that no server uses, for operators.

use std::{io, path::Path};

use super::{
    SnapshotId,
    dir::{Name, Opened, SnapshotDir},
};

/// The contents of a snapshot directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Valid snapshots; chunks are verified only with `deep`.
    pub whole: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Names of files that a server would ignore, with the reason.
    pub unusable: Vec<(String, String)>,
}

/// Checks all files of a directory: headers only, or with `deep` every byte.
///
/// # Errors
/// An I/O error if the directory exists and cannot be read.
pub fn inspect(path: &Path, deep: bool) -> io::Result<Inspection> {
    let mut inspection = Inspection::default();
    for found in SnapshotDir::new(path.to_owned()).scan()? {
        inspection.bytes += found.bytes;
        let checked = match found.name {
            Name::Snapshot { id, .. } => check(&found.path, id, deep),
            Name::Partial => Err("it was not written to its end".to_owned()),
        };
        match checked {
            Ok(()) => inspection.whole += 1,
            Err(why) => {
                let name = found.path.file_name().unwrap_or_default();
                let name = name.to_string_lossy().into_owned();
                inspection.unusable.push((name, why));
            }
        }
    }
    inspection.unusable.sort();
    Ok(inspection)
}

fn check(path: &Path, id: SnapshotId, deep: bool) -> Result<(), String> {
    let opened = Opened::found(path, id)?;
    for (piece, checksum) in opened.pieces().filter(|_| deep) {
        opened.read(&piece, checksum)?;
    }
    Ok(())
}
