//! The session log's interface: begin turns, read, continue and delete responses.

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
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use self::{command::Command, committer::Committer};
pub use self::{
    list::Listed,
    read::{Access, ForkSource, StoredResponse, StoredTurn, TurnDelta, stored_body},
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
use crate::{
    clock::{Clock, SystemClock},
    lock::IgnorePoison as _,
};
use command_queue::CommandQueue;

/// The capacity of the command queue. With slices of 256 KiB it holds at most 64 MiB.
const QUEUE_LEN_MAX: usize = 256;

/// Options of the session log.
#[derive(Clone)]
pub struct LogOptions {
    /// The retention limits.
    pub retention: RetentionLimits,
    /// The minimum time between two attempts to write to a full disk.
    pub full_disk_retry: Duration,
    /// The clock by which readers hide expired responses.
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

/// The session log. Clones share one log.
#[derive(Clone)]
pub struct SessionLog {
    shared: Arc<Shared>,
}

struct Shared {
    view: Arc<DurableView>,
    queue: mpsc::Sender<Command>,
    retention: RetentionLimits,
    clock: Arc<dyn Clock>,
    /// True if the last commit failed and none has succeeded since.
    failing: Arc<AtomicBool>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl SessionLog {
    /// Starts the log over a storage: upgrades its format, closes interrupted turns, and starts the
    /// committer.
    ///
    /// # Errors
    /// [`LogError::Refused`] if a newer program wrote the store; errors of the storage.
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

    /// Begins a turn's session; returns when the command is queued. [`TurnHandle::registered`]
    /// reports whether the continued session still existed.
    ///
    /// # Errors
    /// [`LogError::PersistenceDisabled`], and errors from reading the forked session.
    pub async fn begin(&self, session: NewSession) -> Result<TurnHandle, LogError> {
        if session.continues.is_some() {
            self.require_persistence()?;
        }
        TurnHandle::begin(self.clone(), session).await
    }

    /// Checks that a turn that begins now can be stored, as far as is known. If the disk was full,
    /// retries a write.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] with the reason.
    pub async fn check_writable(&self) -> Result<(), LogError> {
        if !self.shared.failing.load(Ordering::Acquire) {
            return Ok(());
        }
        self.ask(|reply| Command::Probe { reply }).await
    }

    /// Deletes a response; returns when the deletion is durable. GC erases the session in the same
    /// commit or soon after, as far as no other session needs it.
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

    /// Returns when the next response or session expires, in milliseconds since 1970; `None` if
    /// nothing can expire.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn next_expiry_ms(&self) -> Result<Option<i64>, LogError> {
        retention::next_expiry_ms(&*self.shared.view, &self.shared.retention)
    }

    /// Deletes what has expired at `now_ms`; returns when the deletion is durable.
    ///
    /// # Errors
    /// [`LogError::Unavailable`].
    pub async fn sweep(&self, now_ms: i64) -> Result<(), LogError> {
        self.ask(|reply| Command::Sweep { now_ms, reply }).await
    }

    /// Waits until everything queued before is durable and GC has no work left.
    ///
    /// # Errors
    /// [`LogError::Unavailable`].
    pub async fn wait_for_gc(&self) -> Result<(), LogError> {
        self.ask(|reply| Command::WaitForGc { reply }).await
    }

    /// Makes everything queued before durable and closes the store cleanly. Later writes fail.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if the last state could not be made durable.
    pub async fn close(&self) -> Result<(), LogError> {
        let closed = self.ask(|reply| Command::Close { reply }).await;
        let thread = self.shared.committer.lock().ignore_poison().take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        closed
    }

    /// Returns the retention limits.
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
