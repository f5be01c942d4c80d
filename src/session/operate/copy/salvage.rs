//! One session, if all of it can be read; its head made anew if that alone is missing or old.

use sha2::{Digest, Sha256};

use crate::session::{
    chain,
    codec::Kind,
    error::LogError,
    event::Event,
    fork,
    key::{Key, KeyRange, SessionId, Space},
    record::{
        Assembly, Head, Payload, Response, State, damaged, for_each_entry, load,
        load_event_payloads, load_parts,
    },
    replay::replay,
    storage::{Read, StorageError},
};

/// A whole session.
pub(super) struct Salvaged {
    pub(super) head: Head,
    pub(super) events: Vec<Payload>,
    pub(super) response: Option<Response>,
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
pub(super) fn salvage(read: &impl Read, id: SessionId) -> Result<Salvaged, LogError> {
    let response = load::<Response>(read, &Key::response(id))?;
    let stored = load::<Head>(read, &Key::head(id))?;
    // A stored response is written with the head that says so: an open head is an older one.
    let head = stored.filter(|head| head.state != State::Open || response.is_none());
    let (head, events) = match head {
        Some(head) => {
            let events = load_event_payloads(read, id, head.events)?;
            if chain::over(&events) != head.chain {
                return Err(damaged(&Key::head(id), &"the chain over its events is broken").into());
            }
            (head, events)
        }
        None => rebuild(read, id, response.as_ref())?,
    };
    let decoded: Result<Vec<_>, _> = events.iter().map(Event::decode).collect();
    let decoded = decoded.map_err(|damage| damaged(&Key::head(id), &damage))?;
    let closed = replay(&decoded).closed;
    let ended_at_ms = closed.map_or(head.created_at_ms, |closed| closed.closed_at_ms);
    let kept = matches!(head.state, State::Stored | State::Hidden);
    let response = response.filter(|_| kept);
    let body = match &response {
        Some(response) => Some(whole_body(read, id, response)?),
        None if head.state == State::Stored => {
            return Err(damaged(&Key::response(id), &"the record of a response is missing").into());
        }
        None => None,
    };
    let flat = if head.flat {
        Some(whole_flat(read, id)?)
    } else {
        None
    };
    Ok(Salvaged {
        head,
        events,
        response,
        body,
        flat,
        ended_at_ms,
    })
}

fn whole_body(read: &impl Read, id: SessionId, response: &Response) -> Result<Payload, LogError> {
    let body = load_parts(read, Space::Body, id)?.filter(|body| {
        let digest: [u8; 32] = Sha256::digest(&body.bytes).into();
        digest == response.body_digest
    });
    Ok(body.ok_or_else(|| damaged(&Key::body(id, 0), &"the body is not whole"))?)
}

fn whole_flat(read: &impl Read, id: SessionId) -> Result<Payload, LogError> {
    fork::load_flat(read, id)?;
    let flat = load_parts(read, Space::Flat, id)?.filter(|flat| flat.kind == Kind::Flat);
    Ok(flat.ok_or_else(|| damaged(&Key::flat(id, 0), &"the flattened tokens are missing"))?)
}

/// Makes a head from the events that are there, in order, from the first on.
fn rebuild(
    read: &impl Read,
    id: SessionId,
    response: Option<&Response>,
) -> Result<(Head, Vec<Payload>), LogError> {
    let wanted = response.map_or(u64::MAX, |response| response.end_events);
    let events = leading_events(read, id, wanted)?;
    let decoded: Result<Vec<_>, _> = events.iter().map(Event::decode).collect();
    let decoded = decoded.map_err(|damage| damaged(&Key::head(id), &damage))?;
    let replayed = replay(&decoded);
    let opened = replayed
        .opened
        .ok_or_else(|| damaged(&Key::event(id, 0, 0), &"the session's opening is missing"))?;
    if response.is_some_and(|response| events.len() as u64 != response.end_events) {
        return Err(damaged(&Key::head(id), &"events of its response are missing").into());
    }
    let depth = match opened.fork {
        Some(fork) => load::<Head>(read, &Key::head(fork.parent))?.map_or(0, |head| head.depth) + 1,
        None => 0,
    };
    let head = Head {
        owner: opened.owner,
        model: opened.model,
        created_at_ms: opened.created_at_ms,
        fork: opened.fork,
        continues: response.and(opened.continues),
        depth,
        flat: false,
        events: events.len() as u64,
        tokens: replayed.tokens.len() as u64,
        bytes: response.map_or(0, |response| response.bytes),
        chain: chain::over(&events),
        ordinal: None,
        state: if response.is_some() {
            State::Stored
        } else {
            State::Unstored
        },
    };
    Ok((head, events))
}

/// The events from the first on, up to the first that is not whole.
fn leading_events(
    read: &impl Read,
    id: SessionId,
    limit: u64,
) -> Result<Vec<Payload>, StorageError> {
    let mut events: Vec<Payload> = Vec::new();
    let mut assembly = Assembly::default();
    let mut over = false;
    for_each_entry(read, &KeyRange::session(Space::Event, id), |key, value| {
        let position = key.event_part();
        over |= position.is_none_or(|(seq, _)| seq != events.len() as u64 || seq >= limit);
        if let Some((_, part)) = position.filter(|_| !over) {
            match assembly.push(key, part, &value) {
                Ok(payload) => events.extend(payload),
                Err(_) => over = true,
            }
        }
        Ok(())
    })?;
    Ok(events)
}
