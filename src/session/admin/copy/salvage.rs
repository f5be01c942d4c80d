//! One session, if all of it can be read; its head made anew if that alone is missing or old.

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

/// A whole session.
pub(super) struct Salvaged {
    pub(super) head: SessionHeader,
    pub(super) events: Vec<Payload>,
    /// The body of its response, unless the head holds it.
    pub(super) body: Option<Payload>,
    pub(super) flat: Option<Payload>,
    /// When its turn ended, or began if it did not end.
    pub(super) ended_at_ms: i64,
}

impl Salvaged {
    /// The sessions without which this one means nothing.
    pub(super) fn needs(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.head
            .fork
            .map(|fork| fork.parent)
            .into_iter()
            .chain(self.head.continues)
    }
}

/// Reads a session and checks all of it.
pub(super) fn salvage(read: &impl ReadStore, id: SessionId) -> Result<Salvaged, LogError> {
    let (head, events) = match load::<SessionHeader>(read, &Key::header(id))? {
        Some(head) => with_events(read, id, head)?,
        None => without_head(read, id)?,
    };
    let decoded: Result<Vec<_>, _> = events.iter().map(Event::decode).collect();
    let decoded = decoded.map_err(|damage| damaged(&Key::header(id), &damage))?;
    let closed = replay(&decoded).closed;
    let ended_at_ms = closed.map_or(head.created_at_ms, |closed| closed.closed_at_ms);
    if head.state == SessionState::Stored && head.response.is_none() {
        return Err(damaged(&Key::header(id), &"the record of a response is missing").into());
    }
    let body = match &head.response {
        Some(kept) if kept.body.is_none() => Some(whole_body(read, id, kept)?),
        _ => None,
    };
    let flat = if head.flat {
        Some(whole_flat(read, id)?)
    } else {
        None
    };
    Ok(Salvaged {
        head,
        events,
        body,
        flat,
        ended_at_ms,
    })
}

fn with_events(
    read: &impl ReadStore,
    id: SessionId,
    head: SessionHeader,
) -> Result<(SessionHeader, Vec<Payload>), LogError> {
    let events = load_event_payloads(read, id, head.events)?;
    if hash_chain::over(&events) != head.chain {
        return Err(damaged(&Key::header(id), &"the chain over its events is broken").into());
    }
    Ok((head, events))
}

/// A session whose turn is in flight, or whose last head was lost: then one from before the turn
/// ended may still be found.
fn without_head(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<(SessionHeader, Vec<Payload>), LogError> {
    let open = load::<SessionHeader>(read, &Key::open_header(id))?;
    match (rebuild(read, id), open) {
        (Ok(rebuilt), _) if rebuilt.0.response.is_some() => Ok(rebuilt),
        (_, Some(open)) => with_events(read, id, open),
        (rebuilt, None) => rebuilt,
    }
}

fn whole_body(
    read: &impl ReadStore,
    id: SessionId,
    kept: &ResponseHeader,
) -> Result<Payload, LogError> {
    let body = load_parts(read, Space::Body, id)?.filter(|body| {
        let digest: [u8; 32] = Sha256::digest(&body.bytes).into();
        digest == kept.body_digest
    });
    Ok(body.ok_or_else(|| damaged(&Key::body(id, 0), &"the body is not whole"))?)
}

fn whole_flat(read: &impl ReadStore, id: SessionId) -> Result<Payload, LogError> {
    lineage::load_flat(read, id)?;
    let flat = load_parts(read, Space::FlattenedPrefix, id)?.filter(|flat| flat.kind == Kind::Flat);
    Ok(flat.ok_or_else(|| {
        damaged(
            &Key::flattened_prefix(id, 0),
            &"the flattened tokens are missing",
        )
    })?)
}

/// Makes a head from the events that are there, in order, from the first on. A response comes back
/// if its body has values of its own, to be read but not to be forked.
fn rebuild(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<(SessionHeader, Vec<Payload>), LogError> {
    let events = leading_events(read, id)?;
    let decoded: Result<Vec<_>, _> = events.iter().map(Event::decode).collect();
    let decoded = decoded.map_err(|damage| damaged(&Key::header(id), &damage))?;
    let replayed = replay(&decoded);
    let opened = replayed
        .opened
        .ok_or_else(|| damaged(&Key::event(id, 0, 0), &"the session's opening is missing"))?;
    let depth = match opened.fork {
        Some(fork) => load_session(read, fork.parent)?.map_or(0, |head| head.depth) + 1,
        None => 0,
    };
    let response = rebuild_response(read, id, &decoded)?;
    let body_len_bytes = response.as_ref().map_or(0, |kept| kept.body_len_bytes);
    let lengths = events.iter().map(|event| event.bytes.len() as u64);
    let head = SessionHeader {
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
    Ok((head, events))
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

/// The events from the first on, up to the first that is not whole.
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
            let unpacked =
                whole.map(|whole| whole.map(|whole| event_batch::unpack(&whole)).transpose());
            match unpacked {
                Ok(Ok(unpacked)) => events.extend(unpacked.into_iter().flatten()),
                _ => over = true,
            }
        }
        Ok(())
    })?;
    Ok(events)
}
