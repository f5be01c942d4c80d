//! Integration tests through the real router, with the scripted engine and with real models.

mod durability;
mod load;
mod models;
mod render;
mod tidy;
mod tokenizer;
