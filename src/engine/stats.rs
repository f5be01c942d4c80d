//! The engine's counters.

use std::time::Duration;

use super::{LatencyHistogram, LengthHistogram};
use crate::cache::CacheStats;

/// Gauges between two steps, and counters since the start of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Sequences that own KV pages.
    pub running: usize,
    /// Jobs without KV pages: queued, not started, or preempted.
    pub waiting: usize,
    /// Bytes of the KV pages that sequences own.
    pub kv_bytes: usize,
    /// Steps run.
    pub steps: u64,
    /// Prompt tokens prefilled, including recomputation after preemption.
    pub prefilled_tokens: u64,
    /// Prompt tokens taken from a running sequence's KV cache. They are included in the prefix
    /// cache hits.
    pub shared_tokens: u64,
    /// Tokens generated, EOS tokens included.
    pub generated_tokens: u64,
    /// Model time of steps with prefill, including decodes in the same step.
    pub prefill_time: Duration,
    /// Model time of decode-only steps.
    pub decode_time: Duration,
    /// Drafted tokens that were run.
    pub drafted_tokens: u64,
    /// Drafted tokens that were accepted; each saved its sequence a step.
    pub accepted_tokens: u64,
    /// Moving average of the step time for each prompt token in nanoseconds; 0 before the first
    /// measurement.
    pub nanos_per_prefilled_token: u64,
    /// Times that the scheduler took the KV pages of a sequence, or its pinned prefix, to make
    /// room.
    pub preemptions: u64,
    /// Jobs that ended with [`FinishReason::QueueTimeout`](super::FinishReason::QueueTimeout).
    pub queue_timeouts: u64,
    /// Queue time: from submission to the first step.
    pub queue_times: LatencyHistogram,
    /// Time to first token: from submission to the first generated token.
    pub first_token_times: LatencyHistogram,
    /// Time of each step.
    pub step_times: LatencyHistogram,
    /// Prompt lengths of started jobs.
    pub prompt_lengths: LengthHistogram,
    /// Generated tokens of finished jobs, without EOS tokens.
    pub answer_lengths: LengthHistogram,
    /// Prefix cache metrics.
    pub cache: CacheStats,
}
