//! A job, and the events that the engine reports for it.

use std::sync::Arc;

use crate::{
    cache::{CacheScope, PromptCacheKey, snapshot::RestorePlan},
    id::TokenId,
    sampling::{Constraint, Logprobs, Sampled, SamplingParams},
};

/// One generation.
#[derive(Debug)]
pub struct Job {
    /// The whole prompt, at least one token.
    pub prompt: Vec<TokenId>,
    /// Generation ends with [`Finish::MaxTokens`] after this many tokens, at least 1.
    pub max_new_tokens: usize,
    /// Sampling parameters.
    pub sampling: SamplingParams,
    /// The output constraint; `None` if unconstrained.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Tokens that end the answer; empty to ignore them.
    pub end_tokens: Arc<[TokenId]>,
    /// The scope of the cache entries that the job may reuse, and of the entry that it leaves.
    pub cache_scope: CacheScope,
    /// The group of cache entries that the job's entry belongs to.
    pub cache_key: Option<PromptCacheKey>,
    /// The beginning of the prompt in snapshots, if there are any of it.
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
        /// Tokens at the beginning of the prompt that are in key/value memory and will not be
        /// read. They are kept for the job; should running ones need all memory before it begins,
        /// it is read in full after all, as any that loses its memory.
        cached_tokens: usize,
        /// Number of cached tokens that were restored from snapshots for this job.
        restored_tokens: usize,
    },
    /// One more token of the answer; never an end token.
    Token(GeneratedToken),
    /// The last event.
    Finished(FinishReason),
}

/// A generated token.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedToken {
    /// The token.
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
    /// The model ended its answer with this token.
    EosToken(TokenId),
    /// `max_new_tokens` were generated.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The engine was told to stop.
    Cancelled,
    /// No step had room for it in the time that a job may wait.
    QueueTimeout,
    /// The device failed; the text is for the operator.
    Failed(String),
}
