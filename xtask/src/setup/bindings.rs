//! Rust declarations of mlx-c's functions, as `mlx-sys` includes them.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{folder::files, process};

/// Replacement of mlx-c's half.h. The original declares 16-bit floats on ARM only, and there includes
/// compiler headers that libclang cannot read.
const HALF_TYPES: &str = "\
#define MLX_HALF_H
#define HAS_FLOAT16
#define HAS_BFLOAT16
typedef unsigned short float16_t;
typedef unsigned short bfloat16_t;
";

/// `float16_t` as mlx-rs uses it: the bits are a field. `bfloat16_t` is a plain number instead.
const FLOAT16: &str = "\
#[repr(transparent)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct float16_t(pub u16);";

/// Writes the declarations with the libclang in a folder, or with that in `LIBCLANG_PATH`.
pub(super) fn write_with(
    libclang: &Path,
    mlx_c: &Path,
    builtin_headers: &Path,
    to: &Path,
) -> Result<()> {
    // bindgen finds libclang only by this environment variable. A process cannot change its own
    // environment safely, so this program runs itself.
    let libclang = env::var_os("LIBCLANG_PATH").unwrap_or_else(|| libclang.into());
    process::run(
        Command::new(env::current_exe()?)
            .arg("write-bindings")
            .args([mlx_c, builtin_headers, to])
            .env("LIBCLANG_PATH", libclang),
    )
}

/// Writes the declarations of all headers of mlx-c to `to`, with the libclang in `LIBCLANG_PATH`.
/// `builtin_headers` is the folder of the compiler's `stddef.h`.
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
