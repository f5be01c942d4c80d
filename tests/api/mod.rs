//! The HTTP contract, on scripted models.

mod bodies;
mod cancel;
mod chat;
mod completions;
mod create;
mod endings;
mod logprobs;
mod metrics;
mod openapi;
mod refusals;
mod routes;
mod stopping;
mod stream;
mod structured;
mod thinking;
