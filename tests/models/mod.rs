//! Models through both executors: logits against mlx-lm, batching, forking, reuse, and
//! damaged files.

mod allocations;
mod batching;
#[path = "../../benches/engine/perplexity.rs"]
mod compute_perplexity;
mod damaged;
mod devices;
mod files;
mod frozen;
mod golden;
mod perplexity;
mod real;
mod reuse;
mod running;
mod speculation;
