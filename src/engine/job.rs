//! A job, and the events that the engine reports for it.

use std::sync::Arc;

use crate::{
    cache::{CacheScope, PromptCacheKey, snapshot::RestorePlan},
    id::TokenId,
    sampling::{Constraint, Logprobs, Sampled, SamplingParams},
};

/// Generation job.
#[derive(Debug)]
pub struct Job {
    /// All prompt tokens, at least one.
    pub prompt: Vec<TokenId>,
    /// Maximum number of generated tokens, at least 1. Then the job ends with
    /// [`FinishReason::MaxTokens`].
    pub max_new_tokens: usize,
    /// Sampling parameters.
    pub sampling: SamplingParams,
    /// The output constraint; `None` if unconstrained.
    pub constraint: Option<Box<dyn Constraint>>,
    /// EOS tokens; empty to ignore them.
    pub end_tokens: Arc<[TokenId]>,
    /// The scope of the cache entries that the job may reuse, and of the entry that it leaves.
    pub cache_scope: CacheScope,
    /// The group of cache entries that the job's entry belongs to.
    pub cache_key: Option<PromptCacheKey>,
    /// Snapshots that hold a prefix of the prompt; `None` if there are none.
    pub restore: Option<RestorePlan>,
}

/// The events of a job, in this order: `Accepted`, `Token`…, `Finished`. An engine that stops
/// before it accepts the job sends `Finished` alone.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenEvent {
    /// The engine accepted the job and knows its cached prefix. This event comes at once, also if
    /// the job then waits in the queue. It comes later if another job of its scope is prefilling a
    /// long shared prefix, or if the prefix is restored from snapshots.
    Accepted {
        /// Prompt tokens in the KV cache, which need no prefill. They are pinned for the job. If
        /// running sequences need the KV pages first, the scheduler preempts the prefix and
        /// recomputes it later.
        cached_tokens: usize,
        /// Number of cached tokens that were restored from snapshots for this job.
        restored_tokens: usize,
    },
    /// Generated token; never an EOS token.
    Token(GeneratedToken),
    /// Last event.
    Finished(FinishReason),
}

/// Generated token.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedToken {
    /// Token id.
    pub id: TokenId,
    /// Its log probability and the top ones, if the job asked for them.
    pub logprobs: Option<Logprobs>,
}

impl From<Sampled> for GeneratedToken {
    fn from(Sampled { id, logprobs }: Sampled) -> Self {
        Self { id, logprobs }
    }
}

/// The reason why a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    /// The model generated this EOS token.
    EosToken(TokenId),
    /// The job generated `max_new_tokens`.
    MaxTokens,
    /// The sequence fills the context.
    ContextFull,
    /// The engine was shut down.
    Cancelled,
    /// The job got no step within
    /// [`EngineOptions::queue_timeout`](super::EngineOptions::queue_timeout).
    QueueTimeout,
    /// The executor failed; the text is for the operator.
    Failed(String),
}
