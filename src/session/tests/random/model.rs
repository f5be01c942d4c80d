//! What a log must show, state in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::TokenId,
    session::{SessionId, format::event::ForkPoint},
};

/// Why a session is state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelState {
    /// Its turn is in flight.
    Open,
    /// Its response can be read.
    Stored,
    /// It stored nothing and is retained.
    Unstored,
    /// Only for others.
    Hidden,
}

/// A session as it must be.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) state: ModelState,
    pub(super) owner: Option<String>,
    pub(super) fork: Option<ForkPoint>,
    pub(super) continues: Option<SessionId>,
    pub(super) items: Vec<String>,
    pub(super) body: String,
    /// Its own tokens after each of its events.
    pub(super) tokens_after: Vec<Vec<TokenId>>,
    /// When its turn ended.
    pub(super) ended_at_ms: i64,
}

impl Session {
    /// Own tokens before event number `events`.
    pub(super) fn tokens(&self, events: u64) -> &[TokenId] {
        match events.checked_sub(1) {
            Some(last) => &self.tokens_after[last as usize],
            None => &[],
        }
    }
}

/// All sessions that were ever acknowledged and not yet gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// Stored responses in log order.
    pub(super) order: Vec<SessionId>,
    /// Sessions that stored nothing, in log order.
    pub(super) unstored: Vec<SessionId>,
    /// The time that the log was last told in this process.
    pub(super) told_ms: Option<i64>,
    /// Ids that were there once.
    pub(super) gone: BTreeSet<SessionId>,
}

impl Model {
    /// Every token up to a point.
    pub(super) fn tokens(&self, point: ForkPoint) -> Vec<TokenId> {
        let session = &self.sessions[&point.parent];
        let mut tokens = session.fork.map_or_else(Vec::new, |fork| self.tokens(fork));
        tokens.extend_from_slice(session.tokens(point.events));
        tokens
    }

    pub(super) fn release(&mut self, id: SessionId) {
        self.order.retain(|stored| *stored != id);
        self.unstored.retain(|unstored| *unstored != id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.state = ModelState::Hidden;
        }
    }

    /// A turn ended and stored nothing.
    pub(super) fn end_unstored(&mut self, id: SessionId) {
        self.unstored.push(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.state = ModelState::Unstored;
        session.continues = None;
    }

    /// Drops what has outlived its time, oldest first, up to the first that has not.
    pub(super) fn sweep(&mut self, retention_ms: i64) {
        let Some(now_ms) = self.told_ms else { return };
        while let Some(oldest) = self.unstored.first().copied() {
            if now_ms - self.sessions[&oldest].ended_at_ms < retention_ms {
                return;
            }
            self.release(oldest);
        }
    }

    /// Drops the stored responses that come before one in the log; all, if there is none.
    pub(super) fn drop_before(&mut self, first: Option<&SessionId>) {
        while let Some(oldest) = self.order.first().copied() {
            if Some(&oldest) == first {
                return;
            }
            self.release(oldest);
        }
    }

    /// Removes what nothing state for itself reaches.
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
                self.gone.insert(id);
            }
            if !changed {
                return;
            }
        }
    }
}
