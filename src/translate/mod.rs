//! Between the JSON of the APIs and the domain; pure functions only.

pub mod chat;
pub mod choices;
pub mod completions;
mod format;
pub mod inbound;
mod logprobs;
pub mod outbound;
pub mod page;
pub mod parse;
pub mod refusal;
pub mod scan;
pub mod stored;
pub mod stream;

#[cfg(test)]
mod sample;

pub use refusal::{Code, Refusal};
