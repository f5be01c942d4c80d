//! What is asked of the engine and what it reports back.

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
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// What keeps the answer to a form.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Tokens that end the answer; empty to ignore them.
    pub end_tokens: Arc<[TokenId]>,
    /// Whose key/value memories it may begin with, and who may reuse its own.
    pub cache_scope: CacheScope,
    /// Whose memories, within the scope, are kept together with its own.
    pub cache_key: Option<PromptCacheKey>,
    /// The beginning of the prompt in snapshots, if there are any of it.
    pub restore: Option<RestorePlan>,
}

/// What a job reports, in this order: `Accepted`, `Token`…, `Finished`. Only an engine that ends
/// before it has taken the job in reports `Finished` alone.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenEvent {
    /// The engine has the job and knows what it begins with. Comes at once, however long the job
    /// waits then, unless another of its scope is reading a long beginning that both share, or its
    /// beginning is read from snapshots: then as soon as that is read.
    Accepted {
        /// Tokens at the beginning of the prompt that are in key/value memory and will not be
        /// read. They are kept for the job; should running ones need all memory before it begins,
        /// it is read in full after all, as any that loses its memory.
        cached_tokens: usize,
        /// How many of them were read from snapshots for it.
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
    /// Which token.
    pub id: TokenId,
    /// How likely it was, if that is asked for.
    pub logprobs: Option<Logprobs>,
}

impl From<Sampled> for GeneratedToken {
    fn from(Sampled { id, logprobs }: Sampled) -> Self {
        Self { id, logprobs }
    }
}

/// How a job ended.
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
