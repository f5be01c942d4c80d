//! stemma: a durable session-log server for language models.
//!
//! Modules are listed from the bottom of the layering to the top; a module imports only from those
//! above it in this list. docs/architecture.md describes the whole, tests/tidy.rs checks it.

pub mod allocator;
pub mod clock;
pub mod id;
pub mod limits;
pub mod lock;
pub mod weighted_lru;

pub mod wire;

pub mod conversation;

pub mod tokenizer;

pub mod template;

pub mod output_parser;

pub mod translate;

pub mod auth;

pub mod sampling;

pub mod grammar;

pub mod session;

pub mod load;

pub mod model;

pub mod cache;

pub mod engine;

pub mod responses;

pub mod http;

pub mod cli;

pub mod telemetry;

pub mod config;

pub mod app;
