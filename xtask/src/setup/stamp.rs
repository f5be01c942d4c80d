//! The note inside `.mlx/` of what it was made from: equal notes mean that nothing is to do.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

use super::Backend;
use crate::project::Project;

/// Everything in this crate that decides what `.mlx/` holds.
const INGREDIENTS: [&str; 11] = [
    include_str!("bindings.rs"),
    include_str!("blas.rs"),
    include_str!("compiler.rs"),
    include_str!("mlx_c.rs"),
    include_str!("../../native/clock.cpp"),
    include_str!("../../native/prelude.hpp"),
    include_str!("../../wheels/libclang.txt"),
    include_str!("../../wheels/mlx-cpu.txt"),
    include_str!("../../wheels/mlx-cuda-12.txt"),
    include_str!("../../wheels/mlx-cuda-13.txt"),
    include_str!("../../wheels/openblas.txt"),
];

const FILE: &str = "stamp";

/// The note that a finished set-up of now would leave.
pub(super) fn wanted(project: &Project, backend: Backend) -> Result<String> {
    let mut hash = Sha256::new();
    for ingredient in INGREDIENTS {
        hash.update(ingredient);
    }
    let hash: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mlx_sys = locked_mlx_sys(&project.root().join("Cargo.lock"))?;
    Ok(format!("{}\n{hash}\n{mlx_sys}\n", backend.name()))
}

/// The note in `home`, if there is one.
pub(super) fn read(home: &Path) -> Option<String> {
    fs::read_to_string(home.join(FILE)).ok()
}

/// The backend that `home` was made with.
pub(super) fn backend(home: &Path) -> Option<Backend> {
    Backend::from_str(read(home)?.lines().next()?, false).ok()
}

/// Leaves the note in `home`.
pub(super) fn write(home: &Path, stamp: &str) -> Result<()> {
    let path = home.join(FILE);
    fs::write(&path, stamp).with_context(|| format!("cannot write {}", path.display()))
}

/// Version and checksum of `mlx-sys`, as Cargo.lock lists them.
fn locked_mlx_sys(lock: &Path) -> Result<String> {
    let text =
        fs::read_to_string(lock).with_context(|| format!("cannot read {}", lock.display()))?;
    text.split("[[package]]")
        .find(|package| package.contains("name = \"mlx-sys\""))
        .map(|package| package.split_whitespace().collect())
        .with_context(|| format!("{} lists no mlx-sys", lock.display()))
}
