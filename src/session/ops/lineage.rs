//! The tokens of a session and its ancestors, read in a bounded number of steps.
//!
//! A fork records its parent and an event number, which is O(1). To avoid a walk over a chain of
//! thousands of forks, every 32nd fork stores a flattened prefix. The prefix is a copy of the
//! tokens of its 32 nearest ancestors, or of 1,024 at every 1,024th fork, and so on. Each token is
//! thus copied once per level. A chain of 3,000 turns is read in fewer than 100 steps.

use super::super::{
    error::LogError,
    format::{
        codec::{self, Kind},
        event::{Event, ForkPoint, Tokens},
        payload::{Payload, load_parts},
        record::{FlattenedPrefix, SessionHeader, damaged, load},
        session_events::load_events,
    },
    keys::{Key, SessionId, Space},
    store::ReadStore,
};
use crate::id::TokenId;

/// The number of forks that one flattened prefix of the lowest level covers.
pub const FLATTEN_EVERY_FORKS: u32 = 32;

/// The tokens up to a fork point, newest segment first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The segments: sessions or flattened prefixes.
    pub segments: Vec<LineageSegment>,
}

/// The own tokens of one session, or of several consecutive sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageSegment {
    /// The oldest session of the segment.
    pub oldest: SessionId,
    /// The number of forks between that session and its root.
    pub depth: u32,
    /// The tokens, in order.
    pub tokens: Vec<TokenId>,
}

impl Lineage {
    /// Returns all tokens from the oldest segment on.
    pub fn tokens(&self) -> Vec<TokenId> {
        self.segments
            .iter()
            .rev()
            .flat_map(|segment| segment.tokens.iter().copied())
            .collect()
    }
}

/// Loads the tokens before `point`, back to the root or to the session at depth `to_depth`.
///
/// # Errors
/// [`LogError::Corrupt`] if an ancestor or an event is missing or damaged.
pub fn lineage(
    read: &impl ReadStore,
    point: ForkPoint,
    to_depth: u32,
) -> Result<Lineage, LogError> {
    let mut segments = Vec::new();
    let mut at = point;
    loop {
        let mut header = load_header(read, at.parent)?;
        if at.events > header.events {
            let missing = format!("it should have {} events", at.events);
            return Err(damaged(&Key::header(at.parent), &missing).into());
        }
        let tokens = own_tokens(read, at.parent, at.events)?;
        segments.push(LineageSegment {
            oldest: at.parent,
            depth: header.depth,
            tokens,
        });
        let mut oldest = at.parent;
        while header.flat && header.depth > to_depth {
            let prefix = load_flattened_prefix(read, oldest)?;
            oldest = prefix.base;
            header = load_header(read, oldest)?;
            segments.push(LineageSegment {
                oldest,
                depth: header.depth,
                tokens: prefix.tokens,
            });
        }
        match header.fork {
            Some(fork) if header.depth > to_depth => at = fork,
            _ => return Ok(Lineage { segments }),
        }
    }
}

fn load_header(read: &impl ReadStore, id: SessionId) -> Result<SessionHeader, LogError> {
    let key = Key::header(id);
    Ok(load(read, &key)?
        .ok_or_else(|| damaged(&key, &"the header of a shared session is missing"))?)
}

fn own_tokens(read: &impl ReadStore, id: SessionId, events: u64) -> Result<Vec<TokenId>, LogError> {
    let mut own = Vec::new();
    for event in load_events(read, id, events)? {
        if let Event::PromptAppended(Tokens { tokens }) | Event::Generated(Tokens { tokens }) =
            event
        {
            own.extend(tokens);
        }
    }
    Ok(own)
}

/// Loads the flattened prefix that a session stores.
///
/// # Errors
/// [`LogError::Corrupt`] if the prefix is missing or damaged.
pub fn load_flattened_prefix(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<FlattenedPrefix, LogError> {
    let key = Key::flattened_prefix(id, 0);
    let payload = load_parts(read, Space::FlattenedPrefix, id)?
        .ok_or_else(|| damaged(&key, &"the flattened prefix is missing"))?;
    if (payload.kind, payload.schema) != (Kind::Flat, 1) {
        return Err(damaged(&key, &"not a flattened prefix").into());
    }
    let prefix = codec::decode("flattened tokens", &payload.bytes);
    Ok(prefix.map_err(|damage| damaged(&key, &damage))?)
}

/// Returns the depth from which a new fork at `depth` flattens; `None` if the fork stores no
/// flattened prefix.
pub fn flattened_base_depth(depth: u32) -> Option<u32> {
    let mut covered = FLATTEN_EVERY_FORKS;
    if depth == 0 || !depth.is_multiple_of(covered) {
        return None;
    }
    while let Some(more) = covered.checked_mul(FLATTEN_EVERY_FORKS)
        && depth.is_multiple_of(more)
    {
        covered = more;
    }
    Some(depth - covered)
}

/// Builds the flattened prefix of a new fork at `point`; `None` if its depth needs none.
///
/// # Errors
/// As [`lineage`].
pub fn flattened_prefix_for_fork(
    read: &impl ReadStore,
    point: ForkPoint,
) -> Result<Option<Payload>, LogError> {
    let parent = load_header(read, point.parent)?;
    let Some(base_depth) = flattened_base_depth(parent.depth + 1) else {
        return Ok(None);
    };
    let lineage = lineage(read, point, base_depth)?;
    let base = lineage
        .segments
        .last()
        .filter(|segment| segment.depth == base_depth)
        .ok_or_else(|| {
            damaged(
                &Key::header(point.parent),
                &format!("it has no ancestor at depth {base_depth}"),
            )
        })?;
    let prefix = FlattenedPrefix {
        base: base.oldest,
        tokens: lineage.tokens(),
    };
    Ok(Some(Payload {
        kind: Kind::Flat,
        schema: 1,
        bytes: codec::encode(&prefix),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattened_prefixes_reach_one_level_down() {
        let cases = [
            (0, None),
            (1, None),
            (31, None),
            (32, Some(0)),
            (33, None),
            (64, Some(32)),
            (1024, Some(0)),
            (1056, Some(1024)),
            (2048, Some(1024)),
            (32_768, Some(0)),
        ];
        for (depth, base) in cases {
            assert_eq!(flattened_base_depth(depth), base, "at depth {depth}");
        }
    }
}
