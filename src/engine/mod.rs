//! One thread that owns a model and all its arrays, and turns token ids into token ids.
//!
//! The engine knows no text, no JSON, no session and no HTTP. Sequences are batched continuously:
//! each step runs one token of every sequence that decodes and chunks of the prompts that are still
//! read, and sequences join and leave between steps. What a sequence leaves behind in key/value memory
//! goes into the prefix cache, for prompts that begin like it; those that come meanwhile wait for it.

mod admission;
mod handle;
mod histogram;
mod job;
mod options;
mod scheduler;
mod sequence;
mod stats;
mod step;
mod thread;

#[cfg(any(test, feature = "scripted"))]
pub mod scripted;

mod ngram_draft;
mod prefix_sharing;
#[cfg(test)]
mod tests;
mod token_stream;

pub use handle::{EngineHandle, SubmitError};
pub use histogram::{Histogram, LatencyHistogram, LengthHistogram};
pub use job::{FinishReason, GeneratedToken, Job, TokenEvent};
pub use options::{EngineOptions, Speculation};
pub use stats::EngineStats;
pub use thread::start;
pub use token_stream::TokenStream;
