//! Loading model files.

mod aliases;
mod damage;
mod dequantise;
mod folder;
mod gguf;
mod gguf_writer;
mod hub;
mod hub_server;
mod mlx;
