//! Payloads, and their parts: one value of at most 4 KiB each.

use super::{
    super::{
        keys::{Key, KeyRange, SessionId, Space},
        store::{ReadStore, StorageError, Value},
    },
    codec::{self, Kind, Stamp},
    record::{damaged, for_each_entry},
};

/// An encoded value before it is cut into parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The kind of the value.
    pub kind: Kind,
    /// The schema number of the value's struct.
    pub schema: u16,
    /// The encoded bytes.
    pub bytes: Vec<u8>,
}

/// Cuts `bytes` into consecutive parts, beginning with part `first`. With `stamp.more`, the payload
/// continues after the last part.
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

/// Returns the payload bytes in every part but the last.
pub fn part_len_bytes(key_of: impl Fn(u32) -> Key) -> usize {
    codec::payload_room_bytes(key_of(0).as_bytes().len())
}

/// Reassembles a payload from its parts.
#[derive(Debug, Default)]
pub struct Assembly {
    so_far: Option<(Payload, u32)>,
}

impl Assembly {
    /// Adds the next part. Returns the payload after its last part.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if this is not the expected part.
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

    /// True if no payload is incomplete.
    pub fn is_empty(&self) -> bool {
        self.so_far.is_none()
    }
}

/// Loads the payload of a session in `space`; `None` without parts.
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
            return Err(damaged(key, &"an unexpected part"));
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
