//! mlx-c, the C API of MLX. The crate `mlx-sys` contains its sources.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::compiler;
use crate::{folder, project::Project};

/// Returns the folder of mlx-c in the crate, which Cargo has downloaded and verified.
pub(super) fn sources(project: &Project) -> Result<PathBuf> {
    let metadata = project.metadata(true)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "mlx-sys")
        .and_then(|package| package["manifest_path"].as_str())
        .context("cargo metadata lists no mlx-sys")?;
    let sources = Path::new(manifest).with_file_name("src").join("mlx-c");
    if !sources.join("mlx/c/array.cpp").is_file() {
        anyhow::bail!("mlx-sys holds no mlx-c at {}", sources.display());
    }
    Ok(sources)
}

/// Compiles mlx-c with the MLX in `work/site` to `work/lib/libmlxc.a`.
pub(super) fn compile(project: &Project, sources: &Path, work: &Path) -> Result<()> {
    let native = project.root().join("xtask/native");
    let lib = work.join("lib");
    let objects = work.join("objects");
    folder::create(&objects)?;
    compiler::build()
        .include(sources)
        .include(work.join("site/mlx/include"))
        .flag("-include")
        .flag(native.join("prelude.hpp"))
        .files(folder::files(&sources.join("mlx/c"), "cpp")?)
        .file(native.join("clock.cpp"))
        .out_dir(&objects)
        .try_compile("mlxc")
        .context("cannot compile mlx-c")?;
    fs::rename(objects.join("libmlxc.a"), lib.join("libmlxc.a"))
        .context("compiling mlx-c made no library")?;
    folder::remove(&objects)
}
