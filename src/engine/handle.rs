//! Handle to the engine's thread for the rest of the program.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{SyncSender, TrySendError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, watch};

use super::{
    EngineStats, Job, TokenStream,
    sequence::Submission,
    token_stream::{self, Waker},
};
use crate::{
    cache::snapshot::SaveRequest, id::TokenId, lock::IgnorePoison as _, model::exec::KvFormat,
};

/// Engine handle; clones share the engine. After the last clone is dropped, the engine finishes its
/// jobs and ends.
#[derive(Debug, Clone)]
pub struct EngineHandle {
    shared: Arc<Shared>,
}

/// Limits on jobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineLimits {
    pub(super) context_length: usize,
    pub(super) vocab_size: usize,
    pub(super) events_buffered_max: usize,
    /// Jobs taken at once.
    pub(super) places: usize,
}

/// Sending ends of the engine's channels.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) bounds: EngineLimits,
    pub(super) places: Arc<Semaphore>,
    pub(super) submissions: SyncSender<Submission>,
    pub(super) orders: SyncSender<SaveRequest>,
    /// `None` if the executor's KV caches cannot be exported.
    pub(super) kv_format: Option<KvFormat>,
    /// Deadline of the shutdown; `None` while the engine accepts jobs.
    pub(super) deadline: watch::Sender<Option<Instant>>,
    /// Closed when the engine thread ends.
    pub(super) stats: watch::Receiver<EngineStats>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    /// Dropped last, so that the engine wakes to closed channels.
    pub(super) waker: Waker,
}

/// The reason why the engine rejects a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// All queue slots are taken.
    #[error("the engine has as many jobs as it takes")]
    QueueFull,
    /// The prompt fills the context.
    #[error(
        "the prompt has {prompt} tokens, but the context of {context} must hold the answer too"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Maximum tokens of prompt and output together.
        context: usize,
    },
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A prompt token is not in the vocabulary.
    #[error("the prompt has token {token}, but the model's vocabulary has {vocab_size} tokens")]
    UnknownToken {
        /// Token id.
        token: TokenId,
        /// Vocabulary size.
        vocab_size: usize,
    },
    /// The engine was shut down, or its executor panicked.
    #[error("the engine has stopped")]
    ShutDown,
}

/// Upper bound on the grace period, small enough to add to an [`Instant`].
const GRACE_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl EngineHandle {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the maximum tokens of a job, prompt and output together. This is the model's context
    /// length or, if smaller, the KV budget.
    #[must_use]
    pub fn context_length(&self) -> usize {
        self.shared.bounds.context_length
    }

    /// Returns the vocabulary size.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.shared.bounds.vocab_size
    }

    /// Returns the format of exported KV caches; `None` if the executor cannot export them.
    #[must_use]
    pub fn kv_format(&self) -> Option<&KvFormat> {
        self.shared.kv_format.as_ref()
    }

    /// Has the keys and values of a sequence that has ended handed over for a snapshot, as far as they
    /// are still in memory. Never waits: where too many are asked for, some are not there.
    pub fn save_snapshot(&self, order: SaveRequest) {
        match self.shared.orders.try_send(order) {
            Ok(()) => self.shared.waker.wake(),
            Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => order.cancel(),
        }
    }

    /// Returns the engine's counters after its last step, and the jobs in the queue now.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        let Shared {
            bounds,
            places,
            stats,
            ..
        } = &*self.shared;
        let jobs = bounds.places - places.available_permits();
        let stats = *stats.borrow();
        EngineStats {
            waiting: jobs.saturating_sub(stats.running),
            ..stats
        }
    }

    /// True if the engine's thread is alive.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.shared.stats.has_changed().is_ok()
    }

    /// Submits a job. Never blocks.
    ///
    /// # Errors
    /// A [`SubmitError`] if the job is invalid, the queue is full, or the engine has stopped.
    pub fn submit(&self, job: Job) -> Result<TokenStream, SubmitError> {
        let shared = &*self.shared;
        shared.bounds.check(&job.prompt)?;
        if shared.deadline.borrow().is_some() || !self.is_running() {
            return Err(SubmitError::ShutDown);
        }
        let place = Arc::clone(&shared.places)
            .try_acquire_owned()
            .map_err(|_| SubmitError::QueueFull)?;
        let (events, stream) =
            token_stream::channel(shared.bounds.events_buffered_max, shared.waker.clone());
        let submission = Submission {
            job,
            events,
            submitted: Instant::now(),
            place,
            before_restore: None,
        };
        shared
            .submissions
            .try_send(submission)
            .map_err(|error| match error {
                TrySendError::Full(_) => SubmitError::QueueFull,
                TrySendError::Disconnected(_) => SubmitError::ShutDown,
            })?;
        shared.waker.wake();
        Ok(stream)
    }

    /// Rejects new jobs and lets running ones continue for `grace`. Then ends the remaining jobs
    /// with [`FinishReason::Cancelled`](super::FinishReason::Cancelled). Returns when the engine
    /// thread has ended. A running step is not interrupted. The earliest deadline of several calls
    /// applies.
    pub async fn shutdown(&self, grace: Duration) {
        let asked = Instant::now() + grace.min(GRACE_MAX);
        self.shared.deadline.send_modify(|deadline| {
            *deadline = Some(deadline.map_or(asked, |earlier| earlier.min(asked)));
        });
        self.shared.waker.wake();
        let mut stats = self.shared.stats.clone();
        while stats.changed().await.is_ok() {}
        let thread = self.shared.thread.lock().ignore_poison().take();
        if let Some(thread) = thread {
            // The thread has nothing left to do, so this does not block. It reports its own panics.
            let _ = thread.join();
        }
    }
}

impl EngineLimits {
    fn check(&self, prompt: &[TokenId]) -> Result<(), SubmitError> {
        let Self {
            context_length,
            vocab_size,
            ..
        } = *self;
        if prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        if prompt.len() >= context_length {
            return Err(SubmitError::PromptTooLong {
                prompt: prompt.len(),
                context: context_length,
            });
        }
        match prompt.iter().find(|&&token| token as usize >= vocab_size) {
            Some(&token) => Err(SubmitError::UnknownToken { token, vocab_size }),
            None => Ok(()),
        }
    }
}
