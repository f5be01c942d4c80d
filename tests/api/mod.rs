//! The HTTP contract, on scripted models.

mod bodies;
mod cancel;
mod chat;
mod completions;
mod create;
mod disconnects;
mod finish_reasons;
mod logprobs;
mod metrics;
mod openapi;
mod reasoning;
mod request_errors;
mod routes;
mod stream;
mod structured;
