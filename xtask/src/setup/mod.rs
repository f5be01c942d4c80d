//! `cargo xtask setup`: prepares MLX, so that plain Cargo commands work afterwards.
//!
//! On macOS the crate `mlx-sys` builds MLX itself. On Linux it cannot. There the set-up downloads MLX's
//! libraries from PyPI and builds mlx-c against them. A Cargo configuration then replaces the build script
//! of `mlx-sys`.

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

/// An MLX build for Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// For the CPU only.
    Cpu,
    /// For NVIDIA's GPUs, with CUDA 12.
    #[value(name = "cuda-12")]
    Cuda12,
    /// For NVIDIA's GPUs, with CUDA 13.
    #[value(name = "cuda-13")]
    Cuda13,
}

impl Backend {
    /// Returns the name on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda12 => "cuda-12",
            Self::Cuda13 => "cuda-13",
        }
    }
}

/// Prepares MLX, unless it is ready. Without a backend, keeps that of the earlier set-up.
pub(crate) fn run(project: &Project, backend: Option<Backend>) -> Result<()> {
    match std::env::consts::OS {
        "linux" => linux::run(project, backend),
        "macos" => macos::check(),
        other => bail!("MLX runs on Linux and macOS, not on {other}"),
    }
}
