//! The benchmark programs of stemma, run by cargo.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::figures::{self, Figures};
use crate::{process, project::Project};

/// Arguments with which cargo chooses the engine's benchmark.
pub(super) const ENGINE: [&str; 1] = ["--bench=engine"];

/// Returns a command that runs the benchmark that `choice`, arguments of cargo, names.
pub(super) fn bench(project: &Project, choice: &[&str]) -> Command {
    let mut cargo = project.cargo();
    cargo.args(["bench", "--quiet", "--package=stemma"]);
    cargo.args(choice);
    cargo
}

/// Returns a command that runs a benchmark's subcommand in `folder`.
pub(super) fn subcommand(mut bench: Command, name: &str, folder: &Path) -> Command {
    bench.arg("--").arg(name).arg(folder);
    bench
}

/// Runs a benchmark and reads the figures that it prints.
pub(super) fn measure(command: &mut Command) -> Result<Figures> {
    figures::parse(&process::output(command)?)
}
