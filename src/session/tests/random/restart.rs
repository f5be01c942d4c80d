//! Restarts and faults, and the reconciliation of the model after them.

use std::sync::Arc;

use super::{
    model::{ModelState, Session},
    run::{History, UnknownOutcome},
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
        let mut interrupted: Vec<_> = self
            .in_flight
            .drain(..)
            .map(|(turn, _)| turn.id())
            .collect();
        interrupted.sort();
        self.reopen();
        self.model.last_time_ms = None;
        if self.restart.faulty.is_some() {
            self.reconcile(None);
        } else {
            assert_eq!(closed, Ok(()));
            interrupted
                .into_iter()
                .for_each(|id| self.close_without_tokens(id));
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

    pub(super) fn ok_or_recover<T>(&mut self, result: Result<T, LogError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.recover_from_fault(&error, None);
                None
            }
        }
    }

    /// Handles a fault: reopens the store. Unacknowledged writes must then be there completely or
    /// not at all.
    pub(super) fn recover_from_fault(&mut self, error: &LogError, unknown: Option<UnknownOutcome>) {
        assert!(matches!(error, LogError::Unavailable(_)), "{error:?}");
        let (storage, fault, _) = self.restart.faulty.as_ref().expect("no fault was injected");
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
        self.model.last_time_ms = None;
        self.reconcile(unknown);
    }

    pub(super) fn is_there(&self, id: SessionId) -> bool {
        self.log.response(&Access::All, id).is_ok()
    }

    /// Reconciles the model with the log where both outcomes are allowed.
    pub(super) fn reconcile(&mut self, unknown: Option<UnknownOutcome>) {
        match unknown {
            Some(UnknownOutcome::Stored(id, session)) if self.is_there(id) => {
                self.model.order.push(id);
                self.model.sessions.insert(id, session);
            }
            Some(UnknownOutcome::Deleted(id)) if !self.is_there(id) => self.model.hide(id),
            _ => {}
        }
        let read = Direct(&*self.storage);
        let (order, unstored) = (
            entries(&read, Space::ResponseIndex),
            entries(&read, Space::UnstoredIndex),
        );
        let order = sessions_of(&order);
        if self.limits_delete() {
            self.model.hide_before(order.first());
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
