//! Restarts and faults, and the reconciliation of the model after them.

use std::sync::Arc;

use super::{
    model::{ModelState, Session},
    run::{History, Unsure},
};
use crate::session::{
    Access, LogError, SessionId, SessionLog,
    format::{
        record::{IndexEntry, SessionHeader, SessionState, load, open_record},
        session_events::load_events,
    },
    keys::{Key, KeyRange, Space},
    ops::replay::replay,
    store::{Direct, ReadStore, Storage, faulty::Fault, memory::MemoryStorage},
};

impl History {
    pub(super) fn restart(&mut self) {
        let closed = self.wait(self.log.close());
        // The process end interrupts the turns in flight.
        let mut cut_off: Vec<_> = self
            .in_flight
            .drain(..)
            .map(|(turn, _)| turn.id())
            .collect();
        cut_off.sort();
        self.reopen();
        self.model.told_ms = None;
        if self.restart.faulty.is_some() {
            self.find_out(None);
        } else {
            assert_eq!(closed, Ok(()));
            cut_off
                .into_iter()
                .for_each(|id| self.closed_without_tokens(id));
        }
    }

    pub(super) fn reopen(&mut self) {
        if let Some((storage, _, loss)) = &mut self.restart.faulty {
            *storage = Arc::new(storage.restarted(*loss));
        }
        // The old store must be dropped before its files are opened again.
        let nothing: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        self.log = SessionLog::start(nothing.clone(), self.options()).unwrap();
        self.storage = nothing;
        self.storage = self.restart.storage();
        self.log = SessionLog::start(self.storage.clone(), self.options()).unwrap();
    }

    pub(super) fn unless_unavailable<T>(&mut self, result: Result<T, LogError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.after_a_failure(&error, None);
                None
            }
        }
    }

    /// Handles a fault: reopens the store. Unacknowledged writes must then be there completely or
    /// not at all.
    pub(super) fn after_a_failure(&mut self, error: &LogError, unsure: Option<Unsure>) {
        assert!(matches!(error, LogError::Unavailable(_)), "{error:?}");
        let (storage, fault, _) = self.restart.faulty.as_ref().expect("no fault was ordered");
        if matches!(fault, Fault::FullBeforeWrite | Fault::FullBeforeSync) {
            // A command taken before space was freed is refused, and another fault may be due. So
            // retry.
            let recovered = (0..3).any(|_| {
                storage.free_space();
                self.wait(self.log.wait_for_gc()).is_ok()
            });
            assert!(recovered);
        }
        let _ = self.wait(self.log.close());
        self.in_flight.clear();
        self.reopen();
        self.model.told_ms = None;
        self.find_out(unsure);
    }

    pub(super) fn is_there(&self, id: SessionId) -> bool {
        self.log.response(&Access::All, id).is_ok()
    }

    /// Reconciles the model with the log where both outcomes are allowed.
    pub(super) fn find_out(&mut self, unsure: Option<Unsure>) {
        match unsure {
            Some(Unsure::Stored(id, session)) if self.is_there(id) => {
                self.model.order.push(id);
                self.model.sessions.insert(id, session);
            }
            Some(Unsure::Deleted(id)) if !self.is_there(id) => self.model.release(id),
            _ => {}
        }
        let read = Direct(&*self.storage);
        let (order, unstored) = (
            entries(&read, Space::ResponseIndex),
            entries(&read, Space::UnstoredIndex),
        );
        let order = sessions_of(&order);
        if self.limits_delete() {
            self.model.drop_before(order.first());
        }
        assert_eq!(order, self.model.order, "stored responses in log order");
        let open = |session: &Session| session.state == ModelState::Open;
        let ids: Vec<_> = self.model.sessions.keys().copied().collect();
        for id in ids {
            let header = load::<SessionHeader>(&read, &Key::header(id)).unwrap();
            let session = self.model.sessions.get_mut(&id).unwrap();
            match header {
                None if open(session) => drop(self.model.sessions.remove(&id)),
                Some(header) if open(session) => {
                    session.state = ModelState::Unstored;
                    session.continues = None;
                    let events = load_events(&read, id, header.events).unwrap();
                    let tokens = (1..=events.len()).map(|n| replay(&events[..n]).tokens);
                    session.tokens_after = tokens.collect();
                }
                header if session.state == ModelState::Unstored => {
                    let hidden = header.is_none_or(|header| header.state != SessionState::Unstored);
                    session.state = if hidden {
                        ModelState::Hidden
                    } else {
                        ModelState::Unstored
                    };
                }
                _ => {}
            }
        }
        self.model.unstored = sessions_of(&unstored);
        for entry in unstored {
            let session = self.model.sessions.get_mut(&entry.session).unwrap();
            assert_eq!(session.state, ModelState::Unstored);
            session.ended_at_ms = entry.at_ms;
        }
    }
}

fn entries(read: &Direct<'_>, space: Space) -> Vec<IndexEntry> {
    let entries = read.scan(&KeyRange::space(space), usize::MAX).unwrap();
    entries
        .iter()
        .map(|(key, value)| open_record(key, value).unwrap())
        .collect()
}

fn sessions_of(entries: &[IndexEntry]) -> Vec<SessionId> {
    entries.iter().map(|entry| entry.session).collect()
}
