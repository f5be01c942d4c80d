//! HTTP: the route table, thin handlers, extractors, server-sent events and errors.

mod body;
mod error;
mod health;
mod intake;
mod models;
mod request_id;
mod responses;
mod router;
mod serve;
mod sse;
mod state;
mod stored;
mod unknown;

pub use router::router;
pub use serve::serve;
pub use state::{AppState, HttpOptions};
