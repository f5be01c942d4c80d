//! Sampling parameters of a job.

use std::sync::Arc;

use crate::id::TokenId;

/// Sampling parameters. All values are in range: `translate` checked them.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy.
    pub temperature: f32,
    /// Smallest set of tokens whose probabilities reach this; 1 keeps all.
    pub top_p: f32,
    /// Number of most likely tokens kept; 0 keeps all.
    pub top_k: u32,
    /// Tokens below this fraction of the best one's probability are dropped; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens already seen; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens already generated.
    pub presence_penalty: f32,
    /// Subtracted from the logits of tokens already generated, once for each time.
    pub frequency_penalty: f32,
    /// Added to single tokens' logits.
    pub logit_bias: Arc<[(TokenId, f32)]>,
    /// Seed: decides every random number together with a token's position.
    pub seed: u64,
    /// Number of top log probabilities to report, at most 20; `None` reports no log probabilities.
    pub logprobs: Option<u8>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Arc::new([]),
            seed: 0,
            logprobs: None,
        }
    }
}
