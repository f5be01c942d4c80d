//! The engine's bounds.

use std::time::Duration;

/// Limits and features of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Maximum number of sequences in a step, at least 1.
    pub running_max: usize,
    /// Maximum number of further jobs in the queue. Beyond them the engine rejects jobs.
    pub waiting_max: usize,
    /// Maximum time that a job waits for its first step. Then the job ends with
    /// [`FinishReason::QueueTimeout`](super::FinishReason::QueueTimeout). `None` for no limit.
    pub queue_timeout: Option<Duration>,
    /// Prefill budget: maximum prompt tokens in a step, at least 1.
    pub step_prefill_tokens_max: usize,
    /// The longest time, about, that a prefill chunk may delay decoding sequences; chunks shrink
    /// accordingly. `None`: chunks have their full size.
    pub decode_stall_max: Option<Duration>,
    /// KV budget in bytes, for all sequences and the prefix cache. Sequences have priority. The
    /// budget also limits the context length if a full sequence would exceed it.
    pub kv_bytes_max: usize,
    /// Part of the KV budget that the prefix cache may use; 0 disables the cache.
    pub cache_bytes_max: usize,
    /// Events buffered for a slow consumer, at least
    /// [`EVENTS_BUFFERED_MIN`](Self::EVENTS_BUFFERED_MIN). A full buffer pauses the sequence.
    pub events_buffered_max: usize,
    /// The drafting method, which lets one step decode several tokens.
    pub speculation: Speculation,
}

/// Drafting methods. Drafts never change an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speculation {
    /// No drafts.
    #[default]
    Off,
    /// Drafts what followed the same n-gram before, in the prompt or the answer.
    Ngram,
}

impl EngineOptions {
    /// Minimum of [`events_buffered_max`](Self::events_buffered_max): `Accepted`, and the events of
    /// one step without drafts.
    pub const EVENTS_BUFFERED_MIN: usize = 1 + Self::STEP_EVENTS_MAX;

    /// Events that one step can report for one sequence: `Token` and `Finished`. Each drafted token
    /// is one more `Token`; drafts are not run without room for it.
    pub(super) const STEP_EVENTS_MAX: usize = 2;

    /// Checks the options; the error says which are wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let within =
            |name: &str, value: usize, min: usize| match (min..=PLACES_MAX).contains(&value) {
                true => Ok(()),
                false => Err(format!(
                    "{name} is {value}, but must be from {min} to {PLACES_MAX}"
                )),
            };
        within("running_max", self.running_max, 1)?;
        within("waiting_max", self.waiting_max, 0)?;
        within(
            "events_buffered_max",
            self.events_buffered_max,
            Self::EVENTS_BUFFERED_MIN,
        )?;
        match self.step_prefill_tokens_max {
            0 => Err("step_prefill_tokens_max is 0, but must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }
}

/// More jobs or events than any machine serves at once, few enough to allocate their channels.
const PLACES_MAX: usize = 1 << 16;

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            running_max: 16,
            waiting_max: 64,
            queue_timeout: None,
            step_prefill_tokens_max: 512,
            decode_stall_max: None,
            kv_bytes_max: 4 << 30,
            cache_bytes_max: 4 << 30,
            events_buffered_max: 64,
            speculation: Speculation::Off,
        }
    }
}
