//! OpenBLAS instead of the reference BLAS and LAPACK in MLX's wheels.
//!
//! The reference BLAS multiplies matrices about fifty times slower. OpenBLAS from PyPI has a prefix on all
//! its symbols. So a small library exports the plain names and jumps to the prefixed ones. It has the file
//! names that MLX's library links to.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{compiler::Compiler, wheels};
use crate::{
    folder,
    process::{self, say},
    project::Project,
};

const OPENBLAS: &str = "libscipy_openblas.so";
const PREFIX: &str = "scipy_";
/// File in `.mlx/` that marks the reference BLAS, so that the next set-up tries to replace it.
const REFERENCE_MARK: &str = "reference-blas";

/// True if `home` still has the reference BLAS.
pub(super) fn is_reference(home: &Path) -> bool {
    home.join(REFERENCE_MARK).exists()
}

/// Replaces the libraries in `home/site`; on an error, warns that models on the CPU will be slow.
pub(super) fn replace_or_warn(
    project: &Project,
    compiler: &Compiler,
    home: &Path,
    downloads: &Path,
) -> Result<()> {
    let mark = home.join(REFERENCE_MARK);
    let replaced = wheels::openblas(project, downloads)
        .and_then(|openblas| replace(compiler, &home.join("site"), &openblas));
    let Err(error) = replaced else {
        if mark.exists() {
            fs::remove_file(&mark).with_context(|| format!("cannot remove {}", mark.display()))?;
        }
        return Ok(());
    };
    let warning = "WARNING: OpenBLAS could not replace the reference BLAS:";
    say(&format!("\n{warning}\n{error:#}"));
    say("Models on the CPU will run many times slower. `cargo xtask setup` tries again.\n");
    fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))
}

fn replace(compiler: &Compiler, site: &Path, openblas: &Path) -> Result<()> {
    let libraries = references(site)?;
    let names = names(site, &libraries, openblas)?;
    let folder = parent(&libraries[0])?;
    fs::copy(openblas, folder.join(OPENBLAS)).context("cannot copy OpenBLAS")?;
    let assembly = folder.join("openblas-names.s");
    fs::write(&assembly, jumps(std::env::consts::ARCH, &names)?)
        .with_context(|| format!("cannot write {}", assembly.display()))?;
    for library in &libraries {
        let new = library.with_extension("new");
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        process::run(
            compiler
                .command()
                .args(["-shared", "-nostdlib", "-Wl,-rpath,$ORIGIN", "-L"])
                .arg(folder)
                .arg(format!("-Wl,-soname,{name}"))
                .arg(&assembly)
                .arg(format!("-l:{OPENBLAS}"))
                .arg("-o")
                .arg(&new),
        )?;
        fs::rename(&new, library)
            .with_context(|| format!("cannot replace {}", library.display()))?;
    }
    fs::remove_file(&assembly).with_context(|| format!("cannot remove {}", assembly.display()))
}

/// Finds the reference libraries in the wheel: `mlx_cpu.libs/libblas-HASH.so.3.10.0` and LAPACK.
fn references(site: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in folder::files(site, "libs")? {
        for entry in fs::read_dir(&folder).context("cannot list the wheel's libraries")? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("libblas-") || name.starts_with("liblapack-") {
                found.push(path);
            }
        }
    }
    if found.len() != 2 {
        bail!(
            "the wheel of MLX holds {} reference libraries, not two",
            found.len()
        );
    }
    Ok(found)
}

/// Returns the functions that MLX imports from the reference libraries. OpenBLAS must have all of them.
fn names(site: &Path, references: &[PathBuf], openblas: &Path) -> Result<Vec<String>> {
    let mut offered = BTreeSet::new();
    for reference in references {
        offered.extend(symbols("--defined-only", reference)?);
    }
    let needed = symbols("--undefined-only", &site.join("mlx/lib/libmlx.so"))?;
    let names: Vec<String> = needed.intersection(&offered).cloned().collect();
    let available = symbols("--defined-only", openblas)?;
    let missing = names
        .iter()
        .find(|name| !available.contains(&format!("{PREFIX}{name}")));
    match missing {
        Some(name) => bail!("this OpenBLAS has no {name}"),
        None => Ok(names),
    }
}

/// Returns the dynamic symbols of a library, without their versions.
fn symbols(which: &str, library: &Path) -> Result<BTreeSet<String>> {
    let listed = process::output(
        Command::new("nm")
            .args(["--dynamic", "--format=posix", which])
            .arg(library),
    )
    .context("cannot list symbols; on Debian or Ubuntu type: sudo apt install binutils")?;
    Ok(listed
        .lines()
        .filter_map(|line| line.split([' ', '@']).next())
        .map(str::to_owned)
        .collect())
}

/// Returns the assembly of functions that only jump to the functions of the same name with the prefix.
fn jumps(architecture: &str, names: &[String]) -> Result<String> {
    let (jump, suffix) = match architecture {
        "x86_64" => ("jmp", "@PLT"),
        "aarch64" => ("b", ""),
        other => bail!("there is no jump instruction for {other}"),
    };
    let mut text = String::from(".section .note.GNU-stack,\"\",%progbits\n.text\n");
    for name in names {
        text += &format!(
            ".globl {name}\n.type {name}, %function\n{name}: {jump} {PREFIX}{name}{suffix}\n"
        );
    }
    Ok(text)
}

fn parent(path: &Path) -> Result<&Path> {
    path.parent()
        .with_context(|| format!("{} lies in no folder", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_jumps_to_its_prefixed_name() {
        let names = ["cblas_sgemm".to_owned(), "spotrf_".to_owned()];
        let x86 = jumps("x86_64", &names).expect("x86-64 is known");
        assert!(x86.contains(".globl spotrf_\n.type spotrf_, %function\n"));
        assert!(x86.contains("cblas_sgemm: jmp scipy_cblas_sgemm@PLT\n"));
        let arm = jumps("aarch64", &names).expect("aarch64 is known");
        assert!(arm.contains("spotrf_: b scipy_spotrf_\n"));
        assert!(jumps("riscv64", &names).is_err());
    }
}
