//! The one thread that writes: drains all that waits into one batch, makes it durable, then answers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{LogOptions, command_queue::CommandQueue, read::Access};
use crate::session::{
    error::LogError,
    format::{
        event_batch::EventBatch,
        payload::Payload,
        record::{SessionHeader, SessionState, load, load_totals},
    },
    keys::{Key, KeyRange, SessionId, Space},
    ops::{
        gc,
        lifecycle::{self, NewSession, SessionClose, StagedPayload, Target},
        retention,
    },
    store::{Direct, ReadStore, Storage, StorageError, Totals},
    txn::{Txn, durable_view::DurableView},
};

/// A commit takes no further command once it has this many bytes.
const BATCH_LEN_BYTES: usize = 1 << 20;
/// How long commands that nobody waits for may wait for others to share a commit with.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(50);
/// How many values one commit removes for purges, so that turns need not wait for a large one.
const REMOVALS_PER_COMMIT: usize = 2_000;
/// How many responses one commit drops to keep the bounds.
const DROPS_PER_COMMIT: usize = 64;

pub(super) type Reply = oneshot::Sender<Result<(), LogError>>;

/// What the committer is asked to do.
pub(super) enum Command {
    /// Begin a session; answered as soon as its edges are registered.
    Begin { opening: NewSession, reply: Reply },
    /// Append events to a session in flight.
    Append { id: SessionId, events: EventBatch },
    /// Write a slice of a large payload ahead of its last piece.
    Stage {
        id: SessionId,
        target: Target,
        slice: Payload,
        first_part: u32,
    },
    /// Store the flattened tokens of a session's ancestors.
    Flatten { id: SessionId, piece: StagedPayload },
    /// End a turn; answered once durable. Nobody may wait.
    End {
        id: SessionId,
        closing: SessionClose,
        reply: Option<Reply>,
    },
    /// Delete a response; answered once durable.
    Delete {
        access: Access,
        id: SessionId,
        reply: Reply,
    },
    /// Drop what has outlived its time; answered once durable.
    Sweep { now_ms: i64, reply: Reply },
    /// Answered at once, if the store takes writes.
    Probe { reply: Reply },
    /// Answered once nothing is left to erase or drop.
    Settle { reply: Reply },
    /// Close the store; answered once that is done.
    Close { reply: Reply },
}

/// Whether the store takes writes.
enum Health {
    Good,
    /// The disk was full at this time.
    Full(Instant, String),
    /// For the rest of this process.
    Failed(String),
}

pub(super) struct Committer {
    storage: Arc<dyn Storage>,
    view: Arc<DurableView>,
    options: LogOptions,
    totals: Totals,
    health: Health,
    /// Whether the store is known not to take writes, for those who begin turns.
    failing: Arc<AtomicBool>,
    /// The time as last told; bounds on age go by it.
    now_ms: Option<i64>,
    /// True if there is something to erase or drop without being asked.
    work_left: bool,
    settling: Vec<Reply>,
    /// Turns in flight that the commit under way is about.
    touched: Vec<SessionId>,
    /// Turns in flight of which something could not be stored, and why.
    broken: HashMap<SessionId, LogError>,
}

/// Who is told of a command's result, and when.
enum ReplyAt {
    Now(Reply),
    OnceDurable(Reply),
    OnceSettled(Reply),
    /// Whoever ends this turn.
    AtTheEnd(SessionId),
    /// What was asked for could not be done, as the turn lacks a part for this reason.
    Incomplete(Reply, LogError),
    Nobody,
}

/// Answers that wait for a commit.
type Answers = Vec<(Reply, Result<(), LogError>)>;

impl Committer {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        view: Arc<DurableView>,
        options: LogOptions,
        totals: Totals,
    ) -> Self {
        Self {
            storage,
            view,
            options,
            totals,
            health: Health::Good,
            failing: Arc::default(),
            now_ms: None,
            work_left: true,
            settling: Vec::new(),
            touched: Vec::new(),
            broken: HashMap::new(),
        }
    }

    /// Whether the store is known not to take writes; changes with it.
    pub(super) fn failing(&self) -> Arc<AtomicBool> {
        self.failing.clone()
    }

    fn set_health(&mut self, health: Health) {
        let failing = !matches!(health, Health::Good);
        self.failing.store(failing, Ordering::Release);
        self.health = health;
    }

    /// Closes the turns that were in flight when the last process ended.
    pub(super) fn close_interrupted_turns(&mut self) -> Result<(), LogError> {
        loop {
            let storage = self.storage.clone();
            let mut txn = Txn::begin(&*storage, self.totals);
            let Some((key, _)) = txn.scan(&KeyRange::space(Space::OpenHeader), 1)?.pop() else {
                return Ok(());
            };
            let id = key
                .session()
                .ok_or_else(|| LogError::Corrupt(format!("{key:?} names no session")))?;
            lifecycle::close_interrupted(&mut txn, id, REMOVALS_PER_COMMIT)?;
            self.commit(txn)?;
        }
    }

    pub(super) fn run(mut self, mut mailbox: CommandQueue<Command>) {
        loop {
            let first = if self.work_left {
                mailbox.poll()
            } else {
                mailbox.wait().map(Some)
            };
            let Ok(first) = first else { break };
            if let Some(reply) = self.round(first, &mut mailbox) {
                let closed = self.storage.close().map_err(LogError::from);
                let _ = reply.send(closed);
                return;
            }
        }
        if let Err(error) = self.storage.close() {
            tracing::error!(%error, "closing the session log");
        }
    }

    /// One commit for everything that waits. Returns who asked for the store to be closed.
    fn round(
        &mut self,
        first: Option<Command>,
        mailbox: &mut CommandQueue<Command>,
    ) -> Option<Reply> {
        let writable = self.ensure_writable();
        let storage = self.storage.clone();
        let mut txn = Txn::begin(&*storage, self.totals);
        let mut answers = Answers::new();
        let linger_until = Instant::now() + GROUP_COMMIT_DELAY;
        let mut closing = None;
        let mut taken = 0;
        let mut next = first;
        while let Some(command) = next {
            match (command, &writable) {
                (Command::Close { reply }, _) => {
                    closing = Some(reply);
                    break;
                }
                (command, Ok(())) => self.apply(&mut txn, command, &mut answers),
                (command, Err(error)) => self.refuse(command, error),
            }
            taken += 1;
            let full = txn.len_bytes() >= BATCH_LEN_BYTES || taken >= super::QUEUE_LEN_MAX;
            let waited_for = !answers.is_empty() || !self.settling.is_empty() || self.work_left;
            // Each refusal asks anew whether the store is back.
            next = if full || writable.is_err() {
                None
            } else if waited_for {
                mailbox.poll().ok().flatten()
            } else {
                mailbox.wait_until(linger_until)
            };
        }
        match writable {
            Ok(()) => self.work_and_commit(txn, answers),
            Err(error) => self.give_up_work(&error),
        }
        closing
    }

    fn work_and_commit(&mut self, mut txn: Txn<'_>, answers: Answers) {
        let savepoint = txn.savepoint();
        self.work_left = match self.work(&mut txn) {
            Ok(left) => left,
            Err(error) => {
                tracing::error!(%error, "erasing deleted responses");
                txn.roll_back(&savepoint);
                false
            }
        };
        let committed = if txn.is_empty() {
            Ok(())
        } else {
            self.commit(txn)
        };
        for (reply, result) in answers {
            let _ = reply.send(committed.clone().and(result));
        }
        match committed {
            Ok(()) if self.work_left => {}
            outcome => self.answer_settling(&outcome),
        }
    }

    fn give_up_work(&mut self, error: &LogError) {
        self.work_left = false;
        self.answer_settling(&Err(error.clone()));
    }

    fn answer_settling(&mut self, outcome: &Result<(), LogError>) {
        for reply in self.settling.drain(..) {
            let _ = reply.send(outcome.clone());
        }
    }

    /// Erases and drops a bounded amount; returns whether more is left.
    fn work(&mut self, txn: &mut Txn<'_>) -> Result<bool, LogError> {
        let more_to_drop = match self.now_ms {
            Some(now_ms) => {
                retention::enforce(txn, &self.options.bounds, now_ms, DROPS_PER_COMMIT)?
            }
            None => false,
        };
        Ok(gc::work(txn, REMOVALS_PER_COMMIT)? || more_to_drop)
    }

    fn apply(&mut self, txn: &mut Txn<'_>, command: Command, answers: &mut Answers) {
        let savepoint = txn.savepoint();
        let (result, when) = self.carry_out(txn, command);
        if result.is_err() {
            txn.roll_back(&savepoint);
        }
        match when {
            ReplyAt::Now(reply) => drop(reply.send(result)),
            ReplyAt::OnceDurable(reply) => answers.push((reply, result)),
            ReplyAt::OnceSettled(reply) => self.settling.push(reply),
            ReplyAt::AtTheEnd(id) => {
                self.touched.push(id);
                if let Err(error) = result {
                    self.broken.entry(id).or_insert(error);
                }
            }
            ReplyAt::Incomplete(reply, why) => answers.push((reply, Err(why))),
            ReplyAt::Nobody => {}
        }
    }

    fn carry_out(
        &mut self,
        txn: &mut Txn<'_>,
        command: Command,
    ) -> (Result<(), LogError>, ReplyAt) {
        match command {
            Command::Begin { opening, reply } => {
                self.touched.push(opening.id);
                (lifecycle::open(txn, &opening), ReplyAt::Now(reply))
            }
            Command::Append { id, events } => {
                (lifecycle::append(txn, id, &events), ReplyAt::AtTheEnd(id))
            }
            Command::Stage {
                id,
                target,
                slice,
                first_part,
            } => (
                lifecycle::stage(txn, id, target, &slice, first_part),
                ReplyAt::AtTheEnd(id),
            ),
            Command::Flatten { id, piece } => {
                (lifecycle::flatten(txn, id, &piece), ReplyAt::AtTheEnd(id))
            }
            Command::End { id, closing, reply } => self.end(txn, id, &closing, reply),
            Command::Delete { access, id, reply } => {
                (delete(txn, &access, id), ReplyAt::OnceDurable(reply))
            }
            Command::Sweep { now_ms, reply } => {
                self.now_ms = Some(now_ms);
                (Ok(()), ReplyAt::OnceDurable(reply))
            }
            Command::Probe { reply } => (Ok(()), ReplyAt::Now(reply)),
            Command::Settle { reply } | Command::Close { reply } => {
                (Ok(()), ReplyAt::OnceSettled(reply))
            }
        }
    }

    /// Ends a turn. If something of it is missing, it is closed as one that was cut off.
    fn end(
        &mut self,
        txn: &mut Txn<'_>,
        id: SessionId,
        closing: &SessionClose,
        reply: Option<Reply>,
    ) -> (Result<(), LogError>, ReplyAt) {
        self.now_ms = Some(closing.closed_at_ms);
        let Some(why) = self.broken.remove(&id) else {
            let answer = reply.map_or(ReplyAt::Nobody, ReplyAt::OnceDurable);
            return (lifecycle::close(txn, id, closing), answer);
        };
        let cut_off = lifecycle::close_interrupted(txn, id, REMOVALS_PER_COMMIT).map(|_done| ());
        (
            cut_off,
            reply.map_or(ReplyAt::Nobody, |reply| ReplyAt::Incomplete(reply, why)),
        )
    }

    /// Makes the changes durable and shows them to readers.
    fn commit(&mut self, txn: Txn<'_>) -> Result<(), LogError> {
        let (batch, before) = txn.finish()?;
        self.view.hide(before);
        match self.storage.commit(&batch) {
            Ok(()) => {
                self.view.show();
                self.totals = batch.totals;
                self.touched.clear();
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, commit = batch.totals.commit, "a commit failed");
                let why = LogError::from(error.clone());
                let touched = self.touched.drain(..).map(|id| (id, why.clone()));
                self.broken.extend(touched);
                self.set_health(match &error {
                    StorageError::Full(why) => Health::Full(Instant::now(), why.clone()),
                    other => Health::Failed(other.to_string()),
                });
                Err(error.into())
            }
        }
    }

    /// Tries, once a second at most, to get a store back whose disk was full.
    fn ensure_writable(&mut self) -> Result<(), LogError> {
        match &self.health {
            Health::Good => Ok(()),
            Health::Failed(why) => Err(LogError::Unavailable(why.clone())),
            Health::Full(since, why) if since.elapsed() < self.options.full_disk_retry => {
                Err(StorageError::Full(why.clone()).into())
            }
            Health::Full(..) => self.recover(),
        }
    }

    fn recover(&mut self) -> Result<(), LogError> {
        let recovered = self.storage.recover().map_err(LogError::from);
        let totals = recovered.and_then(|()| load_totals(&Direct(&*self.storage)));
        match totals {
            Ok(totals) => {
                tracing::info!("the session log takes writes again");
                self.totals = totals;
                self.view.show();
                self.set_health(Health::Good);
                self.work_left = true;
                Ok(())
            }
            Err(error) => {
                self.set_health(match &error {
                    LogError::Unavailable(why) => Health::Full(Instant::now(), why.clone()),
                    other => Health::Failed(other.to_string()),
                });
                Err(error)
            }
        }
    }

    fn refuse(&mut self, command: Command, error: &LogError) {
        match command {
            Command::Append { id, .. }
            | Command::Stage { id, .. }
            | Command::Flatten { id, .. } => drop(self.broken.insert(id, error.clone())),
            Command::End { id, reply, .. } => {
                // It stays marked as in flight, so that the next start closes it.
                self.broken.remove(&id);
                reply
                    .into_iter()
                    .for_each(|reply| drop(reply.send(Err(error.clone()))));
            }
            Command::Begin { reply, .. }
            | Command::Delete { reply, .. }
            | Command::Sweep { reply, .. }
            | Command::Probe { reply }
            | Command::Settle { reply }
            | Command::Close { reply } => drop(reply.send(Err(error.clone()))),
        }
    }
}

fn delete(txn: &mut Txn<'_>, access: &Access, id: SessionId) -> Result<(), LogError> {
    let head = load::<SessionHeader>(txn, &Key::header(id))?.ok_or(LogError::NotFound)?;
    if head.state != SessionState::Stored || !access.sees(head.owner.as_deref()) {
        return Err(LogError::NotFound);
    }
    gc::delete(txn, id, head);
    Ok(())
}
