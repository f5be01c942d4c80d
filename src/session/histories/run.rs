//! Carries out a random history and compares the log with the model after every step.

use std::{future::Future, sync::Arc};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::model::{Kept, Model, Session};
use crate::session::{
    Access, Bounds, Event, LogError, LogOptions, Opening, SessionId, SessionLog,
    event::{ForkPoint, InputAppended, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
    faulty::{Fault, FaultyStorage, Loss},
    key::{Key, KeyRange, Space},
    log::{Ending, NewResponse, Turn},
    memory::MemoryStorage,
    migrate::{Direct, totals},
    operate::verify::verify,
    record::{Head, Place, State, load, load_events, open_record},
    replay::replay,
    storage::{Read, Storage},
};

const RETENTION_SECS: u64 = 1_000;

/// How the store is found again when a process ends.
pub(super) struct Restart {
    open: Box<dyn Fn() -> Arc<dyn Storage>>,
    faulty: Option<(Arc<FaultyStorage>, Fault, Loss)>,
}

impl Restart {
    /// The same store, closed in order before.
    pub(super) fn always(open: impl Fn() -> Arc<dyn Storage> + 'static) -> Self {
        Self { open: Box::new(open), faulty: None }
    }

    /// A store in which one fault happens between restarts, each of which loses or keeps what was
    /// not synced.
    pub(super) fn faulty(fault: Fault, loss: Loss) -> Self {
        let storage = Arc::new(FaultyStorage::default());
        let open = || -> Arc<dyn Storage> { unreachable!("faulty stores are kept apart") };
        Self { open: Box::new(open), faulty: Some((storage, fault, loss)) }
    }

    fn storage(&self) -> Arc<dyn Storage> {
        match &self.faulty {
            Some((storage, ..)) => storage.clone(),
            None => (self.open)(),
        }
    }
}

/// What a failed request may have done all the same.
enum Unsure {
    Stored(SessionId, Session),
    Deleted(SessionId),
}

pub(super) struct History {
    rng: StdRng,
    restart: Restart,
    storage: Arc<dyn Storage>,
    log: SessionLog,
    model: Model,
    in_flight: Vec<(Turn, Session)>,
    now_ms: i64,
    runtime: tokio::runtime::Runtime,
}

fn options() -> LogOptions {
    LogOptions {
        bounds: Bounds::from_flags(None, None, None, RETENTION_SECS),
        full_disk_retry: std::time::Duration::ZERO,
    }
}

impl History {
    pub(super) fn new(seed: u64, restart: Restart) -> Self {
        let storage = restart.storage();
        let log = SessionLog::start(storage.clone(), options()).unwrap();
        Self {
            rng: StdRng::seed_from_u64(seed),
            restart,
            storage,
            log,
            model: Model::default(),
            in_flight: Vec::new(),
            now_ms: 1_000_000,
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
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

    /// With a small chance orders the fault of this history for one of the next commits.
    fn arm(&mut self) {
        if let Some((storage, fault, _)) = &self.restart.faulty
            && self.rng.random_ratio(1, 8)
        {
            storage.fail_after(self.rng.random_range(0..3), *fault);
        }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn step(&mut self) {
        self.now_ms += self.rng.random_range(-50_000..200_000);
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

    fn pick(&mut self, ids: &[SessionId]) -> Option<SessionId> {
        (!ids.is_empty()).then(|| ids[self.rng.random_range(0..ids.len())])
    }

    fn continue_one(&mut self) {
        let stored = self.model.order.clone();
        let Some(parent) = self.pick(&stored) else { return self.turn(None, None) };
        let events = self.log.response_record(&Access::All, parent).unwrap().end_events;
        let fork = self.rng.random_ratio(3, 4).then_some(ForkPoint { parent, events });
        self.turn(fork, Some(parent));
    }

    /// What a stateless client does that sends a conversation again.
    fn extend_any_session(&mut self) {
        let alive = self.model.sessions.iter();
        let alive = alive.filter(|(_, s)| matches!(s.kept, Kept::Stored | Kept::Unstored));
        let ids: Vec<_> = alive.map(|(id, _)| *id).collect();
        let Some(parent) = self.pick(&ids) else { return };
        let own = self.model.sessions[&parent].tokens_after.last().map_or(0, Vec::len);
        let matched = self.rng.random_range(0..=own);
        if let Some((fork, covered)) = self.log.boundary(parent, matched).unwrap() {
            assert!(covered <= matched);
            assert_eq!(self.model.sessions[&parent].tokens(fork.events).len(), covered);
            self.turn(Some(fork), None);
        }
    }

    fn turn(&mut self, fork: Option<ForkPoint>, continues: Option<SessionId>) {
        if let Some((turn, session)) = self.begin(fork, continues) {
            self.end(turn, session);
        }
    }

    fn leave_in_flight(&mut self) {
        let stored = self.model.order.clone();
        let continues = self.pick(&stored);
        if let Some(begun) = self.begin(None, continues) {
            self.in_flight.push(begun);
        }
    }

    fn end_in_flight(&mut self) {
        if let Some((turn, session)) = self.in_flight.pop() {
            self.end(turn, session);
        }
    }

    fn begin(
        &mut self,
        fork: Option<ForkPoint>,
        continues: Option<SessionId>,
    ) -> Option<(Turn, Session)> {
        let parent = continues.or(fork.map(|fork| fork.parent));
        let owner = match parent {
            Some(parent) => self.model.sessions[&parent].owner.clone(),
            None => [None, Some("anna".into()), Some("ben".into())][self.rng.random_range(0..3)]
                .clone(),
        };
        let id = SessionId(self.rng.random());
        let opening = Opening {
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
        let prompt: Vec<_> = (0..self.rng.random_range(1..40)).map(|_| self.rng.random()).collect();
        let input = InputAppended { items: items.clone(), head: "{}".into() };
        let begun = self.wait(async {
            let mut turn = self.log.begin(opening).await?;
            turn.registered().await?;
            turn.append(&[
                Event::InputAppended(input),
                Event::PromptAppended(Tokens { tokens: prompt.clone() }),
            ])
            .await?;
            Ok::<_, LogError>(turn)
        });
        let turn = self.unless_unavailable(begun)?;
        let session = Session {
            kept: Kept::Open,
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

    /// Mostly short, now and then longer than a value or than a slice.
    fn text(&mut self) -> String {
        let len = match self.rng.random_range(0..60) {
            0 => self.rng.random_range(600_000..700_000),
            1..=8 => self.rng.random_range(3_000..12_000),
            _ => self.rng.random_range(0..200),
        };
        let letter = char::from(self.rng.random_range(b'a'..=b'z'));
        std::iter::repeat_n(letter, len).collect()
    }

    fn end(&mut self, turn: Turn, mut session: Session) {
        let id = turn.id();
        let generated: Vec<_> =
            (0..self.rng.random_range(0..20)).map(|_| self.rng.random()).collect();
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
        let response =
            NewResponse { body: session.body.clone(), head_digest: [1; 32], forkable: true };
        let ending = Ending {
            generated,
            closed: closed(self.now_ms),
            response: stored.then_some(response),
        };
        self.model.told_ms = Some(self.now_ms);
        let ended = self.wait(turn.end(ending));
        session.kept = Kept::Stored;
        match ended {
            Ok(()) => {
                self.model.sessions.insert(id, session);
                if stored {
                    self.model.order.push(id);
                } else {
                    self.model.ended_unstored(id);
                }
            }
            Err(error) => self.after_a_failure(&error, Some(Unsure::Stored(id, session))),
        }
    }

    /// What happens when a client goes away; the session is as old as its beginning.
    fn drop_turn(&mut self, turn: Turn) {
        let id = turn.id();
        drop(turn);
        if let Err(error) = self.wait(self.log.settle()) {
            return self.after_a_failure(&error, None);
        }
        self.model.told_ms = Some(self.model.sessions[&id].ended_at_ms);
        self.closed_without_tokens(id);
    }

    fn closed_without_tokens(&mut self, id: SessionId) {
        self.model.ended_unstored(id);
        if let Some(session) = self.model.sessions.get_mut(&id) {
            let own = session.tokens_after.last().cloned().unwrap_or_default();
            session.tokens_after.push(own);
        }
    }

    fn delete_one(&mut self) {
        let stored = self.model.order.clone();
        let Some(id) = self.pick(&stored) else { return };
        let owner = self.model.sessions[&id].owner.clone();
        let other = Access::Owned(Some("nobody".into()));
        let refused = self.wait(self.log.delete(other, id));
        if let Err(error @ LogError::Unavailable(_)) = refused {
            return self.after_a_failure(&error, None);
        }
        assert_eq!(refused, Err(LogError::NotFound));
        match self.wait(self.log.delete(Access::Owned(owner), id)) {
            Ok(()) => self.model.release(id),
            Err(error) => self.after_a_failure(&error, Some(Unsure::Deleted(id))),
        }
    }

    fn sweep(&mut self) {
        self.model.told_ms = Some(self.now_ms);
        if let Err(error) = self.wait(self.log.sweep(self.now_ms)) {
            self.after_a_failure(&error, None);
        }
    }

    fn restart(&mut self) {
        let closed = self.wait(self.log.close());
        // The turns still in flight end with their process.
        let mut cut_off: Vec<_> = self.in_flight.drain(..).map(|(turn, _)| turn.id()).collect();
        cut_off.sort();
        self.reopen();
        self.model.told_ms = None;
        if self.restart.faulty.is_some() {
            self.find_out(None);
        } else {
            assert_eq!(closed, Ok(()));
            cut_off.into_iter().for_each(|id| self.closed_without_tokens(id));
        }
    }

    fn reopen(&mut self) {
        if let Some((storage, _, loss)) = &mut self.restart.faulty {
            *storage = Arc::new(storage.restarted(*loss));
        }
        // The old store must be gone before its files are opened again.
        let nothing: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        self.log = SessionLog::start(nothing.clone(), options()).unwrap();
        self.storage = nothing;
        self.storage = self.restart.storage();
        self.log = SessionLog::start(self.storage.clone(), options()).unwrap();
    }

    fn unless_unavailable<T>(&mut self, result: Result<T, LogError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.after_a_failure(&error, None);
                None
            }
        }
    }

    /// A fault happened: the store comes back, and what was not acknowledged is there whole or not
    /// at all.
    fn after_a_failure(&mut self, error: &LogError, unsure: Option<Unsure>) {
        assert!(matches!(error, LogError::Unavailable(_)), "{error:?}");
        let (storage, fault, _) = self.restart.faulty.as_ref().expect("no fault was ordered");
        if matches!(fault, Fault::FullBeforeWrite | Fault::FullBeforeSync) {
            // A command that was taken before there was space is refused; another fault may be due.
            let recovered = (0..3).any(|_| {
                storage.free_space();
                self.wait(self.log.settle()).is_ok()
            });
            assert!(recovered);
        }
        let _ = self.wait(self.log.close());
        self.in_flight.clear();
        self.reopen();
        self.model.told_ms = None;
        self.find_out(unsure);
    }

    fn is_there(&self, id: SessionId) -> bool {
        self.log.response(&Access::All, id).is_ok()
    }

    /// Brings the model in line where the log was free to do either.
    fn find_out(&mut self, unsure: Option<Unsure>) {
        match unsure {
            Some(Unsure::Stored(id, session)) if self.is_there(id) => {
                self.model.order.push(id);
                self.model.sessions.insert(id, session);
            }
            Some(Unsure::Deleted(id)) if !self.is_there(id) => self.model.release(id),
            _ => {}
        }
        let read = Direct(&*self.storage);
        let (order, unstored) = (places(&read, Space::Order), places(&read, Space::Unstored));
        assert_eq!(places_of(&order), self.model.order, "stored responses in log order");
        let open = |session: &Session| session.kept == Kept::Open;
        let ids: Vec<_> = self.model.sessions.keys().copied().collect();
        for id in ids {
            let head = load::<Head>(&read, &Key::head(id)).unwrap();
            let session = self.model.sessions.get_mut(&id).unwrap();
            match head {
                None if open(session) => drop(self.model.sessions.remove(&id)),
                Some(head) if open(session) => {
                    session.kept = Kept::Unstored;
                    session.continues = None;
                    let events = load_events(&read, id, head.events).unwrap();
                    let tokens = (1..=events.len()).map(|n| replay(&events[..n]).tokens);
                    session.tokens_after = tokens.collect();
                }
                head if session.kept == Kept::Unstored => {
                    let released = head.is_none_or(|head| head.state != State::Unstored);
                    session.kept = if released { Kept::Released } else { Kept::Unstored };
                }
                _ => {}
            }
        }
        self.model.unstored = places_of(&unstored);
        for place in unstored {
            let session = self.model.sessions.get_mut(&place.session).unwrap();
            assert_eq!(session.kept, Kept::Unstored);
            session.ended_at_ms = place.at_ms;
        }
    }

    fn compare(&mut self) {
        if let Err(error) = self.wait(self.log.settle()) {
            self.after_a_failure(&error, None);
            assert_eq!(self.wait(self.log.settle()), Ok(()));
        }
        self.model.sweep(RETENTION_SECS as i64 * 1_000);
        self.model.settle();
        let report = verify(&Direct(&*self.storage)).unwrap();
        assert_eq!(report.findings, [""; 0]);
        self.compare_responses();
        self.compare_listing();
    }

    fn compare_responses(&self) {
        for id in &self.model.order {
            let session = &self.model.sessions[id];
            let owner = Access::Owned(session.owner.clone());
            let found = self.log.response(&owner, *id).unwrap();
            assert_eq!(found.body, session.body);
            assert_eq!(self.log.input_items(&owner, *id).unwrap(), session.items);
            let continuation = self.log.continuation(&owner, *id).unwrap();
            assert_eq!(continuation.tokens, self.model.tokens(continuation.fork));
            let history = self.log.history(*id).unwrap();
            let mut expected = Vec::new();
            let mut at = Some(*id);
            while let Some(id) = at {
                expected.push(id);
                at = self.model.sessions[&id].continues;
            }
            let ids: Vec<_> = history.iter().rev().map(|turn| turn.id).collect();
            assert_eq!(ids, expected);
            let stranger = Access::Owned(Some("nobody".into()));
            assert_eq!(self.log.response(&stranger, *id), Err(LogError::NotFound));
        }
        for id in &self.model.gone {
            assert_eq!(self.log.response(&Access::All, *id), Err(LogError::NotFound));
        }
        let heads = totals(&Direct(&*self.storage)).unwrap();
        assert_eq!(heads.sessions, self.model.sessions.len() as u64, "sessions that are kept");
        assert_eq!(heads.responses, self.model.order.len() as u64);
    }

    fn compare_listing(&self) {
        for owner in [None, Some("anna"), Some("ben")] {
            let listed = self.log.list(owner, None, 1_000).unwrap();
            let listed: Vec<_> = listed.iter().rev().map(|entry| entry.id).collect();
            let expected: Vec<_> = self
                .model
                .order
                .iter()
                .filter(|id| self.model.sessions[*id].owner.as_deref() == owner)
                .copied()
                .collect();
            assert_eq!(listed, expected);
        }
    }

    /// When everything is deleted and has outlived its time, nothing but the store's own records is
    /// left.
    fn delete_everything(self) {
        for id in self.model.order.clone() {
            assert_eq!(self.wait(self.log.delete(Access::All, id)), Ok(()));
        }
        self.wait(self.log.sweep(i64::MAX / 2)).unwrap();
        self.wait(self.log.settle()).unwrap();
        let totals = totals(&Direct(&*self.storage)).unwrap();
        assert_eq!((totals.sessions, totals.responses, totals.response_bytes), (0, 0, 0));
        assert_eq!(totals.records, 2, "the format and the totals");
    }
}

fn places(read: &Direct<'_>, space: Space) -> Vec<Place> {
    let entries = read.scan(&KeyRange::space(space), usize::MAX).unwrap();
    entries.iter().map(|(key, value)| open_record(key, value).unwrap()).collect()
}

fn places_of(places: &[Place]) -> Vec<SessionId> {
    places.iter().map(|place| place.session).collect()
}

fn closed(at_ms: i64) -> TurnClosed {
    TurnClosed {
        status: TurnStatus::Completed,
        finish: TurnFinish::EndToken(2),
        usage: Usage { input_tokens: 3, cached_tokens: 2, output_tokens: 1, reasoning_tokens: 0 },
        seed: 7,
        closed_at_ms: at_ms,
    }
}

/// Writes turns until a sync fails; returns how many commits there were.
pub(super) fn write_a_few_turns(storage: Arc<FaultyStorage>, seed: u64) -> u64 {
    let log = SessionLog::start(storage.clone(), options()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    storage.fail_after(rng.random_range(3..8), Fault::CrashBeforeSync);
    let mut previous = None;
    runtime.block_on(async {
        loop {
            let id = SessionId(rng.random());
            let opening = Opening {
                id,
                owner: None,
                model: "model".into(),
                fork: previous.map(|parent| ForkPoint { parent, events: 3 }),
                continues: previous,
                created_at_ms: 1,
            };
            let mut turn = log.begin(opening).await.unwrap();
            turn.append(&[Event::PromptAppended(Tokens { tokens: vec![1, 2] })]).await.unwrap();
            let response =
                NewResponse { body: "{}".into(), head_digest: [0; 32], forkable: true };
            let ending = Ending {
                generated: Vec::new(),
                closed: closed(1),
                response: Some(response),
            };
            if turn.end(ending).await.is_err() {
                break;
            }
            previous = Some(id);
        }
    });
    totals(&Direct(&*storage)).unwrap().commit
}
