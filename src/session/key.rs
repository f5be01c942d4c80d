//! Ids of sessions and the typed, ordered keys under which everything is stored.
//!
//! One tree holds all; the first byte of a key says what it is. Numbers are big-endian, so that
//! the order of keys is the order of numbers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// Identifies a session and, as every turn has a session of its own, the response it may store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// The id made of these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = NotAnId;

    /// Accepts exactly 32 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(NotAnId);
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(id))
    }
}

fn hex_digit(digit: u8) -> Result<u8, NotAnId> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotAnId),
    }
}

/// A text is not 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 lower-case hexadecimal digits")]
pub struct NotAnId;

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
    Flat = b'f',
    /// Visible responses in log order.
    Order = b'l',
    /// The store's own records.
    Meta = b'm',
    /// Heads of sessions whose turn is in flight.
    Open = b'n',
    /// Visible responses by owner, for those that have one, in log order.
    Listing = b'o',
    /// Heads of sessions whose turn has ended.
    Head = b's',
    /// Sessions without a stored response, in log order.
    Unstored = b'u',
    /// Sessions whose events may have to go.
    Work = b'w',
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

    fn new(space: Space, parts: &[&[u8]]) -> Self {
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
    pub fn flat(id: SessionId, part: u32) -> Self {
        Self::part_of(Space::Flat, id, part)
    }

    /// One part in a space that holds one payload for each session.
    pub fn part_of(space: Space, id: SessionId, part: u32) -> Self {
        Self::new(space, &[&id.0, &part.to_be_bytes()])
    }

    /// The head of a session whose turn has ended.
    pub fn head(id: SessionId) -> Self {
        Self::new(Space::Head, &[&id.0])
    }

    /// The head of a session whose turn is in flight.
    pub fn open(id: SessionId) -> Self {
        Self::new(Space::Open, &[&id.0])
    }

    /// The mark of a session that has to be looked at by the purge.
    pub fn work(id: SessionId) -> Self {
        Self::new(Space::Work, &[&id.0])
    }

    /// An edge from a session to one that depends on it.
    pub fn edge(parent: SessionId, bond: EdgeKind, child: SessionId) -> Self {
        Self::new(Space::Edge, &[&parent.0, &[bond as u8], &child.0])
    }

    /// A visible response at its place in the log.
    pub fn order(ordinal: u64) -> Self {
        Self::new(Space::Order, &[&ordinal.to_be_bytes()])
    }

    /// A visible response at its place among its owner's; the newest comes first.
    pub fn listing(owner: &str, ordinal: u64) -> Self {
        Self::new(
            Space::Listing,
            &[&owner_digest(owner), &(!ordinal).to_be_bytes()],
        )
    }

    /// A session without a stored response at its place in the log.
    pub fn unstored(ordinal: u64) -> Self {
        Self::new(Space::Unstored, &[&ordinal.to_be_bytes()])
    }

    /// The bytes, in whose order a storage sorts.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the value is about, unless the key is none of ours.
    pub fn space(&self) -> Option<Space> {
        use Space::*;
        [
            Body, Edge, Event, Flat, Order, Meta, Open, Listing, Head, Unstored, Work,
        ]
        .into_iter()
        .find(|space| self.0.first() == Some(&(*space as u8)))
    }

    /// The session that the key belongs to: the parent, for an edge.
    pub fn session(&self) -> Option<SessionId> {
        let named = match self.space()? {
            Space::Order | Space::Meta | Space::Listing | Space::Unstored => return None,
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
        let bond = match self.0.get(17)? {
            0 => EdgeKind::Continues,
            1 => EdgeKind::Shares,
            _ => return None,
        };
        Some((bond, SessionId(self.0.get(18..34)?.try_into().ok()?)))
    }

    /// The place in the log, for a key that ends with one.
    pub fn ordinal(&self) -> Option<u64> {
        let tail = self.0.len().checked_sub(8)?;
        let number = u64::from_be_bytes(self.0.get(tail..)?.try_into().ok()?);
        Some(if self.space()? == Space::Listing {
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
fn owner_digest(owner: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(owner.as_bytes())[..16]);
    digest
}

/// A range of keys, from its first key up to but without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in the range.
    pub start: Key,
    /// The first key after the range.
    pub end: Key,
}

impl KeyRange {
    fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self {
            start: Key::from_bytes(prefix),
            end: Key::from_bytes(&end),
        }
    }

    /// Every key there is.
    pub fn all() -> Self {
        Self {
            start: Key::from_bytes(&[]),
            end: Key::from_bytes(&[0xff]),
        }
    }

    /// All keys of one space.
    pub fn space(space: Space) -> Self {
        Self::prefix(&[space as u8])
    }

    /// All keys of one session in a space whose keys begin with a session.
    pub fn session(space: Space, id: SessionId) -> Self {
        Self::prefix(Key::new(space, &[&id.0]).as_bytes())
    }

    /// The places that a stretch of the log has, from ordinal `from` up to but without `to`.
    pub fn order(from: u64, to: u64) -> Self {
        Self {
            start: Key::order(from),
            end: Key::order(to),
        }
    }

    /// The parts of the events that are kept together from number `seq` on.
    pub fn pack(id: SessionId, seq: u64) -> Self {
        Self::prefix(Key::new(Space::Event, &[&id.0, &seq.to_be_bytes()]).as_bytes())
    }

    /// The events of a session that are kept from number `seq` on.
    pub fn events_from(id: SessionId, seq: u64) -> Self {
        let whole = Self::session(Space::Event, id);
        Self {
            start: Key::event(id, seq, 0),
            end: whole.end,
        }
    }

    /// The edges of one kind that leave a session.
    pub fn edges(parent: SessionId, bond: EdgeKind) -> Self {
        Self::prefix(Key::new(Space::Edge, &[&parent.0, &[bond as u8]]).as_bytes())
    }

    /// The listing of one owner.
    pub fn listing(owner: &str) -> Self {
        Self::prefix(Key::new(Space::Listing, &[&owner_digest(owner)]).as_bytes())
    }

    /// What of this range comes after `key`.
    #[must_use]
    pub fn after(mut self, key: &Key) -> Self {
        let mut next = key.clone();
        next.0.push(0);
        self.start = self.start.max(next);
        self
    }

    /// Whether the range holds this key.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && *key < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId([0xab; 16]);

    #[test]
    fn ids_are_read_as_written_and_nothing_else_is() {
        let text = "ab".repeat(16);
        assert_eq!(text.parse(), Ok(ID));
        assert_eq!(ID.to_string(), text);
        for wrong in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &format!("{}g", &text[1..]),
        ] {
            assert_eq!(wrong.parse::<SessionId>(), Err(NotAnId), "{wrong}");
        }
    }

    #[test]
    fn order_of_keys_is_order_of_numbers() {
        assert!(Key::event(ID, 255, 9) < Key::event(ID, 256, 0));
        assert!(Key::event(ID, 1, 255) < Key::event(ID, 1, 256));
        assert!(Key::order(255) < Key::order(256));
        assert!(Key::listing("a", 256) < Key::listing("a", 255));
    }

    #[test]
    fn ranges_hold_their_own_keys_only() {
        let last = SessionId([0xff; 16]);
        let range = KeyRange::session(Space::Event, last);
        assert!(range.contains(&Key::event(last, u64::MAX, u32::MAX)));
        assert!(!range.contains(&Key::flat(SessionId([0; 16]), 0)));
        assert!(!range.contains(&Key::event(SessionId([0xfe; 16]), 0, 0)));
        let edges = KeyRange::edges(ID, EdgeKind::Continues);
        assert!(edges.contains(&Key::edge(ID, EdgeKind::Continues, last)));
        assert!(!edges.contains(&Key::edge(ID, EdgeKind::Shares, last)));
        assert!(!KeyRange::listing("a").contains(&Key::listing("b", 1)));
        assert!(KeyRange::all().contains(&Key::work(last)));
        assert!(
            !edges
                .clone()
                .after(&Key::edge(ID, EdgeKind::Continues, ID))
                .contains(&Key::edge(ID, EdgeKind::Continues, ID))
        );
    }

    #[test]
    fn keys_are_taken_apart_again() {
        let key = Key::event(ID, 7, 3);
        assert_eq!((key.session(), key.event_part()), (Some(ID), Some((7, 3))));
        let edge = Key::edge(ID, EdgeKind::Shares, SessionId([1; 16]));
        assert_eq!(
            edge.edge_child(),
            Some((EdgeKind::Shares, SessionId([1; 16])))
        );
        assert_eq!(Key::listing("a", 9).ordinal(), Some(9));
        assert_eq!(Key::from_bytes(b"?").space(), None);
        assert_eq!(Key::from_bytes(b"e12").event_part(), None);
    }
}
