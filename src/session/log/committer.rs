//! The committer: the only thread that writes. It groups queued commands into one commit, syncs it,
//! then replies.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    LogOptions,
    command::{Command, Reply},
    command_queue::CommandQueue,
    read::Access,
};
use crate::session::{
    error::LogError,
    format::record::{SessionHeader, SessionState, load, load_totals},
    keys::{Key, KeyRange, SessionId, Space},
    ops::{
        gc,
        lifecycle::{self, SessionClose},
        retention,
    },
    store::{Direct, ReadStore, Storage, StorageError, Totals},
    txn::{Txn, durable_view::DurableView},
};

/// A commit takes no further command at this size, in bytes.
const BATCH_LEN_BYTES: usize = 1 << 20;
/// The group commit delay. Commands that no caller waits for wait this long for others to share
/// their commit.
const GROUP_COMMIT_DELAY: Duration = Duration::from_millis(50);
/// The maximum number of values that GC removes in one commit, so that turns do not wait for a
/// large deletion.
const REMOVALS_PER_COMMIT: usize = 2_000;
/// The maximum number of responses and sessions that retention deletes in one commit.
const EXPIRIES_PER_COMMIT: usize = 64;

/// The writability of the store.
enum Health {
    Good,
    /// The disk was full at this time. Recoverable.
    Full(Instant, String),
    /// Writes fail until the process restarts.
    Failed(String),
}

pub(super) struct Committer {
    storage: Arc<dyn Storage>,
    view: Arc<DurableView>,
    options: LogOptions,
    totals: Totals,
    health: Health,
    /// True if writes fail now; read by callers that begin turns.
    failing: Arc<AtomicBool>,
    /// The latest time from a command. Retention uses it.
    now_ms: Option<i64>,
    /// True if GC or retention may have work left.
    gc_pending: bool,
    gc_waiters: Vec<Reply>,
    /// The turns in flight that the current commit changes.
    turns_in_commit: Vec<SessionId>,
    /// The turns in flight with a failed write, and the error.
    failed_turns: HashMap<SessionId, LogError>,
}

/// The receiver of a command's result, and the time of the reply.
enum ReplyAt {
    Now(Reply),
    AfterCommit(Reply),
    AfterGc(Reply),
    /// No reply of its own: an error fails the end of this turn.
    WithTurnEnd(SessionId),
    /// The turn lacks a write for this reason; reply with it after the commit.
    Incomplete(Reply, LogError),
    Never,
}

/// Replies that wait for the commit.
type PendingReplies = Vec<(Reply, Result<(), LogError>)>;

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
            gc_pending: true,
            gc_waiters: Vec::new(),
            turns_in_commit: Vec::new(),
            failed_turns: HashMap::new(),
        }
    }

    /// Returns a flag that is true while writes fail.
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
                .ok_or_else(|| LogError::Corrupt(format!("{key:?} contains no session id")))?;
            lifecycle::close_interrupted(&mut txn, id, REMOVALS_PER_COMMIT)?;
            self.commit(txn)?;
        }
    }

    pub(super) fn run(mut self, mut queue: CommandQueue<Command>) {
        loop {
            let first = if self.gc_pending {
                queue.poll()
            } else {
                queue.wait().map(Some)
            };
            let Ok(first) = first else { break };
            if let Some(reply) = self.run_commit(first, &mut queue) {
                let closed = self.storage.close().map_err(LogError::from);
                let _ = reply.send(closed);
                return;
            }
        }
        if let Err(error) = self.storage.close() {
            tracing::error!(%error, "session log close failed");
        }
    }

    /// Runs one group commit of all queued commands. Returns the reply of a close command.
    fn run_commit(
        &mut self,
        first: Option<Command>,
        queue: &mut CommandQueue<Command>,
    ) -> Option<Reply> {
        let writable = self.ensure_writable();
        let storage = self.storage.clone();
        let mut txn = Txn::begin(&*storage, self.totals);
        let mut replies = PendingReplies::new();
        let deadline = Instant::now() + GROUP_COMMIT_DELAY;
        let mut close = None;
        let mut count = 0;
        let mut next = first;
        while let Some(command) = next {
            match (command, &writable) {
                (Command::Close { reply }, _) => {
                    close = Some(reply);
                    break;
                }
                (command, Ok(())) => self.apply(&mut txn, command, &mut replies),
                (command, Err(error)) => self.refuse(command, error),
            }
            count += 1;
            let full = txn.len_bytes() >= BATCH_LEN_BYTES || count >= super::QUEUE_LEN_MAX;
            let reply_waits = !replies.is_empty() || !self.gc_waiters.is_empty() || self.gc_pending;
            // After a refusal, return to `ensure_writable` before the next command.
            next = if full || writable.is_err() {
                None
            } else if reply_waits {
                queue.poll().ok().flatten()
            } else {
                queue.wait_until(deadline)
            };
        }
        match writable {
            Ok(()) => self.gc_and_commit(txn, replies),
            Err(error) => self.skip_gc(&error),
        }
        close
    }

    fn gc_and_commit(&mut self, mut txn: Txn<'_>, replies: PendingReplies) {
        let savepoint = txn.savepoint();
        self.gc_pending = match self.run_gc(&mut txn) {
            Ok(left) => left,
            Err(error) => {
                tracing::error!(%error, "garbage collection failed");
                txn.roll_back(&savepoint);
                false
            }
        };
        let committed = if txn.is_empty() {
            Ok(())
        } else {
            self.commit(txn)
        };
        for (reply, result) in replies {
            let _ = reply.send(committed.clone().and(result));
        }
        match committed {
            Ok(()) if self.gc_pending => {}
            outcome => self.answer_gc_waiters(&outcome),
        }
    }

    fn skip_gc(&mut self, error: &LogError) {
        self.gc_pending = false;
        self.answer_gc_waiters(&Err(error.clone()));
    }

    fn answer_gc_waiters(&mut self, outcome: &Result<(), LogError>) {
        for reply in self.gc_waiters.drain(..) {
            let _ = reply.send(outcome.clone());
        }
    }

    /// Runs retention and GC for one commit. Returns true if work is left.
    fn run_gc(&mut self, txn: &mut Txn<'_>) -> Result<bool, LogError> {
        let more_to_expire = match self.now_ms {
            Some(now_ms) => {
                retention::enforce(txn, &self.options.retention, now_ms, EXPIRIES_PER_COMMIT)?
            }
            None => false,
        };
        Ok(gc::run(txn, REMOVALS_PER_COMMIT)? || more_to_expire)
    }

    fn apply(&mut self, txn: &mut Txn<'_>, command: Command, replies: &mut PendingReplies) {
        let savepoint = txn.savepoint();
        let (result, when) = self.execute(txn, command);
        if result.is_err() {
            txn.roll_back(&savepoint);
        }
        match when {
            ReplyAt::Now(reply) => drop(reply.send(result)),
            ReplyAt::AfterCommit(reply) => replies.push((reply, result)),
            ReplyAt::AfterGc(reply) => self.gc_waiters.push(reply),
            ReplyAt::WithTurnEnd(id) => {
                self.turns_in_commit.push(id);
                if let Err(error) = result {
                    self.failed_turns.entry(id).or_insert(error);
                }
            }
            ReplyAt::Incomplete(reply, why) => replies.push((reply, Err(why))),
            ReplyAt::Never => {}
        }
    }

    fn execute(&mut self, txn: &mut Txn<'_>, command: Command) -> (Result<(), LogError>, ReplyAt) {
        match command {
            Command::Begin { session, reply } => {
                self.turns_in_commit.push(session.id);
                (lifecycle::open(txn, &session), ReplyAt::Now(reply))
            }
            Command::Append { id, events } => (
                lifecycle::append(txn, id, &events),
                ReplyAt::WithTurnEnd(id),
            ),
            Command::Stage {
                id,
                target,
                slice,
                first_part,
            } => (
                lifecycle::stage(txn, id, target, &slice, first_part),
                ReplyAt::WithTurnEnd(id),
            ),
            Command::FlattenedPrefix { id, prefix } => (
                lifecycle::write_flattened_prefix(txn, id, &prefix),
                ReplyAt::WithTurnEnd(id),
            ),
            Command::End { id, close, reply } => self.end(txn, id, &close, reply),
            Command::Delete { access, id, reply } => {
                (delete(txn, &access, id), ReplyAt::AfterCommit(reply))
            }
            Command::Sweep { now_ms, reply } => {
                self.now_ms = Some(now_ms);
                (Ok(()), ReplyAt::AfterCommit(reply))
            }
            Command::Probe { reply } => (Ok(()), ReplyAt::Now(reply)),
            Command::WaitForGc { reply } | Command::Close { reply } => {
                (Ok(()), ReplyAt::AfterGc(reply))
            }
        }
    }

    /// Ends a turn. A turn with a failed write is closed as interrupted.
    fn end(
        &mut self,
        txn: &mut Txn<'_>,
        id: SessionId,
        close: &SessionClose,
        reply: Option<Reply>,
    ) -> (Result<(), LogError>, ReplyAt) {
        self.now_ms = Some(close.closed_at_ms);
        let Some(why) = self.failed_turns.remove(&id) else {
            let reply_at = reply.map_or(ReplyAt::Never, ReplyAt::AfterCommit);
            return (lifecycle::close(txn, id, close), reply_at);
        };
        let interrupted =
            lifecycle::close_interrupted(txn, id, REMOVALS_PER_COMMIT).map(|_done| ());
        (
            interrupted,
            reply.map_or(ReplyAt::Never, |reply| ReplyAt::Incomplete(reply, why)),
        )
    }

    /// Makes the changes durable, then visible to readers.
    fn commit(&mut self, txn: Txn<'_>) -> Result<(), LogError> {
        let (batch, before) = txn.finish()?;
        self.view.begin_commit(before);
        match self.storage.commit(&batch) {
            Ok(()) => {
                self.view.end_commit();
                self.totals = batch.totals;
                self.turns_in_commit.clear();
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, commit = batch.totals.commit, "commit failed");
                let why = LogError::from(error.clone());
                let turns_in_commit = self.turns_in_commit.drain(..).map(|id| (id, why.clone()));
                self.failed_turns.extend(turns_in_commit);
                self.set_health(match &error {
                    StorageError::Full(why) => Health::Full(Instant::now(), why.clone()),
                    other => Health::Failed(other.to_string()),
                });
                Err(error.into())
            }
        }
    }

    /// Checks that the store is writable. After a full disk, retries at most once per
    /// `full_disk_retry`.
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
                tracing::info!("session log writable again");
                self.totals = totals;
                self.view.end_commit();
                self.set_health(Health::Good);
                self.gc_pending = true;
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
            | Command::FlattenedPrefix { id, .. } => {
                drop(self.failed_turns.insert(id, error.clone()));
            }
            Command::End { id, reply, .. } => {
                // The session keeps its open header, so the next start closes it.
                self.failed_turns.remove(&id);
                reply
                    .into_iter()
                    .for_each(|reply| drop(reply.send(Err(error.clone()))));
            }
            Command::Begin { reply, .. }
            | Command::Delete { reply, .. }
            | Command::Sweep { reply, .. }
            | Command::Probe { reply }
            | Command::WaitForGc { reply }
            | Command::Close { reply } => drop(reply.send(Err(error.clone()))),
        }
    }
}

fn delete(txn: &mut Txn<'_>, access: &Access, id: SessionId) -> Result<(), LogError> {
    let header = load::<SessionHeader>(txn, &Key::header(id))?.ok_or(LogError::NotFound)?;
    if header.state != SessionState::Stored || !access.sees(header.owner.as_deref()) {
        return Err(LogError::NotFound);
    }
    gc::delete(txn, id, header);
    Ok(())
}
