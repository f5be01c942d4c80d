//! Between the JSON of the APIs and the domain; pure functions only.

pub mod chat;
pub mod completions;
mod format;
pub mod inbound;
pub mod json_limits;
mod logprobs;
pub mod outbound;
pub mod pagination;
pub mod parse;
pub mod request_error;
pub mod stream;

pub mod chunk_encoder;
pub mod log_codec;
#[cfg(test)]
mod sample;

pub use request_error::{Code, RequestError};
