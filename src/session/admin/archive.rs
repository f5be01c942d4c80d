//! Archives: one file of envelopes, for backup, repair and migration to another store.
//!
//! The file begins with 8 magic bytes. A complete archive ends with an envelope that states the
//! number of envelopes before it. A carved archive (from a damaged file) has no such end. It may
//! contain several versions of a value; the one of the newest commit counts.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read as _, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::session::{
    error::LogError,
    format::{
        codec::{self, DecodeError, HEADER_LEN_BYTES, VALUE_LEN_MAX_BYTES},
        record::{damaged, for_each_entry, load_session, open_record, seal_record},
    },
    keys::{Key, KeyRange, SessionId, Space},
    store::{ReadStore, StorageError, Totals, Value},
};

const WHOLE: [u8; 8] = *b"stemmax1";
const CARVED: [u8; 8] = *b"stemmac1";

/// The key spaces in an archive. Everything else is rebuilt from them.
const SPACES: [Space; 5] = [
    Space::Body,
    Space::Event,
    Space::FlattenedPrefix,
    Space::OpenHeader,
    Space::Header,
];

fn failed(doing: &str) -> impl FnOnce(io::Error) -> LogError {
    let doing = doing.to_owned();
    move |error| LogError::Unavailable(format!("{doing} the archive: {error}"))
}

fn footer_key() -> Key {
    Key::from_bytes(b"end")
}

/// A writer of archives.
pub struct ArchiveWriter<W: Write> {
    out: BufWriter<W>,
    count: u64,
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins a complete archive of a store or session.
    ///
    /// # Errors
    /// From writing.
    pub fn whole(out: W) -> Result<Self, LogError> {
        Self::begin(out, &WHOLE)
    }

    /// Begins a carved archive.
    ///
    /// # Errors
    /// From writing.
    pub fn carved(out: W) -> Result<Self, LogError> {
        Self::begin(out, &CARVED)
    }

    fn begin(out: W, name: &[u8]) -> Result<Self, LogError> {
        let mut out = BufWriter::new(out);
        out.write_all(name).map_err(failed("writing"))?;
        Ok(Self { out, count: 0 })
    }

    /// Appends an envelope.
    ///
    /// # Errors
    /// From writing.
    pub fn push(&mut self, envelope: &[u8]) -> Result<(), LogError> {
        self.count += 1;
        self.out.write_all(envelope).map_err(failed("writing"))
    }

    /// Writes the end of the archive. Returns the number of envelopes.
    ///
    /// # Errors
    /// From writing.
    pub fn end(mut self) -> Result<u64, LogError> {
        let totals = Totals {
            records: self.count,
            ..Totals::default()
        };
        let end = seal_record(&footer_key(), &totals, 0);
        self.out
            .write_all(&end)
            .and_then(|()| self.out.flush())
            .map_err(failed("writing"))?;
        Ok(self.count)
    }
}

/// Exports a whole store. Every value is checked.
///
/// # Errors
/// [`LogError::Corrupt`] at the first damaged value; from writing.
pub fn export_all(read: &impl ReadStore, out: impl Write) -> Result<u64, LogError> {
    let mut archive = ArchiveWriter::whole(out)?;
    for space in SPACES {
        push_range(read, &KeyRange::space(space), &mut archive)?;
    }
    archive.end()
}

/// Exports one session with all sessions that it forks or continues.
///
/// # Errors
/// [`LogError::NotFound`] if there is no such session; as [`export_all`].
pub fn export_session(
    read: &impl ReadStore,
    id: SessionId,
    out: impl Write,
) -> Result<u64, LogError> {
    load_session(read, id)?.ok_or(LogError::NotFound)?;
    let mut archive = ArchiveWriter::whole(out)?;
    let mut seen = HashSet::from([id]);
    let mut pending = vec![id];
    while let Some(id) = pending.pop() {
        for space in SPACES {
            push_range(read, &KeyRange::session(space, id), &mut archive)?;
        }
        let Some(header) = load_session(read, id)? else {
            continue;
        };
        let needed = header
            .continues
            .into_iter()
            .chain(header.fork.map(|point| point.parent));
        pending.extend(needed.filter(|id| seen.insert(*id)));
    }
    archive.end()
}

fn push_range<W: Write>(
    read: &impl ReadStore,
    range: &KeyRange,
    archive: &mut ArchiveWriter<W>,
) -> Result<(), LogError> {
    let mut written = Ok(());
    for_each_entry(read, range, |key, value| {
        codec::open(key, &value).map_err(|damage| damaged(key, &damage))?;
        if written.is_ok() {
            written = archive.push(&value);
        }
        Ok(())
    })?;
    written
}

/// An archive opened for reading: an index of the newest version of each value.
pub struct Archive {
    file: File,
    index: BTreeMap<Key, Entry>,
    /// True if the archive is complete, not carved.
    pub whole: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    len: usize,
    commit: u64,
}

impl Archive {
    /// Opens and checks an archive.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if the file is not an archive, is damaged, or is truncated.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file = File::open(path).map_err(failed("opening"))?;
        let mut input = BufReader::new(file.try_clone().map_err(failed("opening"))?);
        let mut name = [0; 8];
        input.read_exact(&mut name).map_err(failed("reading"))?;
        if name != WHOLE && name != CARVED {
            return Err(LogError::Corrupt(format!(
                "{} is no archive",
                path.display()
            )));
        }
        let mut archive = Self {
            file,
            index: BTreeMap::new(),
            whole: name == WHOLE,
        };
        let complete = archive.read_index(&mut input)?;
        if archive.whole && !complete {
            return Err(LogError::Corrupt(format!(
                "the end of {} is missing",
                path.display()
            )));
        }
        Ok(archive)
    }

    /// Builds the index. Returns true if the end is present and its count matches.
    fn read_index(&mut self, input: &mut impl BufRead) -> Result<bool, LogError> {
        let mut offset = WHOLE.len() as u64;
        let mut count = 0;
        while let Some(bytes) = next_envelope(input)? {
            let envelope = codec::open_any(&bytes).map_err(|damage| {
                LogError::Corrupt(format!("the archive is damaged at byte {offset}: {damage}"))
            })?;
            if envelope.key == footer_key() {
                let end = open_record::<Totals>(&envelope.key, &bytes)?;
                return Ok(end.records == count);
            }
            count += 1;
            let entry = Entry {
                offset,
                len: bytes.len(),
                commit: envelope.commit,
            };
            let newest = self.index.entry(envelope.key).or_insert(entry);
            if entry.commit >= newest.commit {
                *newest = entry;
            }
            offset += bytes.len() as u64;
        }
        Ok(false)
    }
}

/// Reads the next envelope; `None` at the end of the file.
fn next_envelope(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, LogError> {
    if input.fill_buf().map_err(failed("reading"))?.is_empty() {
        return Ok(None);
    }
    let mut bytes = vec![0; HEADER_LEN_BYTES];
    let damaged = |what: &dyn std::fmt::Display| LogError::Corrupt(format!("the archive: {what}"));
    input
        .read_exact(&mut bytes)
        .map_err(|_| damaged(&DecodeError::Length))?;
    let len = codec::envelope_len(&bytes).map_err(|damage| damaged(&damage))?;
    if len > VALUE_LEN_MAX_BYTES {
        return Err(damaged(&DecodeError::Length));
    }
    bytes.resize(len, 0);
    let rest = input.read_exact(&mut bytes[HEADER_LEN_BYTES..]);
    rest.map_err(|_| damaged(&DecodeError::Length))?;
    Ok(Some(bytes))
}

impl Archive {
    fn value(&self, entry: Entry) -> Result<Value, StorageError> {
        let mut value = vec![0; entry.len];
        let read = self.file.read_exact_at(&mut value, entry.offset);
        read.map_err(|error| StorageError::Damaged(format!("reading the archive: {error}")))?;
        Ok(value)
    }
}

impl ReadStore for Archive {
    fn get(&self, key: &Key) -> Result<Option<Value>, StorageError> {
        self.index
            .get(key)
            .map(|entry| self.value(*entry))
            .transpose()
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Key, Value)>, StorageError> {
        let found = self
            .index
            .range(range.start.clone()..range.end.clone())
            .take(limit);
        found
            .map(|(key, entry)| Ok((key.clone(), self.value(*entry)?)))
            .collect()
    }
}
