//! Reads one complete session. Rebuilds its header if only the header is missing or outdated.

use sha2::{Digest, Sha256};

use crate::session::{
    error::LogError,
    format::{
        codec::Kind,
        event::Event,
        event_batch, hash_chain,
        payload::{Assembly, Payload, load_parts},
        record::{
            ResponseHeader, SessionHeader, SessionState, damaged, for_each_entry, load,
            load_session,
        },
        session_events::load_event_payloads,
    },
    keys::{Key, KeyRange, SessionId, Space},
    ops::{lineage, replay::replay},
    store::{ReadStore, StorageError},
};

/// A complete session.
pub(super) struct Salvaged {
    pub(super) header: SessionHeader,
    pub(super) events: Vec<Payload>,
    /// The body of its response; `None` if the header contains the body.
    pub(super) body: Option<Payload>,
    pub(super) flat: Option<Payload>,
    /// The time when its turn ended; the time when it began if it did not end.
    pub(super) ended_at_ms: i64,
}

impl Salvaged {
    /// The sessions that this session depends on.
    pub(super) fn needs(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.header
            .fork
            .map(|fork| fork.parent)
            .into_iter()
            .chain(self.header.continues)
    }
}

/// Loads a session and checks all of it.
pub(super) fn salvage(read: &impl ReadStore, id: SessionId) -> Result<Salvaged, LogError> {
    let (header, events) = match load::<SessionHeader>(read, &Key::header(id))? {
        Some(header) => load_with_events(read, id, header)?,
        None => load_without_header(read, id)?,
    };
    let decoded: Result<Vec<_>, _> = events.iter().map(Event::decode).collect();
    let decoded = decoded.map_err(|damage| damaged(&Key::header(id), &damage))?;
    let closed = replay(&decoded).closed;
    let ended_at_ms = closed.map_or(header.created_at_ms, |closed| closed.closed_at_ms);
    if header.state == SessionState::Stored && header.response.is_none() {
        return Err(damaged(&Key::header(id), &"the record of a response is missing").into());
    }
    let body = match &header.response {
        Some(response) if response.body.is_none() => Some(load_body(read, id, response)?),
        _ => None,
    };
    let flat = if header.flat {
        Some(load_flattened_prefix_payload(read, id)?)
    } else {
        None
    };
    Ok(Salvaged {
        header,
        events,
        body,
        flat,
        ended_at_ms,
    })
}

fn load_with_events(
    read: &impl ReadStore,
    id: SessionId,
    header: SessionHeader,
) -> Result<(SessionHeader, Vec<Payload>), LogError> {
    let events = load_event_payloads(read, id, header.events)?;
    if hash_chain::over(&events) != header.chain {
        return Err(damaged(
            &Key::header(id),
            &"the hash chain over its events does not match",
        )
        .into());
    }
    Ok((header, events))
}

/// Loads a session that has no header: its turn is in flight, or the header is lost. In the second
/// case the older open header may still exist.
fn load_without_header(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<(SessionHeader, Vec<Payload>), LogError> {
    let open = load::<SessionHeader>(read, &Key::open_header(id))?;
    match (rebuild_header(read, id), open) {
        (Ok(rebuilt), _) if rebuilt.0.response.is_some() => Ok(rebuilt),
        (_, Some(open)) => load_with_events(read, id, open),
        (rebuilt, None) => rebuilt,
    }
}

fn load_body(
    read: &impl ReadStore,
    id: SessionId,
    response: &ResponseHeader,
) -> Result<Payload, LogError> {
    let body = load_parts(read, Space::Body, id)?.filter(|body| {
        let digest: [u8; 32] = Sha256::digest(&body.bytes).into();
        digest == response.body_digest
    });
    Ok(body.ok_or_else(|| damaged(&Key::body(id, 0), &"the body is missing or damaged"))?)
}

fn load_flattened_prefix_payload(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<Payload, LogError> {
    lineage::load_flattened_prefix(read, id)?;
    let flat = load_parts(read, Space::FlattenedPrefix, id)?.filter(|flat| flat.kind == Kind::Flat);
    Ok(flat.ok_or_else(|| {
        damaged(
            &Key::flattened_prefix(id, 0),
            &"the flattened prefix is missing",
        )
    })?)
}

/// Rebuilds a header from the leading intact events. A response is restored if its body has its own
/// values; it can be read but not forked.
fn rebuild_header(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<(SessionHeader, Vec<Payload>), LogError> {
    let events = leading_events(read, id)?;
    let decoded: Result<Vec<_>, _> = events.iter().map(Event::decode).collect();
    let decoded = decoded.map_err(|damage| damaged(&Key::header(id), &damage))?;
    let replayed = replay(&decoded);
    let opened = replayed
        .opened
        .ok_or_else(|| damaged(&Key::event(id, 0, 0), &"the Opened event is missing"))?;
    let depth = match opened.fork {
        Some(fork) => load_session(read, fork.parent)?.map_or(0, |header| header.depth) + 1,
        None => 0,
    };
    let response = rebuild_response(read, id, &decoded)?;
    let body_len_bytes = response
        .as_ref()
        .map_or(0, |response| response.body_len_bytes);
    let lengths = events.iter().map(|event| event.bytes.len() as u64);
    let header = SessionHeader {
        owner: opened.owner,
        model: opened.model,
        created_at_ms: opened.created_at_ms,
        fork: opened.fork,
        continues: response.as_ref().and(opened.continues),
        depth,
        flat: false,
        events: events.len() as u64,
        tokens: replayed.tokens.len() as u64,
        bytes: lengths.sum::<u64>() + body_len_bytes,
        chain: hash_chain::over(&events),
        ordinal: None,
        state: if response.is_some() {
            SessionState::Stored
        } else {
            SessionState::Unstored
        },
        response,
    };
    Ok((header, events))
}

fn rebuild_response(
    read: &impl ReadStore,
    id: SessionId,
    events: &[Event],
) -> Result<Option<ResponseHeader>, LogError> {
    let last = events
        .iter()
        .rposition(|event| matches!(event, Event::TurnClosed(_)));
    let purged = events.iter().any(|event| matches!(event, Event::Purged(_)));
    let Some(last) = last.filter(|_| !purged) else {
        return Ok(None);
    };
    let body = load_parts(read, Space::Body, id)?;
    Ok(body
        .filter(|body| body.kind == Kind::Body)
        .map(|body| ResponseHeader {
            end_events: last as u64 + 1,
            head_digest: [0; 32],
            forkable: false,
            body_len_bytes: body.bytes.len() as u64,
            body_digest: Sha256::digest(&body.bytes).into(),
            body: None,
        }))
}

/// Loads the leading events, up to the first missing or damaged one.
fn leading_events(read: &impl ReadStore, id: SessionId) -> Result<Vec<Payload>, StorageError> {
    let mut events: Vec<Payload> = Vec::new();
    let mut assembly = Assembly::default();
    let mut first = 0;
    let mut over = false;
    for_each_entry(read, &KeyRange::session(Space::Event, id), |key, value| {
        if assembly.is_empty() {
            first = events.len() as u64;
        }
        let position = key.event_part();
        over |= position.is_none_or(|(seq, _)| seq != first);
        if let Some((_, part)) = position.filter(|_| !over) {
            let whole = assembly.push(key, part, &value);
            let decoded =
                whole.map(|whole| whole.map(|whole| event_batch::decode(&whole)).transpose());
            match decoded {
                Ok(Ok(decoded)) => events.extend(decoded.into_iter().flatten()),
                _ => over = true,
            }
        }
        Ok(())
    })?;
    Ok(events)
}
