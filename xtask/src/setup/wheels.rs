//! Wheels from PyPI, or from wherever the user's pip is set to look.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Backend;
use crate::{
    folder::{self, files},
    process,
    project::Project,
    python,
};

/// Unpacks MLX into `site`, and for CUDA NVIDIA's libraries beside it, where MLX looks for them.
pub(super) fn mlx(
    project: &Project,
    backend: Backend,
    downloads: &Path,
    site: &Path,
) -> Result<()> {
    let name = format!("mlx-{}", backend.name());
    download(project, &name, downloads).with_context(|| {
        format!("cannot get {name}, which needs Linux with glibc 2.35 or newer, as in Debian 12")
    })?;
    if backend != Backend::Cpu {
        // NVIDIA's packages are hundreds of megabytes each and named by the wheel itself, without
        // hashes; the index vouches for them.
        process::run(
            python::pip()?
                .args(["download", "--only-binary=:all:", "--dest"])
                .arg(downloads)
                .args(files(downloads, "whl")?),
        )?;
    }
    unpack_all(downloads, site)
}

/// Fetches libclang and gives the folder of its library.
pub(super) fn libclang(project: &Project, downloads: &Path) -> Result<PathBuf> {
    let wheel = unpacked(project, "libclang", downloads)?;
    files(&wheel, "data")?
        .into_iter()
        .map(|data| data.join("platlib/clang/native"))
        .find(|folder| folder.is_dir())
        .context("the wheel libclang holds no library")
}

/// Fetches OpenBLAS and gives its shared library, whose symbols carry the prefix `scipy_`.
pub(super) fn openblas(project: &Project, downloads: &Path) -> Result<PathBuf> {
    Ok(unpacked(project, "openblas", downloads)?.join("scipy_openblas32/lib/libscipy_openblas.so"))
}

fn unpacked(project: &Project, name: &str, downloads: &Path) -> Result<PathBuf> {
    download(project, name, downloads)?;
    let folder = downloads.join("unpacked");
    unpack_all(downloads, &folder)?;
    Ok(folder)
}

/// Downloads the wheel that `xtask/wheels/NAME.txt` pins; pip checks its hash.
fn download(project: &Project, name: &str, downloads: &Path) -> Result<()> {
    folder::create(downloads)?;
    let pins = project
        .root()
        .join("xtask/wheels")
        .join(name)
        .with_extension("txt");
    process::run(
        python::pip()?
            .args([
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
            ])
            .arg("--dest")
            .arg(downloads)
            .arg("--requirement")
            .arg(pins),
    )
}

fn unpack_all(downloads: &Path, folder: &Path) -> Result<()> {
    for wheel in files(downloads, "whl")? {
        python::unpack(&wheel, folder)?;
    }
    Ok(())
}
