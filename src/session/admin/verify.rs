//! Verification: reads a whole store and checks every checksum, hash chain, count and reference.

mod session;

use crate::session::{
    error::LogError,
    format::{
        codec,
        record::{
            Edge, IndexEntry, SessionHeader, SessionState, for_each_entry, load_session,
            load_totals, open_record,
        },
    },
    keys::{EdgeKind, Key, KeyRange, SessionId, Space},
    store::{ReadStore, StorageError, Totals},
};

/// The maximum number of findings in a report.
pub const FINDINGS_MAX: usize = 100;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of values read.
    pub records: u64,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of visible responses.
    pub responses: u64,
    /// The problems found, one sentence each; at most [`FINDINGS_MAX`].
    pub findings: Vec<String>,
    response_bytes: u64,
}

impl Report {
    fn add(&mut self, key: &Key, what: impl std::fmt::Display) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(format!("{key:?}: {what}"));
        }
    }

    /// Adds a finding unless `holds`.
    fn check(&mut self, holds: bool, key: &Key, what: impl std::fmt::Display) {
        if !holds {
            self.add(key, what);
        }
    }

    /// Returns the value of a read, or adds its error as a finding.
    fn take<T>(&mut self, key: &Key, read: Result<T, impl std::fmt::Display>) -> Option<T> {
        read.map_err(|error| self.add(key, error)).ok()
    }
}

/// Verifies a store.
///
/// # Errors
/// Only if the storage cannot be scanned at all. Damage becomes a finding.
pub fn verify(read: &impl ReadStore) -> Result<Report, LogError> {
    let mut report = Report::default();
    for_each_entry(read, &KeyRange::all(), |key, value| {
        report.records += 1;
        match codec::open(key, &value) {
            Ok(_) => check_entry(read, key, &value, &mut report),
            Err(damage) => report.add(key, damage),
        }
        Ok(())
    })?;
    match load_totals(read) {
        Ok(totals) => check_totals(&totals, &mut report),
        // The store was created, but its process ended before the first commit.
        Err(_) if report.records == 0 => {}
        Err(error) => report.add(&Key::totals(), error),
    }
    Ok(report)
}

fn check_totals(totals: &Totals, report: &mut Report) {
    for (what, stated, counted) in [
        ("records", totals.records, report.records),
        ("sessions", totals.sessions, report.sessions),
        ("responses", totals.responses, report.responses),
        (
            "bytes of responses",
            totals.response_bytes,
            report.response_bytes,
        ),
    ] {
        let differs = format!("the totals state {stated} {what}, but there are {counted}");
        report.check(stated == counted, &Key::totals(), differs);
    }
}

fn check_entry(read: &impl ReadStore, key: &Key, value: &[u8], report: &mut Report) {
    let checked = match key.space() {
        Some(Space::Header | Space::OpenHeader) => check_header(read, key, value, report),
        Some(Space::Event) => check_event(read, key, report),
        Some(Space::Body | Space::FlattenedPrefix | Space::GcMark) => {
            check_session_value(read, key, report)
        }
        Some(Space::Edge) => check_edge(read, key, value, report),
        Some(Space::ResponseIndex | Space::OwnerIndex | Space::UnstoredIndex) => {
            check_index_entry(read, key, value, report)
        }
        Some(Space::Meta) => Ok(()),
        None => {
            report.add(key, "not a key of a session log");
            Ok(())
        }
    };
    report.take(key, checked);
}

fn load_header(
    read: &impl ReadStore,
    id: SessionId,
) -> Result<Option<SessionHeader>, StorageError> {
    load_session(read, id)
}

fn check_header(
    read: &impl ReadStore,
    key: &Key,
    value: &[u8],
    report: &mut Report,
) -> Result<(), StorageError> {
    report.sessions += 1;
    let header = open_record::<SessionHeader>(key, value)?;
    let Some(id) = key.session() else {
        return Ok(());
    };
    if header.state == SessionState::Stored {
        report.responses += 1;
        report.response_bytes += header.bytes;
    }
    let in_flight = key.space() == Some(Space::OpenHeader);
    report.check(
        in_flight == (header.state == SessionState::Open),
        key,
        format!(
            "the header of a session in state {:?} is in the wrong key space",
            header.state
        ),
    );
    let being_erased = read.get(&Key::gc_mark(id))?.is_some();
    if being_erased && matches!(header.state, SessionState::Hidden | SessionState::Trunk) {
        return Ok(());
    }
    session::check(read, id, &header, report);
    Ok(())
}

fn check_event(read: &impl ReadStore, key: &Key, report: &mut Report) -> Result<(), StorageError> {
    let (Some(id), Some((seq, part))) = (key.session(), key.event_part()) else {
        report.add(key, "not an event's key");
        return Ok(());
    };
    if part > 0 {
        return Ok(());
    }
    match load_header(read, id)? {
        None => report.add(key, "the session of the event is missing"),
        Some(header) if header.state == SessionState::Open => {}
        Some(header) => {
            let beyond = format!("beyond the {} events of the session", header.events);
            let marked = read.get(&Key::gc_mark(id))?.is_some();
            report.check(seq < header.events || marked, key, beyond);
        }
    }
    Ok(())
}

fn check_session_value(
    read: &impl ReadStore,
    key: &Key,
    report: &mut Report,
) -> Result<(), StorageError> {
    let Some(header) = key
        .session()
        .map(|id| load_header(read, id))
        .transpose()?
        .flatten()
    else {
        report.add(key, "its session is missing");
        return Ok(());
    };
    let fits = match key.space() {
        Some(Space::FlattenedPrefix) => header.flat || header.state == SessionState::Open,
        Some(Space::Body) => {
            let inside = |header: SessionHeader| {
                header
                    .response
                    .is_some_and(|response| response.body.is_some())
            };
            header.state != SessionState::Unstored && !inside(header.clone())
        }
        _ => true,
    };
    report.check(
        fits,
        key,
        format!("unexpected for a session in state {:?}", header.state),
    );
    Ok(())
}

fn check_edge(
    read: &impl ReadStore,
    key: &Key,
    value: &[u8],
    report: &mut Report,
) -> Result<(), StorageError> {
    let edge = open_record::<Edge>(key, value)?;
    let (Some(parent), Some((kind, child))) = (key.session(), key.edge_child()) else {
        report.add(key, "not an edge's key");
        return Ok(());
    };
    let Some(header) = load_header(read, child)? else {
        report.add(key, "the child of the edge is missing");
        return Ok(());
    };
    let shares = header
        .fork
        .filter(|point| point.parent == parent)
        .map(|point| point.events);
    let needed = match kind {
        EdgeKind::Continues => header.continues == Some(parent),
        EdgeKind::Shares => shares.is_some() && header.continues != Some(parent),
    };
    report.check(
        needed,
        key,
        "the child of the edge does not depend on the parent",
    );
    report.check(
        edge.shares_events == shares,
        key,
        "the edge and the child's header name different fork points",
    );
    report.check(
        load_header(read, parent)?.is_some(),
        key,
        "the parent of the edge is missing",
    );
    Ok(())
}

fn check_index_entry(
    read: &impl ReadStore,
    key: &Key,
    value: &[u8],
    report: &mut Report,
) -> Result<(), StorageError> {
    let entry = open_record::<IndexEntry>(key, value)?;
    let expected = match key.space() {
        Some(Space::UnstoredIndex) => SessionState::Unstored,
        _ => SessionState::Stored,
    };
    let header = load_header(read, entry.session)?;
    let fits =
        header.is_some_and(|header| header.state == expected && header.ordinal == key.ordinal());
    report.check(
        fits,
        key,
        format!(
            "the header of session {} does not match this index entry",
            entry.session
        ),
    );
    Ok(())
}
