//! Event batches: events appended together, in one payload. A commit of few large values is cheaper
//! than one of many small values.
//!
//! ```text
//! for each event: kind 1, schema 2, length 4 (little-endian), bytes
//! ```
//!
//! Batching does not change an event: it keeps its kind, schema, number and digest.

use super::{
    codec::{DecodeError, Kind},
    event::Event,
    hash_chain,
    payload::Payload,
};

/// Length of the header before each event, in bytes.
const FRAME_LEN_BYTES: usize = 7;
const SCHEMA: u16 = 1;

/// Events to append. Some parts of their payload may be staged already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// The end of the payload, which was not staged.
    pub rest: Payload,
    /// The number of parts staged.
    pub staged_parts: u32,
    /// [`hash_chain::event_digest`] of each event.
    pub digests: Vec<[u8; 32]>,
    /// Length of the events without batch headers, in bytes.
    pub len_bytes: u64,
    /// The number of tokens that the events append.
    pub tokens: u64,
}

impl EventBatch {
    /// Encodes events; nothing is staged.
    pub fn of(events: &[Event]) -> Self {
        let payloads: Vec<Payload> = events.iter().map(Event::encode).collect();
        let tokens = events.iter().map(Event::token_count).sum();
        Self::of_payloads(&payloads, tokens)
    }

    /// Batches encoded events, which append `tokens` tokens in total.
    pub fn of_payloads(payloads: &[Payload], tokens: u64) -> Self {
        let lengths = payloads.iter().map(|payload| payload.bytes.len() as u64);
        Self {
            rest: encode(payloads),
            staged_parts: 0,
            digests: payloads.iter().map(hash_chain::event_digest).collect(),
            len_bytes: lengths.sum(),
            tokens,
        }
    }
}

/// Encodes events into one payload.
pub fn encode(events: &[Payload]) -> Payload {
    let lengths = events
        .iter()
        .map(|event| FRAME_LEN_BYTES + event.bytes.len());
    let mut bytes = Vec::with_capacity(lengths.sum());
    for event in events {
        bytes.push(event.kind as u8);
        bytes.extend_from_slice(&event.schema.to_le_bytes());
        bytes.extend_from_slice(&(event.bytes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&event.bytes);
    }
    Payload {
        kind: Kind::Events,
        schema: SCHEMA,
        bytes,
    }
}

/// Decodes a payload into its events, at least one.
///
/// # Errors
/// A [`DecodeError`] if the payload is not an event batch or is truncated.
pub fn decode(payload: &Payload) -> Result<Vec<Payload>, DecodeError> {
    if payload.kind != Kind::Events {
        return Err(DecodeError::Payload(format!(
            "events, but a {:?}",
            payload.kind
        )));
    }
    if payload.schema != SCHEMA {
        return Err(DecodeError::Unknown(format!(
            "schema {} of events",
            payload.schema
        )));
    }
    let mut events = Vec::new();
    let mut rest = payload.bytes.as_slice();
    while !rest.is_empty() || events.is_empty() {
        let (event, after) = first_event(rest)?;
        events.push(event);
        rest = after;
    }
    Ok(events)
}

fn first_event(bytes: &[u8]) -> Result<(Payload, &[u8]), DecodeError> {
    let cut = || DecodeError::Payload("list of whole events".into());
    let (frame, rest) = bytes.split_at_checked(FRAME_LEN_BYTES).ok_or_else(cut)?;
    let kind = Kind::from_number(frame[0])
        .ok_or_else(|| DecodeError::Unknown(format!("kind {}", frame[0])))?;
    let len = u32::from_le_bytes([frame[3], frame[4], frame[5], frame[6]]) as usize;
    let (bytes, rest) = rest.split_at_checked(len).ok_or_else(cut)?;
    let event = Payload {
        kind,
        schema: u16::from_le_bytes([frame[1], frame[2]]),
        bytes: bytes.to_vec(),
    };
    Ok((event, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::format::event::{Purged, Rerooted, Tokens};

    fn events() -> Vec<Event> {
        vec![
            Event::Generated(Tokens { tokens: vec![] }),
            Event::Rerooted(Rerooted { kept_events: 3 }),
            Event::Purged(Purged { ordinal: 4 }),
        ]
    }

    #[test]
    fn events_decode_to_what_was_encoded() {
        let batch = EventBatch::of(&events());
        let payloads = decode(&batch.rest).unwrap();
        let decoded: Result<Vec<_>, _> = payloads.iter().map(Event::decode).collect();
        assert_eq!(decoded.unwrap(), events());
        assert_eq!(batch, EventBatch::of_payloads(&payloads, 0));
        assert_eq!((batch.len_bytes, batch.digests.len()), (24, 3));
    }

    #[test]
    fn truncated_or_empty_batches_are_damaged() {
        let whole = encode(&[events()[1].encode()]);
        for len in 0..whole.bytes.len() {
            let mut cut = whole.clone();
            cut.bytes.truncate(len);
            decode(&cut).unwrap_err();
        }
        let other = Payload {
            kind: Kind::Body,
            ..whole
        };
        decode(&other).unwrap_err();
    }
}
