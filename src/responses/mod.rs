//! The service: what each operation of the API does, independent of HTTP.

mod constraint;
mod continuation;
#[cfg(test)]
mod fork_support;
mod listing;
mod models;
mod prepare;
mod run;

pub use continuation::{ContinuationCounts, ContinuationState, RebuildReason};
pub use listing::Summary;
pub use models::{Models, ServedModel, longest_token_bytes};
pub use prepare::{
    Prepared,
    sampling::{SamplingDefaults, settle},
};
pub use run::{RunningTurn, TurnEvent};

use std::{sync::Arc, time::Duration};

use continuation::resend::ResendIndex;
use prepare::{parent, parent_cache::ParentCache};
use run::registry::RunningTurns;

use crate::{
    auth::{Caller, Permit},
    cache::snapshot::Snapshots,
    clock::{Clock, Entropy},
    conversation::{ResponseState, Turn},
    id::ResponseId,
    session::{LogError, SessionLog},
    translate::RequestError,
};

/// The service: state shared by all operations.
pub struct Service {
    models: Models,
    log: SessionLog,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    continuation_counts: ContinuationCounts,
    resend_index: Arc<ResendIndex>,
    parent_cache: ParentCache,
    running: Arc<RunningTurns>,
    snapshots: Option<Snapshots>,
}

/// The reason why a turn was not started.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The request cannot be answered as it stands.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The model has as many turns as it takes.
    #[error("the model has as many turns as it takes")]
    Busy,
    /// The log did not take the turn, or cannot read what it continues.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The server is about to stop.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The server's own fault; the text is for the operator.
    #[error("{0}")]
    Broken(String),
}

impl Service {
    /// A service of these models that writes every turn into `log`.
    pub fn new(
        models: Models,
        log: SessionLog,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            models,
            log,
            clock,
            entropy,
            continuation_counts: ContinuationCounts::default(),
            resend_index: Arc::default(),
            parent_cache: ParentCache::default(),
            running: Arc::default(),
            snapshots: None,
        }
    }

    /// The models that are served.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns counts of continuations by state since the start.
    pub fn continuation_counts(&self) -> &ContinuationCounts {
        &self.continuation_counts
    }

    /// Turns a turn into a job: finds the model, renders the prompt, makes tokens of it. Takes time
    /// in proportion to the prompt and does not wait, so it belongs on a thread for such work.
    ///
    /// # Errors
    /// When the model is not there or cannot answer this.
    pub fn prepare(&self, caller: &Caller, turn: Turn) -> Result<Prepared, CreateError> {
        prepare::prepare(self, caller, turn)
    }

    /// Begins a turn: waits only until the engine has it, not until it has a place there, and until
    /// the response that it continues is held. The permit, if the key needs one, is held until the
    /// end.
    ///
    /// # Errors
    /// When the engine does not take the job, or that response has gone.
    pub async fn start(
        &self,
        prepared: Prepared,
        permit: Option<Arc<Permit>>,
    ) -> Result<RunningTurn, CreateError> {
        run::run(self, prepared, permit).await
    }

    /// A stored response as it was answered, as JSON text. Reads from the disk.
    ///
    /// # Errors
    /// [`LogError::NotFound`] and the log's own.
    pub fn response(&self, caller: &Caller, id: ResponseId) -> Result<String, LogError> {
        let access = parent::readable(caller);
        let stored = self.log.response(&access, parent::session_of(id))?;
        Ok(stored.body)
    }

    /// Returns the input items of a stored response's own request, oldest first, as JSON texts.
    /// Reads from the disk.
    ///
    /// # Errors
    /// As [`Service::response`].
    pub fn input_items(&self, caller: &Caller, id: ResponseId) -> Result<Vec<String>, LogError> {
        let access = parent::readable(caller);
        self.log.input_items(&access, parent::session_of(id))
    }

    /// Cancels a running turn; returns the response once it is durable. `None` if the turn has
    /// ended already.
    ///
    /// # Errors
    /// [`LogError::NotFound`] if the caller may see no such response; the log's own.
    pub async fn cancel(
        &self,
        caller: &Caller,
        id: ResponseId,
    ) -> Result<Option<Arc<ResponseState>>, LogError> {
        let access = parent::readable(caller);
        if self.log.retention().persistence_disabled() {
            return Err(LogError::PersistenceDisabled);
        }
        match self.running.cancel(&access, id).await {
            Some(record) => Ok(Some(record)),
            None => {
                self.log.response_record(&access, parent::session_of(id))?;
                Ok(None)
            }
        }
    }

    /// Deletes a stored response; returns once that is durable.
    ///
    /// # Errors
    /// As [`Service::response`].
    pub async fn delete(&self, caller: &Caller, id: ResponseId) -> Result<(), LogError> {
        let access = parent::readable(caller);
        self.log.delete(access, parent::session_of(id)).await?;
        self.parent_cache.forget(parent::session_of(id));
        self.forget_snapshot(id).await;
        Ok(())
    }

    /// Lists visible responses of one owner, or those without an owner: newest first, after the
    /// response `after`. Reads from the disk.
    ///
    /// # Errors
    /// [`LogError::NotFound`] if there is no response `after`; the log's own.
    pub fn list(
        &self,
        owner: Option<&str>,
        after: Option<ResponseId>,
        limit: usize,
    ) -> Result<Vec<Summary>, LogError> {
        listing::list(&self.log, owner, after, limit)
    }

    /// Accepts no more turns, lets running ones continue for `grace`, and then ends them.
    pub async fn shutdown(&self, grace: Duration) {
        let engines = self.models.iter().map(|model| model.engine.shutdown(grace));
        futures::future::join_all(engines).await;
    }
}
