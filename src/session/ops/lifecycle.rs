//! The lifecycle of a turn's session as changes to the store: open, append, close.

use super::{
    super::{
        error::LogError,
        format::{
            codec,
            event::{Event, ForkPoint, Opened},
            event_batch::EventBatch,
            hash_chain,
            payload::Payload,
            record::{Edge, IndexEntry, ResponseHeader, SessionHeader, SessionState, load},
            v1::{TurnClosed, TurnFinish, TurnStatus, Usage},
        },
        keys::{EdgeKind, Key, KeyRange, SessionId, Space},
        store::ReadStore,
        txn::Txn,
    },
    marks,
};

/// The maximum length of owner and model names, in bytes. Headers thus fit into one value.
pub const NAME_LEN_MAX_BYTES: usize = 1024;

/// The length prefix of a body in a session header, in bytes.
const BODY_LEN_PREFIX_BYTES: usize = 8;

/// A session to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// A random id. It is also the id of the response, if the turn stores one.
    pub id: SessionId,
    /// The API key of the request; `None` without a key policy.
    pub owner: Option<String>,
    /// Id of the model.
    pub model: String,
    /// The fork point, whose events precede this session's events.
    pub fork: Option<ForkPoint>,
    /// The stored response that the turn continues.
    pub continues: Option<SessionId>,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// A payload to store. Some of its parts may be staged already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedPayload {
    /// The end of the payload, which was not staged.
    pub rest: Payload,
    /// The number of parts staged.
    pub staged_parts: u32,
    /// Length of the whole payload, in bytes.
    pub len_bytes: u64,
    /// SHA-256 of the whole body. Zero for other payloads.
    pub digest: [u8; 32],
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionClose {
    /// The last events of the session.
    pub events: Vec<EventBatch>,
    /// The response to store, if any.
    pub response: Option<ClosedResponse>,
    /// Wall time in milliseconds since 1970.
    pub closed_at_ms: i64,
}

/// A response to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedResponse {
    /// The JSON object sent to the client.
    pub body: StagedPayload,
    /// SHA-256 of the preamble.
    pub preamble_digest: [u8; 32],
    /// True if a fork may continue the tokens.
    pub forkable: bool,
}

/// The payload that a staged part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageTarget {
    /// The session's next event batch.
    Event,
    /// The response's body.
    Body,
    /// The session's flattened prefix.
    FlattenedPrefix,
}

/// Begins a session, with edges from the sessions that it depends on.
///
/// # Errors
/// [`LogError::ParentGone`] if one of those sessions is missing for this owner.
/// [`LogError::Invalid`] if the session exists or a name is too long.
pub fn open(txn: &mut Txn<'_>, session: &NewSession) -> Result<(), LogError> {
    let too_long = |name: &str| name.len() > NAME_LEN_MAX_BYTES;
    if too_long(&session.model) || session.owner.as_deref().is_some_and(too_long) {
        return Err(LogError::Invalid(
            "the model's or the key's name is too long".into(),
        ));
    }
    if txn.get(&Key::event(session.id, 0, 0))?.is_some() {
        return Err(LogError::Invalid(format!(
            "session {} exists already",
            session.id
        )));
    }
    let continued = match session.continues {
        Some(parent) => Some(usable_parent(txn, parent, session)?),
        None => None,
    };
    if continued
        .as_ref()
        .is_some_and(|parent| parent.state != SessionState::Stored)
    {
        return Err(LogError::ParentGone);
    }
    let depth = match session.fork {
        Some(point) => {
            let parent = match continued.filter(|_| session.continues == Some(point.parent)) {
                Some(parent) => parent,
                None => usable_parent(txn, point.parent, session)?,
            };
            if point.events == 0 || point.events > parent.events {
                return Err(LogError::ParentGone);
            }
            parent.depth + 1
        }
        None => 0,
    };
    write_edges(txn, session);
    txn.totals.sessions += 1;
    let mut header = SessionHeader {
        owner: session.owner.clone(),
        model: session.model.clone(),
        created_at_ms: session.created_at_ms,
        fork: session.fork,
        continues: session.continues,
        depth,
        flat: false,
        events: 0,
        tokens: 0,
        bytes: 0,
        chain: hash_chain::START,
        ordinal: None,
        state: SessionState::Open,
        response: None,
    };
    let opened = Event::Opened(Opened {
        fork: session.fork,
        continues: session.continues,
        owner: session.owner.clone(),
        model: session.model.clone(),
        created_at_ms: session.created_at_ms,
    });
    push_events(txn, session.id, &mut header, &EventBatch::of(&[opened]));
    txn.create(Key::open_header(session.id), &header);
    Ok(())
}

fn usable_parent(
    txn: &Txn<'_>,
    parent: SessionId,
    session: &NewSession,
) -> Result<SessionHeader, LogError> {
    let header = load::<SessionHeader>(txn, &Key::header(parent))?.ok_or(LogError::ParentGone)?;
    let usable = matches!(header.state, SessionState::Stored | SessionState::Unstored);
    if !usable || header.owner != session.owner {
        return Err(LogError::ParentGone);
    }
    Ok(header)
}

fn write_edges(txn: &mut Txn<'_>, session: &NewSession) {
    let shared = |parent| {
        session
            .fork
            .filter(|point| point.parent == parent)
            .map(|point| point.events)
    };
    if let Some(parent) = session.continues {
        let edge = Edge {
            shares_events: shared(parent),
        };
        txn.create(Key::edge(parent, EdgeKind::Continues, session.id), &edge);
    }
    if let Some(point) = session
        .fork
        .filter(|point| session.continues != Some(point.parent))
    {
        let edge = Edge {
            shares_events: Some(point.events),
        };
        txn.create(Key::edge(point.parent, EdgeKind::Shares, session.id), &edge);
    }
}

fn load_open(txn: &Txn<'_>, id: SessionId) -> Result<SessionHeader, LogError> {
    load::<SessionHeader>(txn, &Key::open_header(id))?.ok_or_else(|| {
        LogError::Unavailable(format!("the beginning of session {id} could not be stored"))
    })
}

/// Appends events and counts them in the header, which the caller stores.
pub(super) fn push_events(
    txn: &mut Txn<'_>,
    id: SessionId,
    header: &mut SessionHeader,
    batch: &EventBatch,
) {
    txn.append_events(id, header.events, batch);
    header.events += batch.digests.len() as u64;
    header.tokens += batch.tokens;
    header.bytes += batch.len_bytes;
    let links = batch.digests.iter();
    header.chain = links.fold(header.chain, |chain, digest| {
        hash_chain::link(&chain, digest)
    });
}

/// Appends events to a session in flight.
///
/// # Errors
/// [`LogError::Unavailable`] if the session was refused or could not be stored.
pub fn append(txn: &mut Txn<'_>, id: SessionId, events: &EventBatch) -> Result<(), LogError> {
    let mut header = load_open(txn, id)?;
    push_events(txn, id, &mut header, events);
    txn.put(Key::open_header(id), &header);
    Ok(())
}

/// Writes parts of a large payload ahead. No record refers to them until the last part is written.
///
/// # Errors
/// As [`append`].
pub fn stage(
    txn: &mut Txn<'_>,
    id: SessionId,
    target: StageTarget,
    slice: &Payload,
    first_part: u32,
) -> Result<(), LogError> {
    let header = load_open(txn, id)?;
    let key_of = |part| match target {
        StageTarget::Event => Key::event(id, header.events, part),
        StageTarget::Body => Key::body(id, part),
        StageTarget::FlattenedPrefix => Key::flattened_prefix(id, part),
    };
    txn.create_parts(slice, key_of, first_part, true);
    Ok(())
}

/// Stores the flattened prefix of a session.
///
/// # Errors
/// As [`append`].
pub fn write_flattened_prefix(
    txn: &mut Txn<'_>,
    id: SessionId,
    prefix: &StagedPayload,
) -> Result<(), LogError> {
    let mut header = load_open(txn, id)?;
    txn.create_parts(
        &prefix.rest,
        |part| Key::flattened_prefix(id, part),
        prefix.staged_parts,
        false,
    );
    header.flat = true;
    txn.put(Key::open_header(id), &header);
    Ok(())
}

/// Ends a turn: writes its last events, its response and all index entries in one commit.
///
/// # Errors
/// As [`append`].
pub fn close(txn: &mut Txn<'_>, id: SessionId, close: &SessionClose) -> Result<(), LogError> {
    let mut header = load_open(txn, id)?;
    close
        .events
        .iter()
        .for_each(|events| push_events(txn, id, &mut header, events));
    let ordinal = txn.totals.next_ordinal;
    txn.totals.next_ordinal += 1;
    header.ordinal = Some(ordinal);
    match &close.response {
        Some(response) => {
            header.bytes += response.body.len_bytes;
            header.state = SessionState::Stored;
            store_response(txn, id, &mut header, response, close.closed_at_ms)?;
        }
        None => {
            header.state = SessionState::Unstored;
            let entry = IndexEntry {
                session: id,
                at_ms: close.closed_at_ms,
            };
            txn.create(Key::unstored_index(ordinal), &entry);
            remove_continues_edge(txn, id, &mut header)?;
        }
    }
    txn.create(Key::header(id), &header);
    txn.remove(Key::open_header(id));
    Ok(())
}

fn store_response(
    txn: &mut Txn<'_>,
    id: SessionId,
    header: &mut SessionHeader,
    response: &ClosedResponse,
    at_ms: i64,
) -> Result<(), LogError> {
    let body = &response.body;
    header.response = Some(ResponseHeader {
        end_events: header.events,
        head_digest: response.preamble_digest,
        forkable: response.forkable,
        body_len_bytes: body.len_bytes,
        body_digest: body.digest,
        body: None,
    });
    if fits_in_header(id, header, body) {
        let text = String::from_utf8(body.rest.bytes.clone())
            .map_err(|_| LogError::Invalid("the body of a response is not UTF-8".into()))?;
        header
            .response
            .as_mut()
            .map(|stored| stored.body.insert(text));
    } else {
        let key_of = |part| Key::body(id, part);
        txn.create_parts(&body.rest, key_of, body.staged_parts, false);
    }
    let ordinal = header.ordinal.unwrap_or_default();
    let entry = IndexEntry { session: id, at_ms };
    txn.create(Key::response_index(ordinal), &entry);
    if let Some(owner) = &header.owner {
        txn.create(Key::owner_index(owner, ordinal), &entry);
    }
    txn.totals.responses += 1;
    txn.totals.response_bytes += header.bytes;
    Ok(())
}

/// True if a body fits into one value together with its session's header.
fn fits_in_header(id: SessionId, header: &SessionHeader, body: &StagedPayload) -> bool {
    let room = codec::payload_room_bytes(Key::header(id).as_bytes().len());
    let body_len = BODY_LEN_PREFIX_BYTES + body.rest.bytes.len();
    let len = codec::encoded_len(header).saturating_add(body_len);
    body.staged_parts == 0 && len <= room
}

/// Removes the edge to the continued response. A session without a response needs only the shared
/// events of its parent.
pub(super) fn remove_continues_edge(
    txn: &mut Txn<'_>,
    id: SessionId,
    header: &mut SessionHeader,
) -> Result<(), LogError> {
    let Some(parent) = header.continues.take() else {
        return Ok(());
    };
    txn.remove(Key::edge(parent, EdgeKind::Continues, id));
    if let Some(point) = header.fork.filter(|point| point.parent == parent) {
        let edge = Edge {
            shares_events: Some(point.events),
        };
        txn.put(Key::edge(parent, EdgeKind::Shares, id), &edge);
    }
    marks::mark(txn, parent)
}

/// Closes a turn that the end of its process interrupted, and removes its staged parts. Does at
/// most `limit` removals. Returns true when done.
///
/// # Errors
/// Errors of the storage.
pub fn close_interrupted(txn: &mut Txn<'_>, id: SessionId, limit: usize) -> Result<bool, LogError> {
    let header = load_open(txn, id)?;
    let mut removed = txn.remove_range(&KeyRange::events_from(id, header.events), limit)?;
    removed += txn.remove_range(&KeyRange::session(Space::Body, id), limit - removed)?;
    if !header.flat {
        removed += txn.remove_range(
            &KeyRange::session(Space::FlattenedPrefix, id),
            limit - removed,
        )?;
    }
    if removed == limit {
        return Ok(false);
    }
    let closed = Event::TurnClosed(TurnClosed {
        status: TurnStatus::Interrupted,
        finish: TurnFinish::Failed,
        usage: Usage::default(),
        seed: 0,
        closed_at_ms: header.created_at_ms,
    });
    let interrupted = SessionClose {
        events: vec![EventBatch::of(&[closed])],
        response: None,
        closed_at_ms: header.created_at_ms,
    };
    close(txn, id, &interrupted)?;
    Ok(true)
}
