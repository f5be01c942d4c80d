//! The folder of snapshots: names, files for the owner only, and what is found there.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{
    SnapshotId,
    file::format::{Header, PieceAt},
    index::Change,
};
use crate::limits;

/// Path of a snapshot directory.
#[derive(Debug, Clone)]
pub(super) struct SnapshotDir(PathBuf);

/// A file that was found.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) name: Name,
    pub(super) bytes: u64,
    pub(super) modified_ms: i64,
}

/// The kinds of file names in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// Complete snapshot.
    Snapshot { id: SnapshotId, is_trunk: bool },
    /// Incomplete snapshot.
    Partial,
}

const SNAPSHOT: &str = ".safetensors";
const TRUNK: &str = ".trunk.safetensors";
const PARTIAL: &str = ".partial";

impl Name {
    /// Parses a file name; `None` for files of others.
    fn of(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        if let Some(id) = name.strip_suffix(PARTIAL) {
            return parse(id).map(|_| Self::Partial);
        }
        let (id, is_trunk) = match name.strip_suffix(TRUNK) {
            Some(id) => (id, true),
            None => (name.strip_suffix(SNAPSHOT)?, false),
        };
        let id = parse(id)?;
        Some(Self::Snapshot { id, is_trunk })
    }
}

fn parse(id: &str) -> Option<SnapshotId> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = id.len() == 32 && id.bytes().all(is_digit);
    let bits = is_id.then(|| u128::from_str_radix(id, 16).ok()).flatten()?;
    Some(SnapshotId(bits))
}

impl SnapshotDir {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, id: SnapshotId, is_trunk: bool) -> PathBuf {
        self.0
            .join(format!("{id}{}", if is_trunk { TRUNK } else { SNAPSHOT }))
    }

    fn partial(&self, id: SnapshotId) -> PathBuf {
        self.0.join(format!("{id}{PARTIAL}"))
    }

    /// Creates the directory with mode 0700 if it does not exist.
    fn make(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.0)
    }

    /// Lists the snapshot files of the directory and ignores files of others. A missing directory
    /// is empty.
    pub(super) fn scan(&self) -> io::Result<Vec<Found>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let (Some(name), Ok(data)) = (Name::of(&entry.file_name()), entry.metadata()) else {
                continue;
            };
            if data.is_file() {
                found.push(Found {
                    path: entry.path(),
                    name,
                    bytes: data.len(),
                    modified_ms: data.modified().map_or(0, ms_of),
                });
            }
        }
        Ok(found)
    }

    /// Creates a partial file, which [`Self::publish`] renames.
    pub(super) fn create(&self, id: SnapshotId) -> io::Result<File> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.write(true).create(true).truncate(true);
        match options.open(self.partial(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make()?;
                options.open(self.partial(id))
            }
            opened => opened,
        }
    }

    pub(super) fn publish(&self, id: SnapshotId) -> io::Result<()> {
        fs::rename(self.partial(id), self.file(id, false))
    }

    /// Removes what is left of a snapshot that could not be written.
    pub(super) fn give_up(&self, id: SnapshotId) {
        remove(&self.partial(id));
    }

    /// Does to the files what was done in the index.
    pub(super) fn apply(&self, changes: &[Change]) {
        for change in changes {
            match *change {
                Change::Remove { id, is_trunk } => remove(&self.file(id, is_trunk)),
                Change::MakeTrunk(id) => {
                    let (from, to) = (self.file(id, false), self.file(id, true));
                    if let Err(error) = fs::rename(&from, &to)
                        && error.kind() != io::ErrorKind::NotFound
                    {
                        tracing::warn!(%error, file = %from.display(), "snapshot rename failed");
                    }
                }
            }
        }
    }

    /// Returns the free bytes of the disk; `None` if unknown.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        #[cfg(target_os = "linux")]
        {
            let stat = rustix::fs::statvfs(&self.0).ok()?;
            Some(stat.f_bavail.saturating_mul(stat.f_frsize))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Removes a file. A missing file is not an error.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, file = %path.display(), "snapshot removal failed");
    }
}

/// Says in a file that it was used.
pub(super) fn touch(file: &File, now_ms: i64) -> io::Result<()> {
    let since = Duration::from_millis(u64::try_from(now_ms).unwrap_or(0));
    file.set_modified(SystemTime::UNIX_EPOCH + since)
}

/// A file of a snapshot whose header is whole.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) header: Header,
    /// Offset of the first chunk in the file.
    data_at: u64,
    /// CRC32C of the header, then of each chunk.
    checksums: Vec<u32>,
}

impl Opened {
    /// Reads and checks the header and the checksums.
    pub(super) fn new(file: File) -> Result<Self, String> {
        let (header, data_at, checksums) = read_header(&file)?;
        Ok(Self {
            file,
            header,
            data_at,
            checksums,
        })
    }

    /// Opens a file that was found, which must be the snapshot that its name says.
    pub(super) fn found(path: &Path, id: SnapshotId) -> Result<Self, String> {
        let opened = Self::new(File::open(path).map_err(|error| error.to_string())?)?;
        match opened.header.id == id {
            true => Ok(opened),
            false => Err("it is another one's".to_owned()),
        }
    }

    /// The pieces, each with its checksum.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (PieceAt, u32)> {
        let checksums = self.checksums[1..].iter().copied();
        self.header.pieces().zip(checksums)
    }

    /// Reads a piece and checks it.
    pub(super) fn read(&self, piece: &PieceAt, checksum: u32) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; (piece.bytes.end - piece.bytes.start) as usize];
        read_at(&self.file, &mut bytes, self.data_at + piece.bytes.start)?;
        match crc32c::crc32c(&bytes) == checksum {
            true => Ok(bytes),
            false => Err(format!(
                "the checksum of tokens {:?} is wrong",
                piece.tokens
            )),
        }
    }
}

/// Returns the header, the offset of the first chunk, and the checksums. Verifies the lengths and
/// the header checksum.
fn read_header(file: &File) -> Result<(Header, u64, Vec<u32>), String> {
    let bytes_all = file.metadata().map_err(|error| failed(&error))?.len();
    let mut reader = io::BufReader::new(file);
    let mut bytes = vec![0; 8];
    reader
        .read_exact(&mut bytes)
        .map_err(|error| failed(&error))?;
    let text_len = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at: usize| bytes[at]));
    if text_len > limits::SNAPSHOT_HEADER_BYTES_MAX || text_len > bytes_all {
        return Err("its header has no end".to_owned());
    }
    bytes.resize(8 + text_len as usize, 0);
    reader
        .read_exact(&mut bytes[8..])
        .map_err(|error| failed(&error))?;
    let header = Header::decode(&bytes)?;
    let start = bytes.len() as u64;
    let checksums_at = start + header.data_bytes();
    if bytes_all != checksums_at + header.checksum_bytes() {
        return Err("it is not as long as its header says".to_owned());
    }
    let mut checksums = vec![0; header.checksum_bytes() as usize];
    read_at(file, &mut checksums, checksums_at)?;
    let checksums: Vec<u32> = checksums
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    match checksums.first() == Some(&crc32c::crc32c(&bytes)) {
        true => Ok((header, start, checksums)),
        false => Err("the checksum of its header is wrong".to_owned()),
    }
}

/// Fills the buffer from the offset `at`.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> Result<(), String> {
    #[cfg(unix)]
    let read = std::os::unix::fs::FileExt::read_exact_at(file, buffer, at);
    #[cfg(not(unix))]
    let read = {
        use io::Seek as _;
        let mut file = file;
        file.seek(io::SeekFrom::Start(at))
            .and_then(|_| file.read_exact(buffer))
    };
    read.map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn ms_of(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
