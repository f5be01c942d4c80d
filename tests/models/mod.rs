//! Models through the MLX executor: logits against mlx-lm, batching, forking, and damaged files.

mod batching;
mod damaged;
mod files;
mod golden;
mod real;
mod running;
