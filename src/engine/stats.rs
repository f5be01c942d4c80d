//! The engine's counters.

use std::time::Duration;

use super::{LatencyHistogram, LengthHistogram};
use crate::cache::CacheStats;

/// A snapshot taken between two steps. Counters count from the start of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Sequences that hold key/value memory of their own.
    pub running: usize,
    /// Jobs that hold none: on their way to the engine's thread, not begun, or set aside until there
    /// is room again.
    pub waiting: usize,
    /// Bytes of that memory.
    pub kv_bytes: usize,
    /// Steps run.
    pub steps: u64,
    /// Tokens read as prompts, including those read again after a sequence lost its memory.
    pub prefilled_tokens: u64,
    /// Tokens at the beginnings of prompts that were taken from another sequence that was still
    /// running; part of those found in the cache.
    pub shared_tokens: u64,
    /// Tokens generated, end tokens included.
    pub generated_tokens: u64,
    /// Time that the model took for steps that read prompts, and may have decoded beside that.
    pub prefill_time: Duration,
    /// Time that the model took for steps that only decoded.
    pub decode_time: Duration,
    /// Drafted tokens that were run.
    pub drafted_tokens: u64,
    /// Drafted tokens that were accepted; each saved its sequence a step.
    pub accepted_tokens: u64,
    /// Recent time of a step for each token of prompts in it, in nanoseconds; 0 before the first.
    pub nanos_per_prefilled_token: u64,
    /// Times a sequence lost its key/value memory, or its prefix in the cache, to make room for
    /// others.
    pub preemptions: u64,
    /// Jobs that ended because they had waited too long.
    pub queue_timeouts: u64,
    /// From when a job was submitted to its first step, which a job that is not begun has not had.
    pub queue_times: LatencyHistogram,
    /// From when a job was submitted to the first token of its answer.
    pub first_token_times: LatencyHistogram,
    /// Each a step.
    pub step_times: LatencyHistogram,
    /// Prompts of jobs that have begun.
    pub prompt_lengths: LengthHistogram,
    /// Answers of jobs that have ended by themselves, without end tokens.
    pub answer_lengths: LengthHistogram,
    /// The prefix cache.
    pub cache: CacheStats,
}
