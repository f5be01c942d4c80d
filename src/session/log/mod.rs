//! The log as the service sees it: turns are appended, responses read, continued and deleted.

mod command;
mod command_queue;
mod committer;
mod list;
mod read;
#[cfg(test)]
mod tests;
mod turn_handle;

#[cfg(test)]
pub(super) use tests::SetClock;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use self::{command::Command, committer::Committer};
pub use self::{
    list::Listed,
    read::{Access, ParentState, StoredResponse, StoredTurn, TurnDelta, stored_body},
    turn_handle::{NewResponse, TurnEnd, TurnHandle},
};
use super::{
    error::LogError,
    format::migrate,
    keys::SessionId,
    ops::{
        lifecycle::NewSession,
        retention::{self, RetentionLimits},
    },
    store::Storage,
    txn::durable_view::DurableView,
};
use crate::clock::{Clock, SystemClock};
use command_queue::CommandQueue;

/// Commands that may wait for the committer; with slices of 256 KiB, at most 64 MiB.
const QUEUE_LEN_MAX: usize = 256;

/// How the log behaves.
#[derive(Clone)]
pub struct LogOptions {
    /// How much is kept and for how long.
    pub retention: RetentionLimits,
    /// How long a full disk is left alone before the store is tried again.
    pub full_disk_retry: Duration,
    /// Tells readers what has outlived its time.
    pub clock: Arc<dyn Clock>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            retention: RetentionLimits::default(),
            full_disk_retry: Duration::from_secs(1),
            clock: Arc::new(SystemClock),
        }
    }
}

/// The session log. Clones are the same log.
#[derive(Clone)]
pub struct SessionLog {
    shared: Arc<Shared>,
}

struct Shared {
    view: Arc<DurableView>,
    queue: mpsc::Sender<Command>,
    retention: RetentionLimits,
    clock: Arc<dyn Clock>,
    /// Whether the last commit failed and none has succeeded since.
    failing: Arc<AtomicBool>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl SessionLog {
    /// Starts the log over a storage: upgrades its format, closes turns that the end of the last
    /// process cut off, and starts the committer.
    ///
    /// # Errors
    /// [`LogError::Refused`] with a sentence if a newer program wrote the store; the storage's.
    pub fn start(storage: Arc<dyn Storage>, options: LogOptions) -> Result<Self, LogError> {
        let totals = migrate::prepare(&*storage, migrate::STEPS)?;
        let view = Arc::new(DurableView::new(storage.clone()));
        let (queue, commands) = mpsc::channel(QUEUE_LEN_MAX);
        let (retention, clock) = (options.retention, options.clock.clone());
        let mut committer = Committer::new(storage, view.clone(), options, totals);
        let failing = committer.failing();
        committer.close_interrupted_turns()?;
        let thread = CommandQueue::new(commands)
            .and_then(|queue| {
                let thread = std::thread::Builder::new().name("committer".into());
                thread.spawn(move || committer.run(queue))
            })
            .map_err(|error| LogError::Unavailable(format!("starting the committer: {error}")))?;
        let committer = Mutex::new(Some(thread));
        Ok(Self {
            shared: Arc::new(Shared {
                view,
                queue,
                retention,
                clock,
                failing,
                committer,
            }),
        })
    }

    /// Begins a turn's session; returns once that is queued. [`Turn::registered`] tells whether the
    /// session that it continues was still there.
    ///
    /// # Errors
    /// [`LogError::PersistenceDisabled`], and errors from reading the session that it forks.
    pub async fn begin(&self, session: NewSession) -> Result<TurnHandle, LogError> {
        if session.continues.is_some() {
            self.require_persistence()?;
        }
        TurnHandle::begin(self.clone(), session).await
    }

    /// Whether a turn that begins now can be stored, as far as is known. Tries to get a store back
    /// whose disk was full.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] with the reason why not.
    pub async fn check_writable(&self) -> Result<(), LogError> {
        if !self.shared.failing.load(Ordering::Acquire) {
            return Ok(());
        }
        self.ask(|reply| Command::Probe { reply }).await
    }

    /// Deletes a response for a reader that may see it; returns once it is durably hidden. What
    /// nothing else needs of its session is erased in the same commit or soon after.
    ///
    /// # Errors
    /// [`LogError::NotFound`], [`LogError::PersistenceDisabled`] or [`LogError::Unavailable`].
    pub async fn delete(&self, access: Access, id: SessionId) -> Result<(), LogError> {
        self.require_persistence()?;
        if self.shared.retention.ttl_ms.is_some() {
            self.response_record(&access, id)?;
        }
        self.ask(|reply| Command::Delete { access, id, reply })
            .await
    }

    /// When the next response or session outlives its time, in milliseconds since 1970, if any of
    /// those that are there ever does.
    ///
    /// # Errors
    /// The storage's.
    pub fn next_expiry_ms(&self) -> Result<Option<i64>, LogError> {
        retention::next_expiry_ms(&*self.shared.view, &self.shared.retention)
    }

    /// Drops what has outlived its time at `now_ms`; returns once that is durable.
    ///
    /// # Errors
    /// [`LogError::Unavailable`].
    pub async fn sweep(&self, now_ms: i64) -> Result<(), LogError> {
        self.ask(|reply| Command::Sweep { now_ms, reply }).await
    }

    /// Waits until everything queued before is durable and nothing is left to erase.
    ///
    /// # Errors
    /// [`LogError::Unavailable`].
    pub async fn wait_for_gc(&self) -> Result<(), LogError> {
        self.ask(|reply| Command::WaitForGc { reply }).await
    }

    /// Makes everything queued before durable and closes the store in order. Later writes fail.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if the last state could not be made durable.
    pub async fn close(&self) -> Result<(), LogError> {
        let closed = self.ask(|reply| Command::Close { reply }).await;
        let thread = self
            .shared
            .committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        closed
    }

    /// The bounds on what is kept.
    pub fn retention(&self) -> &RetentionLimits {
        &self.shared.retention
    }

    fn require_persistence(&self) -> Result<(), LogError> {
        if self.shared.retention.persistence_disabled() {
            return Err(LogError::PersistenceDisabled);
        }
        Ok(())
    }

    async fn send(&self, command: Command) -> Result<(), LogError> {
        self.shared.queue.send(command).await.map_err(|_| closed())
    }

    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), LogError>>) -> Command,
    ) -> Result<(), LogError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> LogError {
    LogError::Unavailable("the session log is closed".into())
}
