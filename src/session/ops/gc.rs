//! What goes when a response goes: hidden at once, erased as far as nothing living reaches it.
//!
//! A session that is no longer kept for itself stays whole while a response continues it (it is
//! hidden), keeps its first events while another session shares them (it is a trunk), and is erased
//! otherwise; that may set its parents free in turn. Each step is one mark in the store and a
//! bounded number of removals, so that a purge of any size goes on over many commits and restarts.

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

/// Hides a stored response for good and leaves its session to [`step`].
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

/// Ends the retention of a session that stored nothing.
///
/// # Errors
/// The storage's.
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

/// Works on marked sessions with about `limit` removals. Returns whether any are left.
///
/// # Errors
/// The storage's.
pub fn run(txn: &mut Txn<'_>, limit: usize) -> Result<bool, LogError> {
    let mut left = limit;
    while let Some((key, _)) = txn.scan(&KeyRange::space(Space::GcMark), 1)?.pop() {
        let id = key
            .session()
            .ok_or_else(|| LogError::Corrupt(format!("{key:?} names no session")))?;
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

/// Does at most `limit` removals for one marked session; takes the mark away when it is done.
/// Returns the number of removals.
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

/// Keeps only what forks share of a session.
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

/// The largest number of a session's events that a fork shares.
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

/// Removes a session that nothing needs, and looks at what it needed.
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
