//! `cargo xtask setup`: MLX made ready, so that plain Cargo commands work afterwards.
//!
//! On macOS the crate `mlx-sys` builds MLX itself. On Linux it cannot; there the set-up takes the
//! libraries that MLX's project publishes on PyPI, builds mlx-c against them, and writes a Cargo
//! configuration that stands in for the build script of `mlx-sys`.

pub(crate) mod bindings;
mod blas;
mod cargo_config;
mod compiler;
mod linux;
mod macos;
mod mlx_c;
mod stamp;
mod wheels;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::project::Project;

/// Which of MLX's Linux builds to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Runs everywhere.
    Cpu,
    /// For NVIDIA's GPUs, with CUDA 12.
    #[value(name = "cuda-12")]
    Cuda12,
    /// For NVIDIA's GPUs, with CUDA 13.
    #[value(name = "cuda-13")]
    Cuda13,
}

impl Backend {
    /// The name as it is typed.
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda12 => "cuda-12",
            Self::Cuda13 => "cuda-13",
        }
    }
}

/// Makes MLX ready, or finds that it is. Without a choice of the backend an earlier one stays.
pub(crate) fn run(project: &Project, backend: Option<Backend>) -> Result<()> {
    match std::env::consts::OS {
        "linux" => linux::run(project, backend),
        "macos" => macos::check(),
        other => bail!("MLX runs on Linux and macOS, not on {other}"),
    }
}
