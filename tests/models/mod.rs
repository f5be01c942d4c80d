//! Models through both executors: logits against mlx-lm, batching, forking, reuse, and
//! damaged files.

mod allocations;
mod batching;
#[path = "../../benches/engine/perplexity.rs"]
mod compute_perplexity;
mod damaged;
mod devices;
mod files;
mod golden;
mod kv_export;
mod perplexity;
mod prefix_cache;
mod real;
mod running;
mod speculation;
