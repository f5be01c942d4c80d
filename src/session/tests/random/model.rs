//! A model of the log's contents in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::TokenId,
    session::{SessionId, format::event::ForkPoint},
};

/// The state of a session in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelState {
    /// The turn is in flight.
    Open,
    /// The response can be read.
    Stored,
    /// The session stored no response and has not expired.
    Unstored,
    /// The session is kept only for sessions that depend on it.
    Hidden,
}

/// The expected contents of a session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) state: ModelState,
    pub(super) owner: Option<String>,
    pub(super) fork: Option<ForkPoint>,
    pub(super) continues: Option<SessionId>,
    pub(super) items: Vec<String>,
    pub(super) body: String,
    /// The session's own tokens after each of its events.
    pub(super) tokens_after: Vec<Vec<TokenId>>,
    /// The time when the turn ended.
    pub(super) ended_at_ms: i64,
}

impl Session {
    /// Returns the own tokens before event number `events`.
    pub(super) fn tokens(&self, events: u64) -> &[TokenId] {
        match events.checked_sub(1) {
            Some(last) => &self.tokens_after[last as usize],
            None => &[],
        }
    }
}

/// All acknowledged sessions that GC has not erased.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// Stored responses in log order.
    pub(super) order: Vec<SessionId>,
    /// Sessions without a stored response, in log order.
    pub(super) unstored: Vec<SessionId>,
    /// The last time that the committer got in this process.
    pub(super) last_time_ms: Option<i64>,
    /// The ids of erased sessions.
    pub(super) erased: BTreeSet<SessionId>,
}

impl Model {
    /// Returns all tokens before a fork point.
    pub(super) fn tokens(&self, point: ForkPoint) -> Vec<TokenId> {
        let session = &self.sessions[&point.parent];
        let mut tokens = session.fork.map_or_else(Vec::new, |fork| self.tokens(fork));
        tokens.extend_from_slice(session.tokens(point.events));
        tokens
    }

    pub(super) fn hide(&mut self, id: SessionId) {
        self.order.retain(|stored| *stored != id);
        self.unstored.retain(|unstored| *unstored != id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.state = ModelState::Hidden;
        }
    }

    /// Ends a turn that stored no response.
    pub(super) fn end_unstored(&mut self, id: SessionId) {
        self.unstored.push(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.state = ModelState::Unstored;
        session.continues = None;
    }

    /// Expires sessions without a stored response, oldest first.
    pub(super) fn sweep(&mut self, retention_ms: i64) {
        let Some(now_ms) = self.last_time_ms else {
            return;
        };
        while let Some(oldest) = self.unstored.first().copied() {
            if now_ms - self.sessions[&oldest].ended_at_ms < retention_ms {
                return;
            }
            self.hide(oldest);
        }
    }

    /// Hides the stored responses before `first` in the log; all of them if `first` is `None`.
    pub(super) fn hide_before(&mut self, first: Option<&SessionId>) {
        while let Some(oldest) = self.order.first().copied() {
            if Some(&oldest) == first {
                return;
            }
            self.hide(oldest);
        }
    }

    /// Erases the sessions that no live session reaches.
    pub(super) fn wait_for_gc(&mut self) {
        loop {
            let mut continued = BTreeSet::new();
            let mut shared = BTreeSet::new();
            for session in self.sessions.values() {
                continued.extend(session.continues);
                shared.extend(session.fork.map(|fork| fork.parent));
            }
            let mut changed = false;
            for (id, session) in &mut self.sessions {
                let hidden = session.state == ModelState::Hidden && !continued.contains(id);
                if hidden && session.continues.take().is_some() {
                    changed = true;
                }
            }
            let dead: Vec<_> = self
                .sessions
                .iter()
                .filter(|(id, session)| {
                    session.state == ModelState::Hidden
                        && !continued.contains(*id)
                        && !shared.contains(*id)
                })
                .map(|(id, _)| *id)
                .collect();
            changed |= !dead.is_empty();
            for id in dead {
                self.sessions.remove(&id);
                self.erased.insert(id);
            }
            if !changed {
                return;
            }
        }
    }
}
