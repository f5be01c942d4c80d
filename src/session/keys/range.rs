//! Ranges of keys.

use super::{
    id::SessionId,
    key::{EdgeKind, Key, Space, owner_digest},
};

/// A half-open range of keys: `start` is included, `end` is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The lower bound, included.
    pub start: Key,
    /// The upper bound, not included.
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

    /// Returns the range of all keys.
    pub fn all() -> Self {
        Self {
            start: Key::from_bytes(&[]),
            end: Key::from_bytes(&[0xff]),
        }
    }

    /// Returns the range of one key space.
    pub fn space(space: Space) -> Self {
        Self::prefix(&[space as u8])
    }

    /// Returns the keys of one session in a space whose keys begin with a session id.
    pub fn session(space: Space, id: SessionId) -> Self {
        Self::prefix(Key::new(space, &[&id.0]).as_bytes())
    }

    /// Returns the response index from ordinal `from` up to, but not including, `to`.
    pub fn response_index(from: u64, to: u64) -> Self {
        Self {
            start: Key::response_index(from),
            end: Key::response_index(to),
        }
    }

    /// Returns the parts of the event batch whose first event has number `seq`.
    pub fn event_batch(id: SessionId, seq: u64) -> Self {
        Self::prefix(Key::new(Space::Event, &[&id.0, &seq.to_be_bytes()]).as_bytes())
    }

    /// Returns the event batches of a session that begin at event `seq` or later.
    pub fn events_from(id: SessionId, seq: u64) -> Self {
        let whole = Self::session(Space::Event, id);
        Self {
            start: Key::event(id, seq, 0),
            end: whole.end,
        }
    }

    /// Returns the edges of one kind that leave a session.
    pub fn edges(parent: SessionId, kind: EdgeKind) -> Self {
        Self::prefix(Key::new(Space::Edge, &[&parent.0, &[kind as u8]]).as_bytes())
    }

    /// Returns the index entries of one owner.
    pub fn owner_index(owner: &str) -> Self {
        Self::prefix(Key::new(Space::OwnerIndex, &[&owner_digest(owner)]).as_bytes())
    }

    /// Returns the rest of this range after `key`.
    #[must_use]
    pub fn after(mut self, key: &Key) -> Self {
        self.start = self.start.max(key.successor());
        self
    }

    /// True if the range contains `key`.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && *key < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId([0xab; 16]);

    #[test]
    fn ranges_hold_their_own_keys_only() {
        let last = SessionId([0xff; 16]);
        let range = KeyRange::session(Space::Event, last);
        assert!(range.contains(&Key::event(last, u64::MAX, u32::MAX)));
        assert!(!range.contains(&Key::flattened_prefix(SessionId([0; 16]), 0)));
        assert!(!range.contains(&Key::event(SessionId([0xfe; 16]), 0, 0)));
        let edges = KeyRange::edges(ID, EdgeKind::Continues);
        assert!(edges.contains(&Key::edge(ID, EdgeKind::Continues, last)));
        assert!(!edges.contains(&Key::edge(ID, EdgeKind::Shares, last)));
        assert!(!KeyRange::owner_index("a").contains(&Key::owner_index("b", 1)));
        assert!(KeyRange::all().contains(&Key::gc_mark(last)));
        assert!(
            !edges
                .clone()
                .after(&Key::edge(ID, EdgeKind::Continues, ID))
                .contains(&Key::edge(ID, EdgeKind::Continues, ID))
        );
    }

    #[test]
    fn keys_decode_to_their_parts() {
        let key = Key::event(ID, 7, 3);
        assert_eq!((key.session(), key.event_part()), (Some(ID), Some((7, 3))));
        let edge = Key::edge(ID, EdgeKind::Shares, SessionId([1; 16]));
        assert_eq!(
            edge.edge_child(),
            Some((EdgeKind::Shares, SessionId([1; 16])))
        );
        assert_eq!(Key::owner_index("a", 9).ordinal(), Some(9));
        assert_eq!(Key::from_bytes(b"?").space(), None);
        assert_eq!(Key::from_bytes(b"e12").event_part(), None);
    }
}
