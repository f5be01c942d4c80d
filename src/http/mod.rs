//! HTTP: the route table, thin handlers, extractors, server-sent events and errors.

mod admin;
mod auth;
mod body;
mod browser;
mod chat;
mod choices;
mod completions;
mod error;
mod health;
mod intake;
mod metrics;
mod models;
mod openapi;
mod rates;
mod request_id;
mod responses;
mod router;
mod serve;
mod skipped;
mod sse;
mod state;
mod stored;
mod tls;
mod unknown;

pub use router::router;
pub use serve::serve;
pub use state::{AppState, HttpOptions};
pub use tls::{Tls, TlsError, TlsFiles};
