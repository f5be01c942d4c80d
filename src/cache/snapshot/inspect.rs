//! What an operator is told of a folder of snapshots that no server uses.

use std::{fs::File, io, path::Path};

use super::{
    folder::{self, Folder, Name},
    format::Header,
};

/// What is in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Snapshots that are whole, as far as was looked.
    pub whole: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files that a server would pass over, with the reason.
    pub unusable: Vec<(String, String)>,
}

/// Looks through a folder; with `deep` at every byte, else at the beginnings of files.
///
/// # Errors
/// When the folder is there and cannot be read.
pub fn inspect(path: &Path, deep: bool) -> io::Result<Inspection> {
    let mut inspection = Inspection::default();
    for found in Folder::new(path.to_owned()).scan()? {
        inspection.bytes += found.bytes;
        let checked = match found.name {
            Name::Snapshot { id, .. } => check(&found.path, deep).and_then(|header| {
                let own = header.id == id;
                own.then_some(()).ok_or("it is another one's".to_owned())
            }),
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

fn check(path: &Path, deep: bool) -> Result<Header, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let (header, data_at, checksums) = folder::read_header(&file)?;
    let pieces = header.pieces().zip(&checksums[1..]).filter(|_| deep);
    let mut bytes = Vec::new();
    for (piece, checksum) in pieces {
        bytes.resize((piece.bytes.end - piece.bytes.start) as usize, 0);
        folder::read_at(&file, &mut bytes, data_at + piece.bytes.start)?;
        if crc32c::crc32c(&bytes) != *checksum {
            return Err(format!(
                "the checksum of tokens {:?} is wrong",
                piece.tokens
            ));
        }
    }
    Ok(header)
}
