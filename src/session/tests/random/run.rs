//! Runs a random history and compares the log with the model after every step.

use std::{future::Future, sync::Arc};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::model::{Model, ModelState, Session};
use crate::session::{
    Access, Event, LogError, LogOptions, NewSession, RetentionLimits, SessionId, SessionLog,
    format::event::{ForkPoint, InputAppended, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
    log::{NewResponse, SetClock, TurnEnd, TurnHandle},
    store::{
        Storage,
        faulty::{Fault, FaultyStorage, Loss},
    },
};

pub(super) const RETENTION_SECS: u64 = 1_000;

/// The way to reopen the store after a process ends.
pub(super) struct Restart {
    open: Box<dyn Fn() -> Arc<dyn Storage>>,
    pub(super) faulty: Option<(Arc<FaultyStorage>, Fault, Loss)>,
}

impl Restart {
    /// Reopens the same store, which was closed cleanly.
    pub(super) fn always(open: impl Fn() -> Arc<dyn Storage> + 'static) -> Self {
        Self {
            open: Box::new(open),
            faulty: None,
        }
    }

    /// Reopens a store with one fault between restarts. Unsynced writes are lost or kept, by
    /// `loss`.
    pub(super) fn faulty(fault: Fault, loss: Loss) -> Self {
        let storage = Arc::new(FaultyStorage::default());
        let open = || -> Arc<dyn Storage> { unreachable!("faulty stores are state apart") };
        Self {
            open: Box::new(open),
            faulty: Some((storage, fault, loss)),
        }
    }

    pub(super) fn storage(&self) -> Arc<dyn Storage> {
        match &self.faulty {
            Some((storage, ..)) => storage.clone(),
            None => (self.open)(),
        }
    }
}

/// A failed request whose effect may have happened.
pub(super) enum UnknownOutcome {
    Stored(SessionId, Session),
    Deleted(SessionId),
}

pub(super) struct History {
    pub(super) rng: StdRng,
    pub(super) restart: Restart,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) log: SessionLog,
    pub(super) model: Model,
    pub(super) in_flight: Vec<(TurnHandle, Session)>,
    pub(super) now_ms: i64,
    pub(super) retention: RetentionLimits,
    pub(super) clock: Arc<SetClock>,
    pub(super) runtime: tokio::runtime::Runtime,
}

/// Returns the retention limits of a history: none, one or two. A faulty history has no byte limit,
/// because a fault leaves open which responses were deleted.
fn retention(seed: u64, faulty: bool) -> RetentionLimits {
    let (max_entries, max_bytes, ttl_secs) = match seed / 2 % 5 {
        0 => (None, None, None),
        1 => (Some(6), None, None),
        2 => (None, None, Some(1_500)),
        3 => (Some(9), None, Some(2_000)),
        _ if faulty => (Some(1), None, None),
        _ => (None, Some(60_000), None),
    };
    RetentionLimits::from_flags(max_entries, max_bytes, ttl_secs, RETENTION_SECS)
}

impl History {
    pub(super) fn options(&self) -> LogOptions {
        options(self.retention, &self.clock)
    }

    pub(super) fn new(seed: u64, restart: Restart) -> Self {
        let storage = restart.storage();
        let retention = retention(seed, restart.faulty.is_some());
        let clock = Arc::<SetClock>::default();
        let log = SessionLog::start(storage.clone(), options(retention, &clock)).unwrap();
        Self {
            rng: StdRng::seed_from_u64(seed),
            restart,
            storage,
            log,
            model: Model::default(),
            in_flight: Vec::new(),
            now_ms: 1_000_000,
            retention,
            clock,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        }
    }

    pub(super) fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.arm();
            self.step();
            self.compare();
        }
        self.restart();
        self.compare();
        self.delete_everything();
    }

    /// Injects the history's fault into one of the next commits, with a small probability.
    pub(super) fn arm(&mut self) {
        if let Some((storage, fault, _)) = &self.restart.faulty
            && self.rng.random_ratio(1, 8)
        {
            storage.fail_after(self.rng.random_range(0..3), *fault);
        }
    }

    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn step(&mut self) {
        self.now_ms += self.rng.random_range(-50_000..200_000);
        self.clock.set(self.now_ms);
        match self.rng.random_range(0..20) {
            0..=3 => self.turn(None, None),
            4..=11 => self.continue_one(),
            12 => self.extend_any_session(),
            13 => self.leave_in_flight(),
            14 => self.end_in_flight(),
            15..=17 => self.delete_one(),
            18 => self.sweep(),
            _ => self.restart(),
        }
    }

    pub(super) fn pick(&mut self, ids: &[SessionId]) -> Option<SessionId> {
        (!ids.is_empty()).then(|| ids[self.rng.random_range(0..ids.len())])
    }

    /// Returns the stored responses that have not expired.
    pub(super) fn visible(&self) -> Vec<SessionId> {
        let ids = self.model.order.iter().copied();
        ids.filter(|id| !self.has_expired(*id)).collect()
    }

    pub(super) fn has_expired(&self, id: SessionId) -> bool {
        let ended_at_ms = self.model.sessions[&id].ended_at_ms;
        self.retention.is_expired(ended_at_ms, self.now_ms)
    }

    pub(super) fn continue_one(&mut self) {
        let stored = self.visible();
        let Some(parent) = self.pick(&stored) else {
            return self.turn(None, None);
        };
        let events = self
            .log
            .response_record(&Access::All, parent)
            .unwrap()
            .end_events;
        let fork = self
            .rng
            .random_ratio(3, 4)
            .then_some(ForkPoint { parent, events });
        self.turn(fork, Some(parent));
    }

    /// Forks a session by its tokens, as a stateless client does that resends a conversation.
    pub(super) fn extend_any_session(&mut self) {
        let alive = self.model.sessions.iter();
        let alive =
            alive.filter(|(_, s)| matches!(s.state, ModelState::Stored | ModelState::Unstored));
        let ids: Vec<_> = alive.map(|(id, _)| *id).collect();
        let Some(parent) = self.pick(&ids) else {
            return;
        };
        let own = self.model.sessions[&parent]
            .tokens_after
            .last()
            .map_or(0, Vec::len);
        let matched = self.rng.random_range(0..=own);
        if let Some((fork, covered)) = self.log.fork_point_at(parent, matched).unwrap() {
            assert!(covered <= matched);
            assert_eq!(
                self.model.sessions[&parent].tokens(fork.events).len(),
                covered
            );
            self.turn(Some(fork), None);
        }
    }

    pub(super) fn turn(&mut self, fork: Option<ForkPoint>, continues: Option<SessionId>) {
        if let Some((turn, session)) = self.begin(fork, continues) {
            self.end(turn, session);
        }
    }

    pub(super) fn leave_in_flight(&mut self) {
        let stored = self.visible();
        let continues = self.pick(&stored);
        if let Some(begun) = self.begin(None, continues) {
            self.in_flight.push(begun);
        }
    }

    pub(super) fn end_in_flight(&mut self) {
        if let Some((turn, session)) = self.in_flight.pop() {
            self.end(turn, session);
        }
    }

    pub(super) fn begin(
        &mut self,
        fork: Option<ForkPoint>,
        continues: Option<SessionId>,
    ) -> Option<(TurnHandle, Session)> {
        let parent = continues.or(fork.map(|fork| fork.parent));
        let owner = match parent {
            Some(parent) => self.model.sessions[&parent].owner.clone(),
            None => {
                [None, Some("anna".into()), Some("ben".into())][self.rng.random_range(0..3)].clone()
            }
        };
        let id = SessionId(self.rng.random());
        let new_session = NewSession {
            id,
            owner: owner.clone(),
            model: "model".into(),
            fork,
            continues,
            created_at_ms: self.now_ms,
        };
        let items: Vec<_> = (0..self.rng.random_range(1..3))
            .map(|n| format!("{{\"item\":{n},\"text\":\"{}\"}}", self.text()))
            .collect();
        let prompt: Vec<_> = (0..self.rng.random_range(1..40))
            .map(|_| self.rng.random())
            .collect();
        let input = InputAppended {
            items: items.clone(),
            head: "{}".into(),
        };
        let begun = self.wait(async {
            let mut turn = self.log.begin(new_session).await?;
            turn.registered().await?;
            turn.append(&[
                Event::InputAppended(input),
                Event::PromptAppended(Tokens {
                    tokens: prompt.clone(),
                }),
            ])
            .await?;
            Ok::<_, LogError>(turn)
        });
        let turn = self.ok_or_recover(begun)?;
        let session = Session {
            state: ModelState::Open,
            owner,
            fork,
            continues,
            items,
            body: String::new(),
            tokens_after: vec![vec![], vec![], prompt],
            ended_at_ms: self.now_ms,
        };
        self.model.sessions.insert(id, session.clone());
        Some((turn, session))
    }

    /// Returns a text: mostly short, sometimes longer than one value or one slice.
    pub(super) fn text(&mut self) -> String {
        let len = match self.rng.random_range(0..60) {
            0 => self.rng.random_range(600_000..700_000),
            1..=8 => self.rng.random_range(3_000..12_000),
            _ => self.rng.random_range(0..200),
        };
        let letter = char::from(self.rng.random_range(b'a'..=b'z'));
        std::iter::repeat_n(letter, len).collect()
    }

    pub(super) fn end(&mut self, turn: TurnHandle, mut session: Session) {
        let id = turn.id();
        let generated: Vec<_> = (0..self.rng.random_range(0..20))
            .map(|_| self.rng.random())
            .collect();
        let mut tokens = session.tokens_after.last().cloned().unwrap();
        tokens.extend_from_slice(&generated);
        if !generated.is_empty() {
            session.tokens_after.push(tokens.clone());
        }
        session.tokens_after.push(tokens);
        session.body = format!("{{\"id\":\"{id}\",\"text\":\"{}\"}}", self.text());
        session.ended_at_ms = self.now_ms;
        let stored = self.rng.random_ratio(4, 5);
        if self.rng.random_ratio(1, 20) {
            return self.drop_turn(turn);
        }
        let response = NewResponse {
            body: session.body.clone(),
            preamble_digest: [1; 32],
            forkable: true,
        };
        let ending = TurnEnd {
            generated,
            closed: closed(self.now_ms),
            response: stored.then_some(response),
        };
        self.model.last_time_ms = Some(self.now_ms);
        let ended = self.wait(turn.end(ending));
        session.state = ModelState::Stored;
        match ended {
            Ok(()) => {
                self.model.sessions.insert(id, session);
                if stored {
                    self.model.order.push(id);
                } else {
                    self.model.end_unstored(id);
                }
            }
            Err(error) => {
                self.recover_from_fault(&error, Some(UnknownOutcome::Stored(id, session)));
            }
        }
    }

    /// Drops a turn, as after a disconnect. The session closes with the time of its beginning.
    pub(super) fn drop_turn(&mut self, turn: TurnHandle) {
        let id = turn.id();
        drop(turn);
        if let Err(error) = self.wait(self.log.wait_for_gc()) {
            return self.recover_from_fault(&error, None);
        }
        self.model.last_time_ms = Some(self.model.sessions[&id].ended_at_ms);
        self.close_without_tokens(id);
    }

    pub(super) fn close_without_tokens(&mut self, id: SessionId) {
        self.model.end_unstored(id);
        if let Some(session) = self.model.sessions.get_mut(&id) {
            let own = session.tokens_after.last().cloned().unwrap_or_default();
            session.tokens_after.push(own);
        }
    }

    pub(super) fn delete_one(&mut self) {
        let stored = self.visible();
        let Some(id) = self.pick(&stored) else { return };
        let owner = self.model.sessions[&id].owner.clone();
        let other = Access::Owned(Some("nobody".into()));
        let refused = self.wait(self.log.delete(other, id));
        if let Err(error @ LogError::Unavailable(_)) = refused {
            return self.recover_from_fault(&error, None);
        }
        assert_eq!(refused, Err(LogError::NotFound));
        match self.wait(self.log.delete(Access::Owned(owner), id)) {
            Ok(()) => self.model.hide(id),
            Err(error) => self.recover_from_fault(&error, Some(UnknownOutcome::Deleted(id))),
        }
    }

    pub(super) fn sweep(&mut self) {
        self.model.last_time_ms = Some(self.now_ms);
        if let Err(error) = self.wait(self.log.sweep(self.now_ms)) {
            self.recover_from_fault(&error, None);
        }
    }
}

fn options(retention: RetentionLimits, clock: &Arc<SetClock>) -> LogOptions {
    LogOptions {
        retention,
        full_disk_retry: std::time::Duration::ZERO,
        clock: clock.clone(),
    }
}

pub(super) fn closed(at_ms: i64) -> TurnClosed {
    TurnClosed {
        status: TurnStatus::Completed,
        finish: TurnFinish::EndToken(2),
        usage: Usage {
            input_tokens: 3,
            cached_tokens: 2,
            output_tokens: 1,
            reasoning_tokens: 0,
        },
        seed: 7,
        closed_at_ms: at_ms,
    }
}
