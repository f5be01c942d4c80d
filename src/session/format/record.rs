//! Stored values read and written as what they mean: typed records, and payloads in parts.

use serde::{Serialize, de::DeserializeOwned};

pub use super::migrate::v1::{
    Edge, Flat, Format, Head, Kept, Manifest, Mark, Place, State, Upgrade,
};
use super::{
    super::{
        key::{Key, KeyRange, SessionId, Space},
        store::{ReadStore, StorageError, Totals, Value},
    },
    codec::{self, DecodeError, Kind, Stamp},
    event::Event,
    event_batch,
};

/// How many values one scan fetches at most, which bounds the memory that it takes.
pub const SCAN_PAGE_ENTRIES: usize = 256;

/// The bytes of a value before they are cut into parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// What the bytes are.
    pub kind: Kind,
    /// Which frozen struct they are.
    pub schema: u16,
    /// The encoded value.
    pub bytes: Vec<u8>,
}

/// What is known of a stored response, beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseMeta {
    /// Stable id of the key that created it.
    pub owner: Option<String>,
    /// Id of the model.
    pub model: String,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
    /// The response that it continues.
    pub previous: Option<SessionId>,
    /// A fork of it shares this many events of its session.
    pub end_events: u64,
    /// Digest of what led the prompt; a fork needs the same.
    pub head_digest: [u8; 32],
    /// Whether the tokens are exactly what the items say, so that a fork may continue them.
    pub forkable: bool,
    /// Length of the JSON body.
    pub body_len_bytes: u64,
    /// SHA-256 of the JSON body.
    pub body_digest: [u8; 32],
    /// What it counts for in the bound on stored bytes.
    pub bytes: u64,
}

impl ResponseMeta {
    /// The response that a session keeps, if it keeps one.
    pub fn of(head: &Head) -> Option<Self> {
        let kept = head.response.as_ref()?;
        Some(Self {
            owner: head.owner.clone(),
            model: head.model.clone(),
            created_at_ms: head.created_at_ms,
            previous: head.continues,
            end_events: kept.end_events,
            head_digest: kept.head_digest,
            forkable: kept.forkable,
            body_len_bytes: kept.body_len_bytes,
            body_digest: kept.body_digest,
            bytes: head.bytes,
        })
    }
}

/// A value that fits into one envelope.
pub trait Record: Serialize + DeserializeOwned {
    /// What it is.
    const KIND: Kind;
}

macro_rules! records {
    ($($record:ident),*) => { $(impl Record for $record { const KIND: Kind = Kind::$record; })* };
}
records!(
    Head, Edge, Flat, Place, Mark, Format, Totals, Manifest, Upgrade
);

/// Wraps a record for its key.
pub fn seal_record<T: Record>(key: &Key, record: &T, commit: u64) -> Value {
    let stamp = Stamp {
        kind: T::KIND,
        schema: 1,
        more: false,
        commit,
    };
    codec::seal(stamp, key, &codec::encode(record))
}

/// The record that a value holds.
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

fn expect(kind: Kind, wanted: Kind, schema: u16) -> Result<(), DecodeError> {
    if kind != wanted {
        return Err(DecodeError::Payload(format!("{wanted:?}, but a {kind:?}")));
    }
    if schema != 1 {
        return Err(DecodeError::Unknown(format!("schema {schema} of {kind:?}")));
    }
    Ok(())
}

/// An error that names the key.
pub fn damaged(key: &Key, what: &dyn std::fmt::Display) -> StorageError {
    StorageError::Damaged(format!("at {key:?}, {what}"))
}

/// The record under a key.
///
/// # Errors
/// The storage's, and [`StorageError::Damaged`] if what is there is no such record.
pub fn load<T: Record>(read: &impl ReadStore, key: &Key) -> Result<Option<T>, StorageError> {
    read.get(key)?
        .map(|value| open_record(key, &value))
        .transpose()
}

/// The head of a session, whether its turn has ended or is in flight.
///
/// # Errors
/// As [`load`].
pub fn load_session(read: &impl ReadStore, id: SessionId) -> Result<Option<Head>, StorageError> {
    match load(read, &Key::head(id))? {
        Some(head) => Ok(Some(head)),
        None => load(read, &Key::open(id)),
    }
}

/// Cuts a payload into values for consecutive parts, the first of which has number `first`.
/// `last` says whether the payload ends with these bytes.
pub fn seal_parts(
    stamp: Stamp,
    key_of: impl Fn(u32) -> Key,
    first: u32,
    bytes: &[u8],
) -> Vec<(Key, Value)> {
    let room = codec::payload_room_bytes(key_of(0).as_bytes().len());
    let count = bytes.len().div_ceil(room).max(1);
    let sealed = (0..count).map(|index| {
        let key = key_of(first + index as u32);
        let part = &bytes[index * room..bytes.len().min((index + 1) * room)];
        let more = stamp.more || index + 1 < count;
        let value = codec::seal(Stamp { more, ..stamp }, &key, part);
        (key, value)
    });
    sealed.collect()
}

/// How many bytes of a payload go into every part but the last.
pub fn part_len_bytes(key_of: impl Fn(u32) -> Key) -> usize {
    codec::payload_room_bytes(key_of(0).as_bytes().len())
}

/// Puts parts together again.
#[derive(Debug, Default)]
pub struct Assembly {
    so_far: Option<(Payload, u32)>,
}

impl Assembly {
    /// Takes the next part; gives the payload once it is whole.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if it is not the part that must follow.
    pub fn push(
        &mut self,
        key: &Key,
        part: u32,
        value: &[u8],
    ) -> Result<Option<Payload>, StorageError> {
        let envelope = codec::open(key, value).map_err(|damage| damaged(key, &damage))?;
        let (mut payload, expected) = self.so_far.take().unwrap_or_else(|| {
            let (kind, schema) = (envelope.kind, envelope.schema);
            (
                Payload {
                    kind,
                    schema,
                    bytes: Vec::new(),
                },
                0,
            )
        });
        if part != expected || (payload.kind, payload.schema) != (envelope.kind, envelope.schema) {
            return Err(damaged(
                key,
                &format!("part {expected} is missing before it"),
            ));
        }
        payload.bytes.extend_from_slice(envelope.payload);
        if !envelope.more {
            return Ok(Some(payload));
        }
        self.so_far = Some((payload, part + 1));
        Ok(None)
    }

    /// Whether no payload is half put together.
    pub fn is_empty(&self) -> bool {
        self.so_far.is_none()
    }
}

/// Calls `each` for the entries of a range, fetching them in pages.
///
/// # Errors
/// The storage's, and whatever `each` returns.
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

/// The payload whose parts are all that a range holds.
///
/// # Errors
/// [`StorageError::Damaged`] if a part is missing or damaged.
pub fn load_parts(
    read: &impl ReadStore,
    space: Space,
    id: SessionId,
) -> Result<Option<Payload>, StorageError> {
    let mut assembly = Assembly::default();
    let mut whole = None;
    let mut part = 0;
    for_each_entry(read, &KeyRange::session(space, id), |key, value| {
        if whole.is_some() || Key::part_of(space, id, part) != *key {
            return Err(damaged(key, &"a part stands where none should"));
        }
        whole = assembly.push(key, part, &value)?;
        part += 1;
        Ok(())
    })?;
    if !assembly.is_empty() {
        return Err(damaged(
            &Key::part_of(space, id, part),
            &"the last parts are missing",
        ));
    }
    Ok(whole)
}

/// The first `count` events of a session's own, as stored.
///
/// # Errors
/// [`StorageError::Damaged`] if one is missing or damaged.
pub fn load_event_payloads(
    read: &impl ReadStore,
    id: SessionId,
    count: u64,
) -> Result<Vec<Payload>, StorageError> {
    Ok(load_packs(read, id, count)?.0)
}

/// As [`load_event_payloads`], with the number of the event from which the last of them are kept
/// together and whether others follow there.
///
/// # Errors
/// As [`load_event_payloads`].
pub fn load_packs(
    read: &impl ReadStore,
    id: SessionId,
    count: u64,
) -> Result<(Vec<Payload>, u64, bool), StorageError> {
    let mut range = KeyRange::events_from(id, 0);
    range.end = Key::event(id, count, 0);
    let mut payloads: Vec<Payload> = Vec::new();
    let mut assembly = Assembly::default();
    let mut first = 0;
    for_each_entry(read, &range, |key, value| {
        let (seq, part) = key
            .event_part()
            .ok_or_else(|| damaged(key, &"it is no event's key"))?;
        if assembly.is_empty() {
            first = payloads.len() as u64;
        }
        if seq != first {
            let missing = format!("event {} is missing before it", payloads.len());
            return Err(damaged(key, &missing));
        }
        if let Some(packed) = assembly.push(key, part, &value)? {
            payloads.extend(event_batch::unpack(&packed).map_err(|damage| damaged(key, &damage))?);
        }
        Ok(())
    })?;
    let found = payloads.len() as u64;
    if found < count || !assembly.is_empty() {
        let missing = Key::event(id, found, 0);
        return Err(damaged(
            &missing,
            &format!("the session should have {count} events"),
        ));
    }
    payloads.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    Ok((payloads, first, found > count))
}

/// The first `count` events of a session's own.
///
/// # Errors
/// [`StorageError::Damaged`] if one is missing or damaged.
pub fn load_events(
    read: &impl ReadStore,
    id: SessionId,
    count: u64,
) -> Result<Vec<Event>, StorageError> {
    let payloads = load_event_payloads(read, id, count)?;
    let decoded = payloads.iter().enumerate().map(|(seq, payload)| {
        Event::decode(payload).map_err(|damage| damaged(&Key::event(id, seq as u64, 0), &damage))
    });
    decoded.collect()
}
