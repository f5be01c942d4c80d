//! `.cargo/mlx.toml`, which replaces the build script of `mlx-sys`.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::project::Project;

/// Writes the file, unless its content is the same already: Cargo rebuilds when the file changes.
pub(super) fn write(project: &Project, home: &Path) -> Result<()> {
    let path = project.root().join(".cargo/mlx.toml");
    let config = text(std::env::consts::ARCH, home)?;
    if fs::read_to_string(&path).is_ok_and(|written| written == config) {
        return Ok(());
    }
    fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the content of the file. Cargo uses it for the crate with `links = "mlx"` instead of running
/// the crate's build script (The Cargo Book, "Overriding build scripts"). `mlx-sys` includes
/// `bindings.rs` from `OUT_DIR`.
fn text(architecture: &str, home: &Path) -> Result<String> {
    let home = home
        .to_str()
        .filter(|path| !path.contains(['\'', '\n']))
        .with_context(|| {
            format!(
                "the Cargo configuration cannot hold the path {}",
                home.display()
            )
        })?;
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
