//! The engine: one thread that owns a model and all its arrays, and turns token ids into token ids.
//!
//! The engine knows no text, no JSON, no session and no HTTP. It batches continuously. Each step
//! decodes one token of every decoding sequence and prefills chunks of prompts. Sequences join and
//! leave between steps. An ended sequence leaves its KV cache in the prefix cache. Jobs that share
//! a prefix with a sequence in prefill wait for it and fork it.

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
