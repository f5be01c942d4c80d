//! Reads everything and checks every checksum, chain, count and reference.

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

/// No more findings are listed.
pub const FINDINGS_MAX: usize = 100;

/// What a verification saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Stored values read.
    pub records: u64,
    /// Sessions.
    pub sessions: u64,
    /// Visible responses.
    pub responses: u64,
    /// What is wrong, a sentence each; at most [`FINDINGS_MAX`].
    pub findings: Vec<String>,
    response_bytes: u64,
}

impl Report {
    fn find(&mut self, key: &Key, what: impl std::fmt::Display) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(format!("{key:?}: {what}"));
        }
    }

    /// Notes a condition that does not hold.
    fn check(&mut self, holds: bool, key: &Key, what: impl std::fmt::Display) {
        if !holds {
            self.find(key, what);
        }
    }

    /// The value of a read, or a note of why there is none.
    fn take<T>(&mut self, key: &Key, read: Result<T, impl std::fmt::Display>) -> Option<T> {
        read.map_err(|error| self.find(key, error)).ok()
    }
}

/// Checks everything that can be read.
///
/// # Errors
/// Only if the storage cannot be scanned at all; damage becomes a finding.
pub fn verify(read: &impl ReadStore) -> Result<Report, LogError> {
    let mut report = Report::default();
    for_each_entry(read, &KeyRange::all(), |key, value| {
        report.records += 1;
        match codec::open(key, &value) {
            Ok(_) => check_entry(read, key, &value, &mut report),
            Err(damage) => report.find(key, damage),
        }
        Ok(())
    })?;
    match load_totals(read) {
        Ok(totals) => check_totals(&totals, &mut report),
        // It was made, and the program ended before it wrote anything.
        Err(_) if report.records == 0 => {}
        Err(error) => report.find(&Key::totals(), error),
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
        let differs = format!("there should be {stated} {what}, but there are {counted}");
        report.check(stated == counted, &Key::totals(), differs);
    }
}

fn check_entry(read: &impl ReadStore, key: &Key, value: &[u8], report: &mut Report) {
    let checked = match key.space() {
        Some(Space::Header | Space::OpenHeader) => check_head(read, key, value, report),
        Some(Space::Event) => check_event(read, key, report),
        Some(Space::Body | Space::FlattenedPrefix | Space::GcMark) => {
            check_owned(read, key, report)
        }
        Some(Space::Edge) => check_edge(read, key, value, report),
        Some(Space::ResponseIndex | Space::OwnerIndex | Space::UnstoredIndex) => {
            check_place(read, key, value, report)
        }
        Some(Space::Meta) => Ok(()),
        None => {
            report.find(key, "it is no key of a session log");
            Ok(())
        }
    };
    report.take(key, checked);
}

fn head_of(read: &impl ReadStore, id: SessionId) -> Result<Option<SessionHeader>, StorageError> {
    load_session(read, id)
}

fn check_head(
    read: &impl ReadStore,
    key: &Key,
    value: &[u8],
    report: &mut Report,
) -> Result<(), StorageError> {
    report.sessions += 1;
    let head = open_record::<SessionHeader>(key, value)?;
    let Some(id) = key.session() else {
        return Ok(());
    };
    if head.state == SessionState::Stored {
        report.responses += 1;
        report.response_bytes += head.bytes;
    }
    let in_flight = key.space() == Some(Space::OpenHeader);
    report.check(
        in_flight == (head.state == SessionState::Open),
        key,
        format!("a session that is {:?} has its head here", head.state),
    );
    let being_erased = read.get(&Key::gc_mark(id))?.is_some();
    if being_erased && matches!(head.state, SessionState::Hidden | SessionState::Trunk) {
        return Ok(());
    }
    session::check(read, id, &head, report);
    Ok(())
}

fn check_event(read: &impl ReadStore, key: &Key, report: &mut Report) -> Result<(), StorageError> {
    let (Some(id), Some((seq, part))) = (key.session(), key.event_part()) else {
        report.find(key, "it is no event's key");
        return Ok(());
    };
    if part > 0 {
        return Ok(());
    }
    match head_of(read, id)? {
        None => report.find(key, "the event belongs to no session"),
        Some(head) if head.state == SessionState::Open => {}
        Some(head) => {
            let beyond = format!("the session should have {} events only", head.events);
            let marked = read.get(&Key::gc_mark(id))?.is_some();
            report.check(seq < head.events || marked, key, beyond);
        }
    }
    Ok(())
}

fn check_owned(read: &impl ReadStore, key: &Key, report: &mut Report) -> Result<(), StorageError> {
    let Some(head) = key
        .session()
        .map(|id| head_of(read, id))
        .transpose()?
        .flatten()
    else {
        report.find(key, "it belongs to no session");
        return Ok(());
    };
    let fits = match key.space() {
        Some(Space::FlattenedPrefix) => head.flat || head.state == SessionState::Open,
        Some(Space::Body) => {
            let inside =
                |head: SessionHeader| head.response.is_some_and(|kept| kept.body.is_some());
            head.state != SessionState::Unstored && !inside(head.clone())
        }
        _ => true,
    };
    report.check(fits, key, format!("its session is {:?}", head.state));
    Ok(())
}

fn check_edge(
    read: &impl ReadStore,
    key: &Key,
    value: &[u8],
    report: &mut Report,
) -> Result<(), StorageError> {
    let edge = open_record::<Edge>(key, value)?;
    let (Some(parent), Some((bond, child))) = (key.session(), key.edge_child()) else {
        report.find(key, "it is no edge's key");
        return Ok(());
    };
    let Some(head) = head_of(read, child)? else {
        report.find(key, "the edge leads to no session");
        return Ok(());
    };
    let shares = head
        .fork
        .filter(|point| point.parent == parent)
        .map(|point| point.events);
    let meant = match bond {
        EdgeKind::Continues => head.continues == Some(parent),
        EdgeKind::Shares => shares.is_some() && head.continues != Some(parent),
    };
    report.check(
        meant,
        key,
        "the session at its end does not need the one at its start",
    );
    report.check(
        edge.shares_events == shares,
        key,
        "it names another fork than the session does",
    );
    report.check(
        head_of(read, parent)?.is_some(),
        key,
        "the edge begins at no session",
    );
    Ok(())
}

fn check_place(
    read: &impl ReadStore,
    key: &Key,
    value: &[u8],
    report: &mut Report,
) -> Result<(), StorageError> {
    let place = open_record::<IndexEntry>(key, value)?;
    let wanted = match key.space() {
        Some(Space::UnstoredIndex) => SessionState::Unstored,
        _ => SessionState::Stored,
    };
    let head = head_of(read, place.session)?;
    let fits = head.is_some_and(|head| head.state == wanted && head.ordinal == key.ordinal());
    report.check(
        fits,
        key,
        format!("session {} does not stand here", place.session),
    );
    Ok(())
}
