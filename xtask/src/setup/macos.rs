//! The set-up on macOS: a check of the tools that the build of `mlx-sys` needs.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Checks for Apple's compilers, the Metal compiler and CMake. An error has the command that installs the
/// tool.
pub(super) fn check() -> Result<()> {
    let works = |program: &str, args: &[&str]| process::output(Command::new(program).args(args));
    works("xcode-select", &["-p"])
        .context("Apple's developer tools are missing; type: xcode-select --install")?;
    works("xcrun", &["--find", "metal"]).context(
        "the Metal compiler is missing; install Xcode, then type: \
         xcodebuild -downloadComponent MetalToolchain",
    )?;
    works("cmake", &["--version"]).context("CMake is missing; type: brew install cmake")?;
    Ok(())
}
