//! Models through both executors: logits against mlx-lm, batching, forking, reuse, and
//! damaged files.

mod allocations;
mod batching;
mod damaged;
mod devices;
mod files;
mod frozen;
mod golden;
mod perplexity;
#[path = "../../benches/engine/quality.rs"]
mod quality;
mod real;
mod reuse;
mod running;
mod speculation;
