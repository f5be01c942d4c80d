//! `.cargo/mlx.toml`: what stands in for the build script of `mlx-sys`.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::project::Project;

/// Writes the file, unless it says the same already: Cargo rebuilds by what changes in it.
pub(super) fn write(project: &Project, home: &Path) -> Result<()> {
    let path = project.root().join(".cargo/mlx.toml");
    let wanted = text(std::env::consts::ARCH, home)?;
    if fs::read_to_string(&path).is_ok_and(|have| have == wanted) {
        return Ok(());
    }
    fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))
}

/// Cargo takes this for a crate with `links = "mlx"` instead of running its build script (The
/// Cargo Book, "Overriding build scripts"); `mlx-sys` includes `bindings.rs` from `OUT_DIR`.
fn text(architecture: &str, home: &Path) -> Result<String> {
    let home = home
        .to_str()
        .filter(|path| !path.contains(['\'', '\n']))
        .with_context(|| format!("Cargo cannot be told of a path like {}", home.display()))?;
    Ok(format!(
        "\
# Written by `cargo xtask setup`.
[target.{architecture}-unknown-linux-gnu.mlx]
rustc-link-lib = ['static=mlxc', 'dylib=mlx', 'dylib=stdc++']
rustc-link-search = ['native={home}/lib', 'native={home}/site/mlx/lib']

[target.{architecture}-unknown-linux-gnu.mlx.rustc-env]
OUT_DIR = '{home}/bindings'
"
    ))
}
