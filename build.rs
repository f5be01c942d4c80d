//! Tells programs where MLX's shared library lies when they run on Linux.

use std::{env, path::Path};

/// The path is a link argument of this package, not a rustflag in `.cargo/mlx.toml`: rustflags
/// there are dropped whenever `RUSTFLAGS` is set, and changing them rebuilds every dependency.
/// A link argument reaches the binary, the tests, the examples and the benchmarks alike.
fn main() {
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
        let libraries = Path::new(&root).join(".mlx/site/mlx/lib");
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", libraries.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
}
