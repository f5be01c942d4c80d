//! HTTP: the route table, thin handlers, extractors, server-sent events and errors.

mod admin;
mod auth;
mod body;
mod body_limit;
mod chat;
mod completions;
mod error;
mod health;
mod metrics;
mod models;
mod multi_choice;
mod openapi;
mod origin_guard;
mod rate_limit_headers;
mod request_id;
mod responses;
mod router;
mod serve;
mod skipped_tools;
mod sse;
mod state;
mod stored_responses;
mod tls;
mod unknown_fields;

pub use router::router;
pub use serve::serve;
pub use state::{AppState, HttpOptions};
pub use tls::{Tls, TlsError, TlsFiles};
