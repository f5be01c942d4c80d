//! Integration tests through the real router, with the scripted engine and with real models.

mod api;
mod auth;
mod clients;
mod durability;
mod load;
mod models;
mod render;
mod state;
mod support;
mod tidy;
mod tokenizer;
mod tools;
