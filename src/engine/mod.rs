//! One thread that owns a model and all its arrays, and turns token ids into token ids.
//!
//! The engine knows no text, no JSON, no session and no HTTP.

pub mod job;

pub use job::{Finish, GeneratedToken, Job, TokenEvent};
