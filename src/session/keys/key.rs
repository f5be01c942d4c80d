//! The key of one stored value.
//!
//! One tree holds all values. The first byte of a key is its [`Space`]. Numbers are big-endian, so
//! that keys sort in the order of their numbers.

use std::fmt;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::id::SessionId;

/// A key space: the first byte of a key. The byte values are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// Parts of a response's JSON body.
    Body = b'b',
    /// Edges from a session to the sessions that continue it or share its events.
    Edge = b'c',
    /// Parts of a session's event batches.
    Event = b'e',
    /// Parts of a session's flattened prefix (the tokens of its ancestors).
    FlattenedPrefix = b'f',
    /// Index of visible responses, by ordinal.
    ResponseIndex = b'l',
    /// The store's own records: format, totals, upgrade progress.
    Meta = b'm',
    /// Headers of sessions whose turn is in flight.
    OpenHeader = b'n',
    /// Index of visible responses by owner, newest first. Responses without an owner are not in it.
    OwnerIndex = b'o',
    /// Headers of sessions whose turn has ended.
    Header = b's',
    /// Index of sessions without a stored response, by ordinal.
    UnstoredIndex = b'u',
    /// GC marks: sessions that GC must visit.
    GcMark = b'w',
}

impl Space {
    /// Returns the name for operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Edge => "edge",
            Self::Event => "event",
            Self::FlattenedPrefix => "flattened-prefix",
            Self::ResponseIndex => "response-index",
            Self::Meta => "meta",
            Self::OpenHeader => "open-header",
            Self::OwnerIndex => "owner-index",
            Self::Header => "header",
            Self::UnstoredIndex => "unstored-index",
            Self::GcMark => "gc-mark",
        }
    }
}

/// The kind of an edge: how a child depends on its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EdgeKind {
    /// The child's response continues the parent's response. The child needs the parent's items and
    /// events.
    Continues = 0,
    /// The child shares the parent's events only.
    Shares = 1,
}

/// The maximum length of a key, in bytes.
pub const KEY_LEN_MAX_BYTES: usize = 40;

/// The key of one stored value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[u8; KEY_LEN_MAX_BYTES]>);

impl Key {
    /// Wraps the bytes of a key that was read from a storage.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    pub(super) fn new(space: Space, parts: &[&[u8]]) -> Self {
        let mut bytes = SmallVec::new();
        bytes.push(space as u8);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        debug_assert!(!bytes.spilled());
        Self(bytes)
    }

    /// Returns the key of the record with format version and store id.
    pub fn format() -> Self {
        Self::new(Space::Meta, &[b"format"])
    }

    /// Returns the key of the totals as of the last commit.
    pub fn totals() -> Self {
        Self::new(Space::Meta, &[b"totals"])
    }

    /// Returns the key of the progress record of an interrupted upgrade.
    pub fn upgrade() -> Self {
        Self::new(Space::Meta, &[b"upgrade"])
    }

    /// Returns the key of one part of an event batch whose first event has number `seq`.
    pub fn event(id: SessionId, seq: u64, part: u32) -> Self {
        Self::new(
            Space::Event,
            &[&id.0, &seq.to_be_bytes(), &part.to_be_bytes()],
        )
    }

    /// Returns the key of one part of a response's body.
    pub fn body(id: SessionId, part: u32) -> Self {
        Self::part_of(Space::Body, id, part)
    }

    /// Returns the key of one part of a session's flattened prefix.
    pub fn flattened_prefix(id: SessionId, part: u32) -> Self {
        Self::part_of(Space::FlattenedPrefix, id, part)
    }

    /// Returns the key of one part in a space with one payload for each session.
    pub fn part_of(space: Space, id: SessionId, part: u32) -> Self {
        Self::new(space, &[&id.0, &part.to_be_bytes()])
    }

    /// Returns the key of the header of a session whose turn has ended.
    pub fn header(id: SessionId) -> Self {
        Self::new(Space::Header, &[&id.0])
    }

    /// Returns the key of the header of a session whose turn is in flight.
    pub fn open_header(id: SessionId) -> Self {
        Self::new(Space::OpenHeader, &[&id.0])
    }

    /// Returns the key of a session's GC mark.
    pub fn gc_mark(id: SessionId) -> Self {
        Self::new(Space::GcMark, &[&id.0])
    }

    /// Returns the key of an edge from `parent` to a session that depends on it.
    pub fn edge(parent: SessionId, kind: EdgeKind, child: SessionId) -> Self {
        Self::new(Space::Edge, &[&parent.0, &[kind as u8], &child.0])
    }

    /// Returns the key of a visible response in the log-wide index.
    pub fn response_index(ordinal: u64) -> Self {
        Self::new(Space::ResponseIndex, &[&ordinal.to_be_bytes()])
    }

    /// Returns the key of a visible response in its owner's index. Newer responses sort first.
    pub fn owner_index(owner: &str, ordinal: u64) -> Self {
        Self::new(
            Space::OwnerIndex,
            &[&owner_digest(owner), &(!ordinal).to_be_bytes()],
        )
    }

    /// Returns the key of a session without a stored response in its index.
    pub fn unstored_index(ordinal: u64) -> Self {
        Self::new(Space::UnstoredIndex, &[&ordinal.to_be_bytes()])
    }

    /// Returns the smallest key that is greater than this one.
    pub(super) fn successor(&self) -> Self {
        let mut next = self.clone();
        next.0.push(0);
        next
    }

    /// Returns the bytes. A storage sorts keys by these bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the key space, or `None` if the key is not one of the session log.
    pub fn space(&self) -> Option<Space> {
        use Space::*;
        [
            Body,
            Edge,
            Event,
            FlattenedPrefix,
            ResponseIndex,
            Meta,
            OpenHeader,
            OwnerIndex,
            Header,
            UnstoredIndex,
            GcMark,
        ]
        .into_iter()
        .find(|space| self.0.first() == Some(&(*space as u8)))
    }

    /// Returns the session of the key (the parent, for an edge); `None` if the key has no session.
    pub fn session(&self) -> Option<SessionId> {
        let named = match self.space()? {
            Space::ResponseIndex | Space::Meta | Space::OwnerIndex | Space::UnstoredIndex => {
                return None;
            }
            _ => self.0.get(1..17)?,
        };
        named.try_into().ok().map(SessionId)
    }

    /// Returns the number of the first event and the part, for a key of [`Space::Event`].
    pub fn event_part(&self) -> Option<(u64, u32)> {
        let seq = self.0.get(17..25)?.try_into().ok()?;
        let part = self.0.get(25..29)?.try_into().ok()?;
        Some((u64::from_be_bytes(seq), u32::from_be_bytes(part)))
    }

    /// Returns the edge kind and the child, for a key of [`Space::Edge`].
    pub fn edge_child(&self) -> Option<(EdgeKind, SessionId)> {
        let kind = match self.0.get(17)? {
            0 => EdgeKind::Continues,
            1 => EdgeKind::Shares,
            _ => return None,
        };
        Some((kind, SessionId(self.0.get(18..34)?.try_into().ok()?)))
    }

    /// Returns the ordinal, for a key of an index.
    pub fn ordinal(&self) -> Option<u64> {
        let tail = self.0.len().checked_sub(8)?;
        let number = u64::from_be_bytes(self.0.get(tail..)?.try_into().ok()?);
        Some(if self.space()? == Space::OwnerIndex {
            !number
        } else {
            number
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = self.0.first().map_or('?', |byte| char::from(*byte));
        write!(f, "{space}/")?;
        self.0
            .iter()
            .skip(1)
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns the first 16 bytes of the SHA-256 of an owner's name. Names have any length; keys are
/// bounded.
pub(super) fn owner_digest(owner: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(owner.as_bytes())[..16]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId([0xab; 16]);

    #[test]
    fn order_of_keys_is_order_of_numbers() {
        assert!(Key::event(ID, 255, 9) < Key::event(ID, 256, 0));
        assert!(Key::event(ID, 1, 255) < Key::event(ID, 1, 256));
        assert!(Key::response_index(255) < Key::response_index(256));
        assert!(Key::owner_index("a", 256) < Key::owner_index("a", 255));
    }
}
