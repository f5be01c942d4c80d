//! The state of a response, from its start to its end.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Output, OutputItem, TokenLogprobs, Turn};
use crate::id::ResponseId;

/// A response, as far as it has come.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseState {
    /// Its name.
    pub id: ResponseId,
    /// Time of the request.
    pub created_at: Timestamp,
    /// When it ended, if it completed.
    pub completed_at: Option<Timestamp>,
    /// The model that answers.
    pub model: String,
    /// The request.
    pub turn: Arc<Turn>,
    /// The sampling parameters in effect: the request's, else the model's defaults.
    pub sampling: EffectiveSampling,
    /// The status.
    pub status: Status,
    /// The items of the answer; empty until it ended.
    pub output: Vec<OutputItem>,
    /// Token counts; `None` until the response ended.
    pub usage: Option<Usage>,
}

impl ResponseState {
    /// The contents of its items.
    pub fn contents(&self) -> impl Iterator<Item = &Output> {
        self.output.iter().map(|item| &item.content)
    }

    /// Returns the log probabilities of all messages' tokens, if the request asked for them.
    pub fn logprobs(&self) -> Option<impl Iterator<Item = &TokenLogprobs>> {
        self.turn.sampling.logprobs?;
        Some(self.output.iter().flat_map(|item| &item.logprobs))
    }
}

/// The sampling settings that a response shows, in effect.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "see `SamplingWishes`")]
pub struct EffectiveSampling {
    pub temperature: f64,
    pub top_p: f64,
    pub presence_penalty: f64,
    pub frequency_penalty: f64,
}

/// The status of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It is being generated.
    InProgress,
    /// The model ended its answer, or a stop text did.
    Completed,
    /// The answer was cut because it reached the most tokens allowed or the end of the context.
    Incomplete,
    /// Somebody cancelled it.
    Cancelled,
    /// Something broke.
    Failed(Failure),
}

/// The reason of a failure, without details for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The model's device or the server's own code broke.
    Server,
    /// The server was told to stop.
    ShuttingDown,
    /// The response could not be stored.
    Storage,
    /// The model had no time for it while it might wait.
    QueueTimeout,
}

/// Token counts of one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the prompt that came from the prefix cache.
    pub cached_tokens: u64,
    /// Tokens of the prompt that were added to the prefix cache.
    pub cache_write_tokens: u64,
    /// Tokens generated.
    pub output_tokens: u64,
    /// Output tokens that are reasoning.
    pub reasoning_tokens: u64,
}
