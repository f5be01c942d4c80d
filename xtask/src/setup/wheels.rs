//! Wheels from PyPI, or from the index that the user's pip is configured for.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Backend;
use crate::{
    folder::{self, files},
    process,
    project::Project,
    python,
};

/// Unpacks MLX into `site`. A CUDA build also gets NVIDIA's libraries, in the folder where MLX loads them
/// from.
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
        // The wheel's metadata names NVIDIA's packages without hashes, so their integrity depends on the
        // index. Each package has hundreds of megabytes.
        process::run(
            python::pip()?
                .args(["download", "--only-binary=:all:", "--dest"])
                .arg(downloads)
                .args(files(downloads, "whl")?),
        )?;
    }
    unpack_all(downloads, site)
}

/// Downloads libclang and returns the folder of its library.
pub(super) fn libclang(project: &Project, downloads: &Path) -> Result<PathBuf> {
    let wheel = unpacked(project, "libclang", downloads)?;
    files(&wheel, "data")?
        .into_iter()
        .map(|data| data.join("platlib/clang/native"))
        .find(|folder| folder.is_dir())
        .context("the wheel libclang holds no library")
}

/// Downloads OpenBLAS and returns the path of its shared library. Its symbols have the prefix `scipy_`.
pub(super) fn openblas(project: &Project, downloads: &Path) -> Result<PathBuf> {
    Ok(unpacked(project, "openblas", downloads)?.join("scipy_openblas32/lib/libscipy_openblas.so"))
}

fn unpacked(project: &Project, name: &str, downloads: &Path) -> Result<PathBuf> {
    download(project, name, downloads)?;
    let folder = downloads.join("unpacked");
    unpack_all(downloads, &folder)?;
    Ok(folder)
}

/// Downloads the wheel that `xtask/wheels/NAME.txt` pins. pip checks its hash.
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
