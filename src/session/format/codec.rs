//! The envelope of a stored value: a header with checksum around a bincode payload.
//!
//! ```text
//!  0  magic      2   a7 53
//!  2  codec      1   1 = bincode 1.3, fixed-width integers, little-endian
//!  3  kind       1   kind of the payload, see `Kind`
//!  4  schema     2   number of the struct in migrations/; all numbers little-endian
//!  6  flags      1   bit 0: more parts follow
//!  7  key length 1
//!  8  length     4   of the payload
//! 12  crc32c     4   over all other bytes, key included
//! 16  commit     8   number of the commit that wrote the value
//! 24  key, payload
//! ```
//!
//! A value that was moved to another key, truncated, or changed by one bit does not decode. The
//! envelope contains its key, so [`carve`](crate::session::admin::carve) can collect values from a
//! damaged file without sled.

use bincode::Options;
use serde::{Serialize, de::DeserializeOwned};

use super::super::keys::{KEY_LEN_MAX_BYTES, Key};

/// Length of an envelope's header, before the key, in bytes.
pub const HEADER_LEN_BYTES: usize = 24;
/// The maximum length of a stored value, in bytes. sled writes larger values to blob files that it
/// never syncs.
pub const VALUE_LEN_MAX_BYTES: usize = 4096;
/// The first bytes of every envelope.
pub const MAGIC: [u8; 2] = [0xa7, 0x53];

const CODEC_BINCODE_1_FIXINT: u8 = 1;
const FLAG_MORE: u8 = 1;
const CRC_AT: std::ops::Range<usize> = 12..16;

/// The kind of a payload. The numbers are on disk: never change or reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(
    missing_docs,
    reason = "each is the struct of the same name in migrations/"
)]
pub enum Kind {
    Opened = 1,
    InputAppended = 2,
    PromptAppended = 3,
    Generated = 4,
    TurnClosed = 5,
    Rerooted = 6,
    Purged = 7,
    Events = 8,
    Head = 32,
    Body = 34,
    Edge = 35,
    Flat = 36,
    Place = 37,
    Mark = 38,
    Format = 48,
    Totals = 49,
    Manifest = 50,
    Upgrade = 51,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Opened,
        Self::InputAppended,
        Self::PromptAppended,
        Self::Generated,
        Self::TurnClosed,
        Self::Rerooted,
        Self::Purged,
        Self::Events,
        Self::Head,
        Self::Body,
        Self::Edge,
        Self::Flat,
        Self::Place,
        Self::Mark,
        Self::Format,
        Self::Totals,
        Self::Manifest,
        Self::Upgrade,
    ];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// An error of decoding a stored value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are shorter or longer than the envelope's length field.
    #[error("the envelope's length is wrong")]
    Length,
    /// The bytes do not begin with [`MAGIC`].
    #[error("there is no envelope")]
    Magic,
    /// The checksum does not match the bytes.
    #[error("the checksum does not match")]
    Checksum,
    /// The envelope was written for this other key.
    #[error("the value belongs to key {0:?}")]
    Moved(Key),
    /// An unknown codec, kind or schema. A newer program may have written the value.
    #[error("{0} is unknown: a newer program may have written it")]
    Unknown(String),
    /// The payload does not decode as this type.
    #[error("the payload is no {0}")]
    Payload(String),
}

/// A decoded envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The kind of the payload.
    pub kind: Kind,
    /// The schema number of the payload's struct.
    pub schema: u16,
    /// True if the next part continues the payload.
    pub more: bool,
    /// The number of the commit that wrote the value.
    pub commit: u64,
    /// The key under which the value was stored.
    pub key: Key,
    /// The encoded value, or one part of it.
    pub payload: &'a [u8],
}

/// The fields of an envelope that a writer chooses, beside key and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The kind of the payload.
    pub kind: Kind,
    /// The schema number of the payload's struct.
    pub schema: u16,
    /// True if the next part continues the payload.
    pub more: bool,
    /// The number of the commit that writes the value.
    pub commit: u64,
}

/// Encodes an envelope with `payload` for `key`.
pub fn seal(stamp: Stamp, key: &Key, payload: &[u8]) -> Vec<u8> {
    let key = key.as_bytes();
    debug_assert!(key.len() <= KEY_LEN_MAX_BYTES);
    let mut bytes = Vec::with_capacity(HEADER_LEN_BYTES + key.len() + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[CODEC_BINCODE_1_FIXINT, stamp.kind as u8]);
    bytes.extend_from_slice(&stamp.schema.to_le_bytes());
    bytes.extend_from_slice(&[if stamp.more { FLAG_MORE } else { 0 }, key.len() as u8]);
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&stamp.commit.to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(payload);
    let crc = checksum(&bytes);
    bytes[CRC_AT].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn checksum(envelope: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&envelope[..CRC_AT.start]);
    crc32c::crc32c_append(crc, &envelope[CRC_AT.end..])
}

/// Returns the length that the envelope at the start of `bytes` claims, in bytes.
///
/// # Errors
/// [`DecodeError::Magic`] if no envelope begins there, [`DecodeError::Length`] if the header is
/// truncated.
pub fn envelope_len(bytes: &[u8]) -> Result<usize, DecodeError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(DecodeError::Magic);
    }
    let Some(header) = bytes.get(..HEADER_LEN_BYTES) else {
        return Err(DecodeError::Length);
    };
    let payload = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    Ok(HEADER_LEN_BYTES + usize::from(header[7]) + payload as usize)
}

/// Decodes an envelope stored under any key.
///
/// # Errors
/// A [`DecodeError`] if the bytes are not exactly one undamaged envelope.
pub fn open_any(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    if envelope_len(bytes)? != bytes.len() {
        return Err(DecodeError::Length);
    }
    let stored = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    if checksum(bytes) != stored {
        return Err(DecodeError::Checksum);
    }
    if bytes[2] != CODEC_BINCODE_1_FIXINT {
        return Err(DecodeError::Unknown(format!("codec {}", bytes[2])));
    }
    let kind = Kind::from_number(bytes[3])
        .ok_or_else(|| DecodeError::Unknown(format!("kind {}", bytes[3])))?;
    if bytes[6] & !FLAG_MORE != 0 {
        return Err(DecodeError::Unknown(format!("flag {:#x}", bytes[6])));
    }
    let (key, payload) = bytes[HEADER_LEN_BYTES..].split_at(usize::from(bytes[7]));
    let commit = bytes[16..24]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(Envelope {
        kind,
        schema: u16::from_le_bytes([bytes[4], bytes[5]]),
        more: bytes[6] & FLAG_MORE != 0,
        commit,
        key: Key::from_bytes(key),
        payload,
    })
}

/// Decodes the envelope stored under `key`.
///
/// # Errors
/// As [`open_any`], and [`DecodeError::Moved`] if the envelope was written for another key.
pub fn open<'a>(key: &Key, bytes: &'a [u8]) -> Result<Envelope<'a>, DecodeError> {
    let envelope = open_any(bytes)?;
    if envelope.key != *key {
        return Err(DecodeError::Moved(envelope.key));
    }
    Ok(envelope)
}

/// Returns the payload bytes that fit into one value under a key of this length.
pub fn payload_room_bytes(key_len: usize) -> usize {
    VALUE_LEN_MAX_BYTES - HEADER_LEN_BYTES - key_len
}

/// Encodes a struct of `migrations/`.
///
/// # Panics
/// Never: these structs contain no type that bincode cannot encode, and there is no size limit
/// here.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let encoded = bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .serialize(value);
    encoded.expect("structs of migrations/ always encode")
}

/// Returns the length of [`encode`]'s result, in bytes.
pub fn encoded_len<T: Serialize>(value: &T) -> usize {
    let len = bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .serialized_size(value);
    // A struct that cannot be encoded (none of `migrations/`) fits nowhere.
    len.ok()
        .and_then(|len| usize::try_from(len).ok())
        .unwrap_or(usize::MAX)
}

/// Decodes a struct of `migrations/` from all of `bytes`. A length field inside cannot cause an
/// allocation beyond `bytes.len()`.
///
/// # Errors
/// [`DecodeError::Payload`] with `what`.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, DecodeError> {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_limit(bytes.len() as u64)
        .reject_trailing_bytes()
        .deserialize(bytes)
        .map_err(|error| DecodeError::Payload(format!("{what}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::keys::SessionId;

    fn sample(payload: &[u8]) -> (Key, Vec<u8>) {
        let key = Key::event(SessionId([7; 16]), 3, 0);
        let stamp = Stamp {
            kind: Kind::Generated,
            schema: 1,
            more: true,
            commit: 0x0102_0304,
        };
        let bytes = seal(stamp, &key, payload);
        (key, bytes)
    }

    #[test]
    fn an_envelope_opens_to_what_was_sealed() {
        let (key, bytes) = sample(b"payload");
        let envelope = open(&key, &bytes).unwrap();
        assert_eq!((envelope.kind, envelope.schema), (Kind::Generated, 1));
        assert!(envelope.more);
        assert_eq!(
            (envelope.commit, envelope.payload),
            (0x0102_0304, &b"payload"[..])
        );
        assert_eq!(envelope_len(&bytes), Ok(bytes.len()));
    }

    #[test]
    fn an_envelope_does_not_open_under_another_key() {
        let (key, bytes) = sample(b"payload");
        let other = Key::event(SessionId([7; 16]), 4, 0);
        assert_eq!(open(&other, &bytes), Err(DecodeError::Moved(key)));
    }

    #[test]
    fn every_bit_flip_and_truncation_is_detected() {
        proptest::proptest!(|(payload: Vec<u8>)| {
            let (key, bytes) = sample(&payload);
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                proptest::prop_assert!(open(&key, &flipped).is_err(), "bit {}", bit);
            }
            for len in 0..bytes.len() {
                proptest::prop_assert!(open(&key, &bytes[..len]).is_err(), "cut at {}", len);
            }
            let mut longer = bytes.clone();
            longer.push(0);
            proptest::prop_assert!(open(&key, &longer).is_err());
        });
    }

    #[test]
    fn any_bytes_at_all_are_refused_without_a_panic() {
        proptest::proptest!(|(mut bytes: Vec<u8>)| {
            proptest::prop_assert!(open_any(&bytes).is_err());
            bytes.splice(0..0, MAGIC);
            proptest::prop_assert!(open_any(&bytes).is_err());
        });
    }

    #[test]
    fn a_length_inside_a_payload_is_not_trusted() {
        let mut bytes = encode(&vec![1_u32, 2, 3]);
        assert_eq!(decode::<Vec<u32>>("list", &bytes), Ok(vec![1, 2, 3]));
        bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(
            decode::<Vec<u32>>("list", &bytes),
            Err(DecodeError::Payload(_))
        ));
        let mut trailing = encode(&1_u32);
        trailing.push(0);
        assert!(decode::<u32>("number", &trailing).is_err());
    }
}
