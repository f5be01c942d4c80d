//! The set-up on Linux: MLX from wheels, and mlx-c from the sources in `mlx-sys`.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{Backend, bindings, blas, cargo_config, compiler::Compiler, mlx_c, stamp, wheels};
use crate::{
    folder,
    process::{self, say},
    project::Project,
    python,
};

/// Creates `.mlx/` and `.cargo/mlx.toml`. The folder appears only when it is complete, so an interrupted
/// set-up starts again. A lock file serialises concurrent set-ups.
pub(super) fn run(project: &Project, backend: Option<Backend>) -> Result<()> {
    if !cfg!(target_env = "gnu") {
        bail!("MLX's Linux builds need glibc: use a Rust toolchain for *-unknown-linux-gnu");
    }
    let _lock = lock(&project.state()?.join("setup.lock"))?;
    let home = project.mlx();
    let backend = backend
        .or_else(|| stamp::backend(&home))
        .unwrap_or(Backend::Cpu);
    let stamp = stamp::current(project, backend)?;
    if stamp::read(&home).is_none_or(|earlier| earlier != stamp) {
        let work = project.state()?.join("mlx");
        build(project, backend, &work)?;
        stamp::write(&work, &stamp)?;
        adopt(&work, &home)?;
        say("MLX is ready");
    } else if blas::is_reference(&home) {
        let work = project.state()?.join("blas");
        folder::empty(&work)?;
        blas::replace_or_warn(project, &Compiler::find()?, &home, &work)?;
    }
    cargo_config::write(project, &home)
}

fn build(project: &Project, backend: Backend, work: &Path) -> Result<()> {
    python::pip()?;
    let compiler = Compiler::find()?;
    folder::empty(work)?;
    for name in ["site", "lib", "bindings"] {
        folder::create(&work.join(name))?;
    }
    let downloads = work.join("downloads");
    let site = work.join("site");
    say(&format!("MLX for {} from PyPI", backend.name()));
    wheels::mlx(project, backend, &downloads.join("mlx"), &site)?;
    blas::replace_or_warn(project, &compiler, work, &downloads.join("openblas"))?;
    check_loading(&site)?;

    let sources = mlx_c::sources(project)?;
    say("mlx-c: compiling, a minute or two");
    mlx_c::compile(project, &sources, work)?;
    let libclang = wheels::libclang(project, &downloads.join("libclang"))?;
    say("mlx-c: Rust declarations");
    bindings::write_with(
        &libclang,
        &sources,
        &compiler.builtin_headers()?,
        &work.join("bindings/bindings.rs"),
    )?;
    folder::remove(&downloads)
}

/// Loads MLX with every symbol resolved, so that an error names what this machine lacks.
fn check_loading(site: &Path) -> Result<()> {
    let load = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)";
    process::output(
        Command::new("python3")
            .args(["-c", load])
            .arg(site.join("mlx/lib/libmlx.so")),
    )
    .context("MLX's library does not load (a CUDA build needs NVIDIA's driver)")
    .map(drop)
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Replaces an earlier `home` by the finished folder.
fn adopt(work: &Path, home: &Path) -> Result<()> {
    let old = work.with_extension("old");
    folder::remove(&old)?;
    if home.exists() {
        fs::rename(home, &old).with_context(|| format!("cannot move {}", home.display()))?;
    }
    fs::rename(work, home).with_context(|| format!("cannot create {}", home.display()))?;
    folder::remove(&old)
}
