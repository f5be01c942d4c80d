//! Typed records: values that fit into one envelope.

use serde::{Serialize, de::DeserializeOwned};

pub use super::v1::{
    Edge, Flat as FlattenedPrefix, Format, Head as SessionHeader, Kept as ResponseHeader, Manifest,
    Mark as GcMark, Place as IndexEntry, State as SessionState, Upgrade,
};
use super::{
    super::{
        error::LogError,
        keys::{Key, KeyRange, SessionId},
        store::{ReadStore, StorageError, Totals, Value},
    },
    codec::{self, DecodeError, Kind, Stamp},
};

/// The maximum number of values that one scan fetches. This bounds the memory of a scan.
pub const SCAN_PAGE_ENTRIES: usize = 256;

/// The metadata of a stored response: everything but its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseMeta {
    /// Stable id of the API key that created the response.
    pub owner: Option<String>,
    /// Id of the model.
    pub model: String,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
    /// The response that this one continues.
    pub previous: Option<SessionId>,
    /// The number of its session's events that a fork of the response shares.
    pub end_events: u64,
    /// SHA-256 of the preamble (instructions, tools, template arguments). A fork needs the same
    /// preamble.
    pub preamble_digest: [u8; 32],
    /// True if the session's tokens represent its items exactly, so that a fork may continue them.
    pub forkable: bool,
    /// Length of the JSON body, in bytes.
    pub body_len_bytes: u64,
    /// SHA-256 of the JSON body.
    pub body_digest: [u8; 32],
    /// Bytes that the response counts for in the byte limit of retention.
    pub bytes: u64,
}

impl ResponseMeta {
    /// Returns the metadata of the response that a session stores; `None` without one.
    pub fn of(header: &SessionHeader) -> Option<Self> {
        let response = header.response.as_ref()?;
        Some(Self {
            owner: header.owner.clone(),
            model: header.model.clone(),
            created_at_ms: header.created_at_ms,
            previous: header.continues,
            end_events: response.end_events,
            preamble_digest: response.head_digest,
            forkable: response.forkable,
            body_len_bytes: response.body_len_bytes,
            body_digest: response.body_digest,
            bytes: header.bytes,
        })
    }
}

/// A type that is stored as one value.
pub trait Record: Serialize + DeserializeOwned {
    /// The kind in the envelope.
    const KIND: Kind;
}

macro_rules! records {
    ($($record:ident = $kind:ident),*) => {
        $(impl Record for $record { const KIND: Kind = Kind::$kind; })*
    };
}
records!(
    SessionHeader = Head,
    Edge = Edge,
    FlattenedPrefix = Flat,
    IndexEntry = Place,
    GcMark = Mark,
    Format = Format,
    Totals = Totals,
    Manifest = Manifest,
    Upgrade = Upgrade
);

/// Encodes a record for its key.
pub fn seal_record<T: Record>(key: &Key, record: &T, commit: u64) -> Value {
    let stamp = Stamp {
        kind: T::KIND,
        schema: 1,
        more: false,
        commit,
    };
    codec::seal(stamp, key, &codec::encode(record))
}

/// Decodes the record in a value.
///
/// # Errors
/// [`StorageError::Damaged`] with the key.
pub fn open_record<T: Record>(key: &Key, value: &[u8]) -> Result<T, StorageError> {
    let opened = codec::open(key, value).and_then(|envelope| {
        expect(envelope.kind, T::KIND, envelope.schema)?;
        codec::decode(&format!("{:?}", T::KIND), envelope.payload)
    });
    opened.map_err(|damage| damaged(key, &damage))
}

fn expect(kind: Kind, expected: Kind, schema: u16) -> Result<(), DecodeError> {
    if kind != expected {
        return Err(DecodeError::Payload(format!(
            "{expected:?}, but a {kind:?}"
        )));
    }
    if schema != 1 {
        return Err(DecodeError::Unknown(format!("schema {schema} of {kind:?}")));
    }
    Ok(())
}

/// Returns a [`StorageError::Damaged`] that names the key.
pub fn damaged(key: &Key, what: &dyn std::fmt::Display) -> StorageError {
    StorageError::Damaged(format!("at {key:?}, {what}"))
}

/// Loads the record under a key, or `None`.
///
/// # Errors
/// Errors of the storage, and [`StorageError::Damaged`] if the value is not such a record.
pub fn load<T: Record>(read: &impl ReadStore, key: &Key) -> Result<Option<T>, StorageError> {
    read.get(key)?
        .map(|value| open_record(key, &value))
        .transpose()
}

/// Loads the header of a session, whether its turn has ended or is in flight.
///
/// # Errors
/// As [`load`].
pub fn load_session(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<Option<SessionHeader>, StorageError> {
    match load(read, &Key::header(id))? {
        Some(header) => Ok(Some(header)),
        None => load(read, &Key::open_header(id)),
    }
}

/// Calls `each` for the entries of a range, fetched in pages of [`SCAN_PAGE_ENTRIES`].
///
/// # Errors
/// Errors of the storage, and the first error of `each`.
pub fn for_each_entry(
    read: &impl ReadStore,
    range: &KeyRange,
    mut each: impl FnMut(&Key, Value) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut rest = range.clone();
    loop {
        let page = read.scan(&rest, SCAN_PAGE_ENTRIES)?;
        let full = page.len() == SCAN_PAGE_ENTRIES;
        let last = page.last().map(|(key, _)| key.clone());
        for (key, value) in page {
            each(&key, value)?;
        }
        match last {
            Some(last) if full => rest = rest.after(&last),
            _ => return Ok(()),
        }
    }
}

/// Loads the totals of a store that has a format record.
///
/// # Errors
/// [`LogError::Corrupt`] if the totals are missing.
pub fn load_totals(read: &impl ReadStore) -> Result<Totals, LogError> {
    let key = Key::totals();
    Ok(load(read, &key)?.ok_or_else(|| damaged(&key, &"the totals are missing"))?)
}
