//! Copies sessions into an empty store: import, backup and compaction.
//!
//! Only complete sessions are copied: all events match the hash chain, the response has its body,
//! and all parents are complete. Edges, indexes and totals are rebuilt.

mod salvage;

use std::{collections::HashMap, path::Path};

use crate::session::{
    SledOptions, SledStorage,
    error::LogError,
    format::{
        event_batch::EventBatch,
        migrate,
        record::{Edge, GcMark, IndexEntry, SCAN_PAGE_ENTRIES, SessionState},
    },
    keys::{EdgeKind, Key, KeyRange, SessionId, Space},
    store::{Direct, ReadStore, Storage, Totals},
    txn::Txn,
};
use salvage::{Salvaged, salvage};

/// A commit of a copy takes no further session at this size, in bytes.
const COMMIT_LEN_BYTES: usize = 1 << 20;

/// The result of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// The number of sessions copied.
    pub sessions: u64,
    /// The number of visible responses among them.
    pub responses: u64,
    /// The sessions that were not copied, each with the reason.
    pub skipped: Vec<(SessionId, String)>,
}

/// Copies every complete session into an empty store.
///
/// # Errors
/// [`LogError::Invalid`] if the target is not empty; errors of the storage. Damage in the source is
/// no error: damaged sessions are skipped.
pub fn copy_sessions(from: &impl ReadStore, to: &dyn Storage) -> Result<CopyReport, LogError> {
    let totals = migrate::prepare(to, migrate::STEPS)?;
    if totals.sessions != 0 {
        return Err(LogError::Invalid(
            "sessions can only be copied into an empty store".into(),
        ));
    }
    let mut copy = Copy {
        from,
        to,
        totals,
        done: HashMap::new(),
        report: CopyReport::default(),
    };
    for space in [Space::Header, Space::OpenHeader, Space::Event] {
        copy.copy_space(space)?;
    }
    Ok(copy.report)
}

/// Makes a checked copy of a store in another folder without a store.
///
/// # Errors
/// [`LogError::Corrupt`] if the store is damaged; as [`copy_sessions`].
pub fn back_up(
    storage: &SledStorage,
    dir: &Path,
    options: &SledOptions,
) -> Result<CopyReport, LogError> {
    let copy = SledStorage::open(dir, options)?;
    let report = copy_sessions(&Direct(storage), &copy)?;
    copy.close()?;
    match report.skipped.first() {
        Some((id, why)) => Err(LogError::Corrupt(format!("session {id} is damaged: {why}"))),
        None => Ok(report),
    }
}

/// Rewrites a store without the space of deleted sessions, and replaces the old one. A crash leaves
/// one of the two.
///
/// # Errors
/// As [`back_up`]. The old store is then untouched.
pub fn compact(storage: SledStorage, options: &SledOptions) -> Result<CopyReport, LogError> {
    let new_dir = storage.begin_replacement()?;
    let report = back_up(&storage, &new_dir, options)?;
    storage.replace()?;
    Ok(report)
}

struct Copy<'a, R> {
    from: &'a R,
    to: &'a dyn Storage,
    totals: Totals,
    /// The sessions visited so far; true if the session is in the target.
    done: HashMap<SessionId, bool>,
    report: CopyReport,
}

impl<R: ReadStore> Copy<'_, R> {
    /// Copies the sessions of all keys in a space.
    fn copy_space(&mut self, space: Space) -> Result<(), LogError> {
        let mut range = KeyRange::space(space);
        loop {
            let page = self.from.scan(&range, SCAN_PAGE_ENTRIES)?;
            let mut pending: Vec<_> = page.iter().filter_map(|(key, _)| key.session()).collect();
            pending.dedup();
            self.copy_ids(pending)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            // A session may have very many events, so continue with the next session.
            range = match last.session() {
                Some(id) => KeyRange {
                    start: KeyRange::session(space, id).end,
                    ..range
                },
                None => range.after(last),
            };
        }
    }

    /// Copies sessions, each after its parents.
    fn copy_ids(&mut self, ids: Vec<SessionId>) -> Result<(), LogError> {
        let to = self.to;
        let mut txn = Txn::begin(to, self.totals);
        for id in ids {
            let mut pending = vec![id];
            while let Some(id) = pending.last().copied() {
                match self.try_copy(&mut txn, id) {
                    Some(needed) if pending.contains(&needed) => {
                        self.skip(id, format!("it and {needed} depend on each other"));
                    }
                    Some(needed) => pending.push(needed),
                    None => drop(pending.pop()),
                }
                if txn.len_bytes() >= COMMIT_LEN_BYTES {
                    self.commit(txn)?;
                    txn = Txn::begin(to, self.totals);
                }
            }
        }
        if txn.is_empty() {
            Ok(())
        } else {
            self.commit(txn)
        }
    }

    /// Copies or skips a session. Returns a parent that must be visited first, if any.
    fn try_copy(&mut self, txn: &mut Txn<'_>, id: SessionId) -> Option<SessionId> {
        if self.done.contains_key(&id) {
            return None;
        }
        match salvage(self.from, id) {
            Ok(salvaged) => {
                let missing = salvaged
                    .needs()
                    .find(|needed| !self.done.contains_key(needed));
                if missing.is_none() {
                    self.copy_session(txn, id, &salvaged);
                }
                missing
            }
            Err(error) => {
                self.skip(id, error.to_string());
                None
            }
        }
    }

    fn skip(&mut self, id: SessionId, why: String) {
        self.done.insert(id, false);
        self.report.skipped.push((id, why));
    }

    fn copy_session(&mut self, txn: &mut Txn<'_>, id: SessionId, salvaged: &Salvaged) {
        let missing = salvaged
            .needs()
            .find(|needed| self.done.get(needed) != Some(&true));
        if let Some(needed) = missing {
            return self.skip(
                id,
                format!("session {needed}, which it depends on, was not copied"),
            );
        }
        write(txn, id, salvaged);
        self.done.insert(id, true);
        self.report.sessions += 1;
        self.report.responses += u64::from(salvaged.header.state == SessionState::Stored);
    }

    fn commit(&mut self, txn: Txn<'_>) -> Result<(), LogError> {
        let (batch, _) = txn.finish()?;
        self.to.commit(&batch)?;
        self.totals = batch.totals;
        Ok(())
    }
}

fn write(txn: &mut Txn<'_>, id: SessionId, salvaged: &Salvaged) {
    let Salvaged {
        header,
        events,
        body,
        flat,
        ended_at_ms,
    } = salvaged;
    let mut header = header.clone();
    for (seq, payload) in events.iter().enumerate() {
        let batch = EventBatch::of_payloads(std::slice::from_ref(payload), 0);
        txn.append_events(id, seq as u64, &batch);
    }
    if let Some(body) = body {
        txn.create_parts(body, |part| Key::body(id, part), 0, false);
    }
    if let Some(flat) = flat {
        txn.create_parts(flat, |part| Key::flattened_prefix(id, part), 0, false);
    }
    write_edges(txn, id, salvaged);
    let ordinal = header.ordinal.unwrap_or(txn.totals.next_ordinal);
    txn.totals.next_ordinal = txn.totals.next_ordinal.max(ordinal + 1);
    let entry = IndexEntry {
        session: id,
        at_ms: *ended_at_ms,
    };
    match header.state {
        SessionState::Open => {}
        SessionState::Hidden | SessionState::Trunk => txn.create(Key::gc_mark(id), &GcMark {}),
        SessionState::Unstored => {
            header.ordinal = Some(ordinal);
            txn.create(Key::unstored_index(ordinal), &entry);
        }
        SessionState::Stored => {
            header.ordinal = Some(ordinal);
            txn.create(Key::response_index(ordinal), &entry);
            if let Some(owner) = &header.owner {
                txn.create(Key::owner_index(owner, ordinal), &entry);
            }
            txn.totals.responses += 1;
            txn.totals.response_bytes += header.bytes;
        }
    }
    txn.totals.sessions += 1;
    let key = match header.state {
        SessionState::Open => Key::open_header(id),
        _ => Key::header(id),
    };
    txn.create(key, &header);
}

fn write_edges(txn: &mut Txn<'_>, id: SessionId, salvaged: &Salvaged) {
    let header = &salvaged.header;
    let shares = |parent| {
        header
            .fork
            .filter(|fork| fork.parent == parent)
            .map(|fork| fork.events)
    };
    if let Some(parent) = header.continues {
        let edge = Edge {
            shares_events: shares(parent),
        };
        txn.create(Key::edge(parent, EdgeKind::Continues, id), &edge);
    }
    if let Some(fork) = header
        .fork
        .filter(|fork| header.continues != Some(fork.parent))
    {
        let edge = Edge {
            shares_events: Some(fork.events),
        };
        txn.create(Key::edge(fork.parent, EdgeKind::Shares, id), &edge);
    }
}
