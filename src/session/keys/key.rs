//! The key of one stored value.
//!
//! One tree holds all values. The first byte of a key is its [`Space`]. Numbers are big-endian, so
//! that keys sort in the order of their numbers.

use std::fmt;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::id::SessionId;

/// What a stored value is about: the first byte of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// Parts of a response's JSON body.
    Body = b'b',
    /// Edges from a session to those that continue or share it.
    Edge = b'c',
    /// Parts of a session's events.
    Event = b'e',
    /// Parts of a session's flattened tokens.
    FlattenedPrefix = b'f',
    /// Visible responses in log order.
    ResponseIndex = b'l',
    /// The store's own records.
    Meta = b'm',
    /// Heads of sessions whose turn is in flight.
    OpenHeader = b'n',
    /// Visible responses by owner, for those that have one, in log order.
    OwnerIndex = b'o',
    /// Heads of sessions whose turn has ended.
    Header = b's',
    /// Sessions without a stored response, in log order.
    UnstoredIndex = b'u',
    /// Sessions whose events may have to go.
    GcMark = b'w',
}

/// How a child depends on its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EdgeKind {
    /// The child's response continues the parent's: it needs the parent's items and events.
    Continues = 0,
    /// The child only shares the parent's events.
    Shares = 1,
}

/// No key is longer, in bytes.
pub const KEY_LEN_MAX_BYTES: usize = 40;

/// The key of one stored value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[u8; KEY_LEN_MAX_BYTES]>);

impl Key {
    /// Takes a key read back from a storage.
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

    /// The record of format version and identity.
    pub fn format() -> Self {
        Self::new(Space::Meta, &[b"format"])
    }

    /// The totals as of the last commit.
    pub fn totals() -> Self {
        Self::new(Space::Meta, &[b"totals"])
    }

    /// Where an interrupted upgrade goes on.
    pub fn upgrade() -> Self {
        Self::new(Space::Meta, &[b"upgrade"])
    }

    /// One part of events that are kept together, the first of which has number `seq`.
    pub fn event(id: SessionId, seq: u64, part: u32) -> Self {
        Self::new(
            Space::Event,
            &[&id.0, &seq.to_be_bytes(), &part.to_be_bytes()],
        )
    }

    /// One part of a response's body.
    pub fn body(id: SessionId, part: u32) -> Self {
        Self::part_of(Space::Body, id, part)
    }

    /// One part of a session's flattened tokens.
    pub fn flattened_prefix(id: SessionId, part: u32) -> Self {
        Self::part_of(Space::FlattenedPrefix, id, part)
    }

    /// One part in a space that holds one payload for each session.
    pub fn part_of(space: Space, id: SessionId, part: u32) -> Self {
        Self::new(space, &[&id.0, &part.to_be_bytes()])
    }

    /// The head of a session whose turn has ended.
    pub fn header(id: SessionId) -> Self {
        Self::new(Space::Header, &[&id.0])
    }

    /// The head of a session whose turn is in flight.
    pub fn open_header(id: SessionId) -> Self {
        Self::new(Space::OpenHeader, &[&id.0])
    }

    /// The mark of a session that has to be looked at by the purge.
    pub fn gc_mark(id: SessionId) -> Self {
        Self::new(Space::GcMark, &[&id.0])
    }

    /// An edge from a session to one that depends on it.
    pub fn edge(parent: SessionId, kind: EdgeKind, child: SessionId) -> Self {
        Self::new(Space::Edge, &[&parent.0, &[kind as u8], &child.0])
    }

    /// A visible response at its place in the log.
    pub fn response_index(ordinal: u64) -> Self {
        Self::new(Space::ResponseIndex, &[&ordinal.to_be_bytes()])
    }

    /// A visible response at its place among its owner's; the newest comes first.
    pub fn owner_index(owner: &str, ordinal: u64) -> Self {
        Self::new(
            Space::OwnerIndex,
            &[&owner_digest(owner), &(!ordinal).to_be_bytes()],
        )
    }

    /// A session without a stored response at its place in the log.
    pub fn unstored_index(ordinal: u64) -> Self {
        Self::new(Space::UnstoredIndex, &[&ordinal.to_be_bytes()])
    }

    /// The smallest key that is greater than this one.
    pub(super) fn successor(&self) -> Self {
        let mut next = self.clone();
        next.0.push(0);
        next
    }

    /// The bytes, in whose order a storage sorts.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the value is about, unless the key is none of ours.
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

    /// The session that the key belongs to: the parent, for an edge.
    pub fn session(&self) -> Option<SessionId> {
        let named = match self.space()? {
            Space::ResponseIndex | Space::Meta | Space::OwnerIndex | Space::UnstoredIndex => {
                return None;
            }
            _ => self.0.get(1..17)?,
        };
        named.try_into().ok().map(SessionId)
    }

    /// The number of the first event and the part, for a key of [`Space::Event`].
    pub fn event_part(&self) -> Option<(u64, u32)> {
        let seq = self.0.get(17..25)?.try_into().ok()?;
        let part = self.0.get(25..29)?.try_into().ok()?;
        Some((u64::from_be_bytes(seq), u32::from_be_bytes(part)))
    }

    /// The bond and the child, for a key of [`Space::Edge`].
    pub fn edge_child(&self) -> Option<(EdgeKind, SessionId)> {
        let kind = match self.0.get(17)? {
            0 => EdgeKind::Continues,
            1 => EdgeKind::Shares,
            _ => return None,
        };
        Some((kind, SessionId(self.0.get(18..34)?.try_into().ok()?)))
    }

    /// The place in the log, for a key that ends with one.
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

/// Owners have names of any length; a key holds a digest of them.
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
