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

/// The engine as seen from outside its thread; clones are the same engine. When the last clone is
/// dropped, the engine ends after the jobs it has.
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

/// The ends of the engine's channels that handles hold.
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
    /// Closed by the engine's thread as the last thing it does.
    pub(super) stats: watch::Receiver<EngineStats>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    /// Dropped last, so that the engine wakes to closed channels.
    pub(super) waker: Waker,
}

/// The reason why the engine rejects a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// All places are taken; some time later there may be one.
    #[error("the engine has as many jobs as it takes")]
    QueueFull,
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {prompt} tokens, but the context of {context} must hold the answer too"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that a prompt and its answer may have together.
        context: usize,
    },
    /// The prompt is not one.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token of the prompt is not one of the model's.
    #[error("the prompt has token {token}, but the model's vocabulary has {vocab_size} tokens")]
    UnknownToken {
        /// The token.
        token: TokenId,
        /// Number of tokens in the vocabulary.
        vocab_size: usize,
    },
    /// The engine was told to stop, or has stopped because its executor panicked.
    #[error("the engine has stopped")]
    ShutDown,
}

/// A longer grace than any operator means, short enough to add to an [`Instant`].
const GRACE_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl EngineHandle {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Largest number of tokens of one job, prompt and answer together: the model's context
    /// length, or what the key/value budget holds where that is less.
    #[must_use]
    pub fn context_length(&self) -> usize {
        self.shared.bounds.context_length
    }

    /// Number of tokens in the model's vocabulary.
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

    /// Hands a job to the engine. Never waits.
    ///
    /// # Errors
    /// When the job asks for what the model cannot do, the engine is full, or it has stopped.
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

    /// Stops taking jobs, lets those taken go on for `grace`, ends what is left then with
    /// [`Finish::Cancelled`](super::Finish::Cancelled), and returns when the engine's thread has
    /// ended. A step that runs is not interrupted. Of several calls the earliest deadline counts.
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
            // Nothing is left for the thread to do, so this does not hold up the caller's. It
            // reports its own panics.
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
