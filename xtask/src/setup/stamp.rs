//! The stamp file in `.mlx/`: a hash of everything that the folder was built from. The set-up is skipped
//! if the stamp is current.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

use super::Backend;
use crate::project::Project;

/// Files of this crate that determine the content of `.mlx/`.
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

/// Returns the stamp of a set-up with the current sources.
pub(super) fn current(project: &Project, backend: Backend) -> Result<String> {
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

/// Reads the stamp of `home`; `None` if it is missing.
pub(super) fn read(home: &Path) -> Option<String> {
    fs::read_to_string(home.join(FILE)).ok()
}

/// Returns the backend that `home` was built with; `None` if there is no stamp.
pub(super) fn backend(home: &Path) -> Option<Backend> {
    Backend::from_str(read(home)?.lines().next()?, false).ok()
}

/// Writes the stamp of `home`.
pub(super) fn write(home: &Path, stamp: &str) -> Result<()> {
    let path = home.join(FILE);
    fs::write(&path, stamp).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns version and checksum of `mlx-sys` from Cargo.lock.
fn locked_mlx_sys(lock: &Path) -> Result<String> {
    let text =
        fs::read_to_string(lock).with_context(|| format!("cannot read {}", lock.display()))?;
    text.split("[[package]]")
        .find(|package| package.contains("name = \"mlx-sys\""))
        .map(|package| package.split_whitespace().collect())
        .with_context(|| format!("{} lists no mlx-sys", lock.display()))
}
