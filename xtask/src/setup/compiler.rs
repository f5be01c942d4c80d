//! The machine's C++ compiler and its headers.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::process;

const NO_COMPILER: &str = "the set-up needs a C++ compiler, `c++` or the value of CXX; on Debian or \
    Ubuntu type: sudo apt install g++";

/// A C++ compiler.
#[derive(Debug)]
pub(super) struct Compiler(cc::Tool);

impl Compiler {
    /// Finds the compiler: the value of `CXX`, or else `c++`.
    pub(super) fn find() -> Result<Self> {
        let tool = build().try_get_compiler().context(NO_COMPILER)?;
        process::output(Command::new(tool.path()).arg("--version")).context(NO_COMPILER)?;
        Ok(Self(tool))
    }

    /// Returns a command that runs the compiler with the flags for this machine.
    pub(super) fn command(&self) -> Command {
        self.0.to_command()
    }

    /// Returns the folder of the compiler's own headers, such as `stddef.h`.
    pub(super) fn builtin_headers(&self) -> Result<PathBuf> {
        let path = process::output(Command::new(self.0.path()).arg("-print-file-name=include"))?;
        Ok(PathBuf::from(path.trim()))
    }
}

/// Returns a build of optimised C++20 for this machine. It works outside of a build script.
pub(super) fn build() -> cc::Build {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .target(&triple)
        .host(&triple)
        .opt_level(2)
        .debug(false)
        .warnings(false)
        .cargo_warnings(false)
        .cargo_metadata(false);
    build
}
