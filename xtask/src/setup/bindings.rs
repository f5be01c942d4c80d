//! Rust declarations of mlx-c's functions, as `mlx-sys` includes them.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{folder::files, process};

/// A replacement for half.h of mlx-c. The original knows 16-bit floats on ARM only, where it needs
/// headers of the compiler that libclang cannot read.
const HALF_TYPES: &str = "\
#define MLX_HALF_H
#define HAS_FLOAT16
#define HAS_BFLOAT16
typedef unsigned short float16_t;
typedef unsigned short bfloat16_t;
";

/// mlx-rs reads the bits of this one as a field, and those of `bfloat16_t` as a plain number.
const FLOAT16: &str = "\
#[repr(transparent)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct float16_t(pub u16);";

/// Writes the declarations with the libclang in a folder, unless the user names another one.
pub(super) fn write_with(
    libclang: &Path,
    mlx_c: &Path,
    builtin_headers: &Path,
    to: &Path,
) -> Result<()> {
    // bindgen finds libclang by this variable only, and one's own environment is not to be changed
    // safely: so this program runs itself.
    let libclang = env::var_os("LIBCLANG_PATH").unwrap_or_else(|| libclang.into());
    process::run(
        Command::new(env::current_exe()?)
            .arg("write-bindings")
            .args([mlx_c, builtin_headers, to])
            .env("LIBCLANG_PATH", libclang),
    )
}

/// Writes the declarations of all headers of mlx-c to `to`, with the libclang that the environment
/// names; `builtin_headers` holds the compiler's `stddef.h` and others.
pub(crate) fn write(mlx_c: &Path, builtin_headers: &Path, to: &Path) -> Result<()> {
    let includes: String = files(&mlx_c.join("mlx/c"), "h")?
        .iter()
        .map(|header| format!("#include \"{}\"\n", header.display()))
        .collect();
    let bindings = bindgen::Builder::default()
        .header_contents("all-of-mlx-c.h", &format!("{HALF_TYPES}{includes}"))
        .clang_arg(format!("-I{}", mlx_c.display()))
        .clang_arg(format!("-isystem{}", builtin_headers.display()))
        .blocklist_function("malloc")
        .blocklist_function("realloc")
        .blocklist_type("float16_t")
        .raw_line(FLOAT16)
        .formatter(bindgen::Formatter::None)
        .generate()
        .context("libclang cannot read the headers of mlx-c")?;
    bindings
        .write_to_file(to)
        .with_context(|| format!("cannot write {}", to.display()))
}
