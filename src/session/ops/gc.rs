//! Deletion and garbage collection (GC) of sessions.
//!
//! DELETE hides a response at once. GC later erases the events that no live session reaches. A
//! hidden session stays whole while a stored response continues it (state Hidden). While other
//! sessions only share its first events, GC keeps those events (state Trunk). Otherwise GC erases
//! the session, which may release its parents in turn. Pending work is one GC mark per session, and
//! one run does a bounded number of removals. So a large deletion continues over many commits and
//! restarts.

use super::{
    super::{
        error::LogError,
        format::{
            event::{Event, Purged, Rerooted},
            event_batch::{self, EventBatch},
            hash_chain,
            payload::Payload,
            record::{
                Edge, GcMark, SCAN_PAGE_ENTRIES, SessionHeader, SessionState, load, open_record,
            },
            session_events::load_event_batches,
        },
        keys::{EdgeKind, Key, KeyRange, SessionId, Space},
        store::ReadStore,
        txn::Txn,
    },
    lifecycle, marks,
};

/// Deletes a stored response: hides it for good and marks its session for GC.
pub fn delete(txn: &mut Txn<'_>, id: SessionId, mut header: SessionHeader) {
    let ordinal = header.ordinal.unwrap_or_default();
    txn.remove(Key::response_index(ordinal));
    if let Some(owner) = &header.owner {
        txn.remove(Key::owner_index(owner, ordinal));
    }
    txn.totals.responses = txn.totals.responses.saturating_sub(1);
    txn.totals.response_bytes = txn.totals.response_bytes.saturating_sub(header.bytes);
    let purged = Event::Purged(Purged {
        ordinal: txn.totals.next_ordinal,
    });
    txn.totals.next_ordinal += 1;
    lifecycle::push_events(txn, id, &mut header, &EventBatch::of(&[purged]));
    header.state = SessionState::Hidden;
    txn.put(Key::header(id), &header);
    txn.put(Key::gc_mark(id), &GcMark {});
}

/// Expires a session that stored no response, and marks it for GC.
///
/// # Errors
/// Errors of the storage.
pub fn expire_unstored(txn: &mut Txn<'_>, id: SessionId) -> Result<(), LogError> {
    let Some(mut header) = load::<SessionHeader>(txn, &Key::header(id))? else {
        return Ok(());
    };
    if header.state == SessionState::Unstored {
        header
            .ordinal
            .take()
            .into_iter()
            .for_each(|ordinal| txn.remove(Key::unstored_index(ordinal)));
        header.state = SessionState::Hidden;
        txn.put(Key::header(id), &header);
        txn.put(Key::gc_mark(id), &GcMark {});
    }
    Ok(())
}

/// Collects marked sessions with about `limit` removals. Returns true if marks are left.
///
/// # Errors
/// Errors of the storage.
pub fn run(txn: &mut Txn<'_>, limit: usize) -> Result<bool, LogError> {
    let mut left = limit;
    while let Some((key, _)) = txn.scan(&KeyRange::space(Space::GcMark), 1)?.pop() {
        let id = key
            .session()
            .ok_or_else(|| LogError::Corrupt(format!("{key:?} contains no session id")))?;
        let removed = collect(txn, id, left)?;
        left = left.saturating_sub(removed + 1);
        if left == 0 {
            return Ok(txn
                .scan(&KeyRange::space(Space::GcMark), 1)?
                .pop()
                .is_some());
        }
    }
    Ok(false)
}

/// Collects one marked session with at most `limit` removals; removes the mark when done. Returns
/// the number of removals.
fn collect(txn: &mut Txn<'_>, id: SessionId, limit: usize) -> Result<usize, LogError> {
    let header = load::<SessionHeader>(txn, &Key::header(id))?;
    let Some(header) =
        header.filter(|header| matches!(header.state, SessionState::Hidden | SessionState::Trunk))
    else {
        txn.remove(Key::gc_mark(id));
        return Ok(0);
    };
    let any = |txn: &Txn<'_>, kind| {
        txn.scan(&KeyRange::edges(id, kind), 1)
            .map(|e| !e.is_empty())
    };
    if any(txn, EdgeKind::Continues)? {
        txn.remove(Key::gc_mark(id));
        return Ok(0);
    }
    match (any(txn, EdgeKind::Shares)?, header.state) {
        (true, SessionState::Trunk) => {
            txn.remove(Key::gc_mark(id));
            Ok(0)
        }
        (true, _) => reroot(txn, id, header, limit),
        (false, _) => erase(txn, id, &header, limit),
    }
}

/// Removes everything of a session but the events that forks share.
fn reroot(
    txn: &mut Txn<'_>,
    id: SessionId,
    mut header: SessionHeader,
    limit: usize,
) -> Result<usize, LogError> {
    let shared = shared_events(txn, id)?.min(header.events);
    let mut removed = txn.remove_range(&KeyRange::session(Space::Body, id), limit)?;
    removed += txn.remove_range(&KeyRange::events_from(id, shared), limit - removed)?;
    if removed == limit {
        return Ok(removed);
    }
    let (payloads, first, more) = load_event_batches(txn, id, shared)?;
    if more {
        let batch = event_batch::encode(&payloads[first as usize..]);
        txn.remove_range(&KeyRange::event_batch(id, first), usize::MAX)?;
        txn.create_parts(&batch, |part| Key::event(id, first, part), 0, false);
    }
    header.events = shared;
    header.bytes = payloads
        .iter()
        .map(|payload| payload.bytes.len() as u64)
        .sum();
    header.chain = hash_chain::over(&payloads);
    header.tokens = count_tokens(&payloads)?;
    let rerooted = Event::Rerooted(Rerooted {
        kept_events: shared,
    });
    lifecycle::push_events(txn, id, &mut header, &EventBatch::of(&[rerooted]));
    header.response = None;
    lifecycle::remove_continues_edge(txn, id, &mut header)?;
    header.state = SessionState::Trunk;
    txn.put(Key::header(id), &header);
    txn.remove(Key::gc_mark(id));
    Ok(removed)
}

fn count_tokens(payloads: &[Payload]) -> Result<u64, LogError> {
    let counts = payloads
        .iter()
        .map(|payload| Event::decode(payload).map(|e| e.token_count()));
    counts
        .sum::<Result<u64, _>>()
        .map_err(|damage| LogError::Corrupt(damage.to_string()))
}

/// Returns the largest number of a session's events that a fork shares.
fn shared_events(txn: &Txn<'_>, id: SessionId) -> Result<u64, LogError> {
    let mut range = KeyRange::edges(id, EdgeKind::Shares);
    let mut most = 0;
    loop {
        let page = txn.scan(&range, SCAN_PAGE_ENTRIES)?;
        for (key, value) in &page {
            most = most.max(open_record::<Edge>(key, value)?.shares_events.unwrap_or(0));
        }
        match page.last() {
            Some((last, _)) if page.len() == SCAN_PAGE_ENTRIES => range = range.after(last),
            _ => return Ok(most),
        }
    }
}

/// Erases a session that no other session needs, and marks the sessions that it depended on.
fn erase(
    txn: &mut Txn<'_>,
    id: SessionId,
    header: &SessionHeader,
    limit: usize,
) -> Result<usize, LogError> {
    let mut removed = 0;
    for space in [Space::Body, Space::FlattenedPrefix, Space::Event] {
        removed += txn.remove_range(&KeyRange::session(space, id), limit - removed)?;
    }
    if removed == limit {
        return Ok(removed);
    }
    for (parent, kind) in [
        (header.continues, EdgeKind::Continues),
        (header.fork.map(|point| point.parent), EdgeKind::Shares),
    ] {
        let Some(parent) = parent else { continue };
        txn.remove(Key::edge(parent, kind, id));
        marks::mark(txn, parent)?;
    }
    txn.remove(Key::header(id));
    txn.remove(Key::gc_mark(id));
    txn.totals.sessions = txn.totals.sessions.saturating_sub(1);
    Ok(removed + 4)
}
