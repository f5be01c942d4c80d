//! Models through the MLX executor: logits against mlx-lm, batching, forking, reuse, and
//! damaged files.

mod batching;
mod damaged;
mod files;
mod golden;
mod real;
mod reuse;
mod running;
