//! One turn's session as changes to the store: opened, appended to, closed.

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

/// Owners and model names are no longer, in bytes, so that records fit into one value.
pub const NAME_LEN_MAX_BYTES: usize = 1024;

/// What a body in a head takes beside its own length, in bytes: its length.
const BODY_PREFIX_LEN_BYTES: usize = 8;

/// How a turn begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Random; the id of the response, if one is stored.
    pub id: SessionId,
    /// The key that asks, under a key policy.
    pub owner: Option<String>,
    /// Id of the model.
    pub model: String,
    /// Whose events precede this session's.
    pub fork: Option<ForkPoint>,
    /// The stored response that the turn continues.
    pub continues: Option<SessionId>,
    /// Wall time in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// A payload on its way into the store, of which some parts may have been staged before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedPayload {
    /// What was not staged: the end of the payload.
    pub rest: Payload,
    /// How many parts were staged.
    pub staged_parts: u32,
    /// Length of the whole payload.
    pub len_bytes: u64,
    /// SHA-256 of a whole body; of no meaning otherwise.
    pub digest: [u8; 32],
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionClose {
    /// The last events.
    pub events: Vec<EventBatch>,
    /// The response to keep, if it is to be kept.
    pub response: Option<ClosedResponse>,
    /// Wall time in milliseconds since 1970.
    pub closed_at_ms: i64,
}

/// A response to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedResponse {
    /// The JSON object that was answered.
    pub body: StagedPayload,
    /// Digest of what led the prompt.
    pub head_digest: [u8; 32],
    /// True if a fork may continue the tokens.
    pub forkable: bool,
}

/// Which payload of a session a staged part belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Its next event.
    Event,
    /// The response's body.
    Body,
    /// The flattened tokens of its ancestors.
    FlattenedPrefix,
}

/// Begins a session, with the edges to those it needs.
///
/// # Errors
/// [`LogError::ParentGone`] if one of them is not there for this owner; [`LogError::Invalid`] if
/// the session exists or a name is too long.
pub fn open(txn: &mut Txn<'_>, opening: &NewSession) -> Result<(), LogError> {
    let too_long = |name: &str| name.len() > NAME_LEN_MAX_BYTES;
    if too_long(&opening.model) || opening.owner.as_deref().is_some_and(too_long) {
        return Err(LogError::Invalid(
            "the model's or the key's name is too long".into(),
        ));
    }
    if txn.get(&Key::event(opening.id, 0, 0))?.is_some() {
        return Err(LogError::Invalid(format!(
            "session {} exists already",
            opening.id
        )));
    }
    let continued = match opening.continues {
        Some(parent) => Some(usable_parent(txn, parent, opening)?),
        None => None,
    };
    if continued
        .as_ref()
        .is_some_and(|parent| parent.state != SessionState::Stored)
    {
        return Err(LogError::ParentGone);
    }
    let depth = match opening.fork {
        Some(point) => {
            let parent = match continued.filter(|_| opening.continues == Some(point.parent)) {
                Some(parent) => parent,
                None => usable_parent(txn, point.parent, opening)?,
            };
            if point.events == 0 || point.events > parent.events {
                return Err(LogError::ParentGone);
            }
            parent.depth + 1
        }
        None => 0,
    };
    write_edges(txn, opening);
    txn.totals.sessions += 1;
    let mut head = SessionHeader {
        owner: opening.owner.clone(),
        model: opening.model.clone(),
        created_at_ms: opening.created_at_ms,
        fork: opening.fork,
        continues: opening.continues,
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
        fork: opening.fork,
        continues: opening.continues,
        owner: opening.owner.clone(),
        model: opening.model.clone(),
        created_at_ms: opening.created_at_ms,
    });
    push_events(txn, opening.id, &mut head, &EventBatch::of(&[opened]));
    txn.create(Key::open_header(opening.id), &head);
    Ok(())
}

fn usable_parent(
    txn: &Txn<'_>,
    parent: SessionId,
    opening: &NewSession,
) -> Result<SessionHeader, LogError> {
    let head = load::<SessionHeader>(txn, &Key::header(parent))?.ok_or(LogError::ParentGone)?;
    let usable = matches!(head.state, SessionState::Stored | SessionState::Unstored);
    if !usable || head.owner != opening.owner {
        return Err(LogError::ParentGone);
    }
    Ok(head)
}

fn write_edges(txn: &mut Txn<'_>, opening: &NewSession) {
    let shared = |parent| {
        opening
            .fork
            .filter(|point| point.parent == parent)
            .map(|point| point.events)
    };
    if let Some(parent) = opening.continues {
        let edge = Edge {
            shares_events: shared(parent),
        };
        txn.create(Key::edge(parent, EdgeKind::Continues, opening.id), &edge);
    }
    if let Some(point) = opening
        .fork
        .filter(|point| opening.continues != Some(point.parent))
    {
        let edge = Edge {
            shares_events: Some(point.events),
        };
        txn.create(Key::edge(point.parent, EdgeKind::Shares, opening.id), &edge);
    }
}

fn load_open(txn: &Txn<'_>, id: SessionId) -> Result<SessionHeader, LogError> {
    load::<SessionHeader>(txn, &Key::open_header(id))?.ok_or_else(|| {
        LogError::Unavailable(format!("the beginning of session {id} could not be stored"))
    })
}

/// Appends events and counts them in the head, which the caller stores.
pub(super) fn push_events(
    txn: &mut Txn<'_>,
    id: SessionId,
    head: &mut SessionHeader,
    pack: &EventBatch,
) {
    txn.append_events(id, head.events, pack);
    head.events += pack.digests.len() as u64;
    head.tokens += pack.tokens;
    head.bytes += pack.len_bytes;
    let links = pack.digests.iter();
    head.chain = links.fold(head.chain, |chain, digest| hash_chain::link(&chain, digest));
}

/// Appends events to a session in flight.
///
/// # Errors
/// [`LogError::Unavailable`] if its beginning was refused or could not be stored.
pub fn append(txn: &mut Txn<'_>, id: SessionId, events: &EventBatch) -> Result<(), LogError> {
    let mut head = load_open(txn, id)?;
    push_events(txn, id, &mut head, events);
    txn.put(Key::open_header(id), &head);
    Ok(())
}

/// Writes parts of a large payload that nothing refers to before its last piece is there.
///
/// # Errors
/// As [`append`].
pub fn stage(
    txn: &mut Txn<'_>,
    id: SessionId,
    target: Target,
    slice: &Payload,
    first_part: u32,
) -> Result<(), LogError> {
    let head = load_open(txn, id)?;
    let key_of = |part| match target {
        Target::Event => Key::event(id, head.events, part),
        Target::Body => Key::body(id, part),
        Target::FlattenedPrefix => Key::flattened_prefix(id, part),
    };
    txn.create_parts(slice, key_of, first_part, true);
    Ok(())
}

/// Stores the flattened tokens of a session's ancestors.
///
/// # Errors
/// As [`append`].
pub fn flatten(txn: &mut Txn<'_>, id: SessionId, piece: &StagedPayload) -> Result<(), LogError> {
    let mut head = load_open(txn, id)?;
    txn.create_parts(
        &piece.rest,
        |part| Key::flattened_prefix(id, part),
        piece.staged_parts,
        false,
    );
    head.flat = true;
    txn.put(Key::open_header(id), &head);
    Ok(())
}

/// Ends a turn: its last events, its response and every index, at once.
///
/// # Errors
/// As [`append`].
pub fn close(txn: &mut Txn<'_>, id: SessionId, closing: &SessionClose) -> Result<(), LogError> {
    let mut head = load_open(txn, id)?;
    closing
        .events
        .iter()
        .for_each(|events| push_events(txn, id, &mut head, events));
    let ordinal = txn.totals.next_ordinal;
    txn.totals.next_ordinal += 1;
    head.ordinal = Some(ordinal);
    match &closing.response {
        Some(response) => {
            head.bytes += response.body.len_bytes;
            head.state = SessionState::Stored;
            keep(txn, id, &mut head, response, closing.closed_at_ms)?;
        }
        None => {
            head.state = SessionState::Unstored;
            let place = IndexEntry {
                session: id,
                at_ms: closing.closed_at_ms,
            };
            txn.create(Key::unstored_index(ordinal), &place);
            stop_continuing(txn, id, &mut head)?;
        }
    }
    txn.create(Key::header(id), &head);
    txn.remove(Key::open_header(id));
    Ok(())
}

fn keep(
    txn: &mut Txn<'_>,
    id: SessionId,
    head: &mut SessionHeader,
    response: &ClosedResponse,
    at_ms: i64,
) -> Result<(), LogError> {
    let body = &response.body;
    head.response = Some(ResponseHeader {
        end_events: head.events,
        head_digest: response.head_digest,
        forkable: response.forkable,
        body_len_bytes: body.len_bytes,
        body_digest: body.digest,
        body: None,
    });
    if fits_beside(id, head, body) {
        let text = String::from_utf8(body.rest.bytes.clone())
            .map_err(|_| LogError::Invalid("the body of a response is not UTF-8".into()))?;
        head.response.as_mut().map(|kept| kept.body.insert(text));
    } else {
        let key_of = |part| Key::body(id, part);
        txn.create_parts(&body.rest, key_of, body.staged_parts, false);
    }
    let ordinal = head.ordinal.unwrap_or_default();
    let place = IndexEntry { session: id, at_ms };
    txn.create(Key::response_index(ordinal), &place);
    if let Some(owner) = &head.owner {
        txn.create(Key::owner_index(owner, ordinal), &place);
    }
    txn.totals.responses += 1;
    txn.totals.response_bytes += head.bytes;
    Ok(())
}

/// True if a body fits into one value with its session's head.
fn fits_beside(id: SessionId, head: &SessionHeader, body: &StagedPayload) -> bool {
    let room = codec::payload_room_bytes(Key::header(id).as_bytes().len());
    let beside = BODY_PREFIX_LEN_BYTES + body.rest.bytes.len();
    let len = codec::encoded_len(head).saturating_add(beside);
    body.staged_parts == 0 && len <= room
}

/// A session without a response needs its parent's items no longer, only the tokens that it shares.
pub(super) fn stop_continuing(
    txn: &mut Txn<'_>,
    id: SessionId,
    head: &mut SessionHeader,
) -> Result<(), LogError> {
    let Some(parent) = head.continues.take() else {
        return Ok(());
    };
    txn.remove(Key::edge(parent, EdgeKind::Continues, id));
    if let Some(point) = head.fork.filter(|point| point.parent == parent) {
        let edge = Edge {
            shares_events: Some(point.events),
        };
        txn.put(Key::edge(parent, EdgeKind::Shares, id), &edge);
    }
    marks::mark(txn, parent)
}

/// Closes a turn that the end of the process cut off, and removes what it had staged. Does at most
/// `limit` removals; returns whether it is done.
///
/// # Errors
/// The storage's.
pub fn close_interrupted(txn: &mut Txn<'_>, id: SessionId, limit: usize) -> Result<bool, LogError> {
    let head = load_open(txn, id)?;
    let mut removed = txn.remove_range(&KeyRange::events_from(id, head.events), limit)?;
    removed += txn.remove_range(&KeyRange::session(Space::Body, id), limit - removed)?;
    if !head.flat {
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
        closed_at_ms: head.created_at_ms,
    });
    let closing = SessionClose {
        events: vec![EventBatch::of(&[closed])],
        response: None,
        closed_at_ms: head.created_at_ms,
    };
    close(txn, id, &closing)?;
    Ok(true)
}
