//! Other programs: running them, and saying what goes on.

use std::{
    ffi::OsStr,
    io::{self, Write},
    iter,
    process::Command,
};

use anyhow::{Context, Result, bail};

/// Writes one line to standard error; what happens to it there is nobody's concern.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Runs a program that talks to the user by itself. An error names the program and its status.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = program(command);
    let status = command
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    if !status.success() {
        bail!("{name} failed with {status}");
    }
    Ok(())
}

/// Runs a program for what it writes to standard output. An error holds its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = program(command);
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed with {}: {}", output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} wrote no UTF-8"))
}

/// The beginning of a command line, enough to know the command again.
fn program(command: &Command) -> String {
    let words = iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.take(4).map(OsStr::to_string_lossy).collect();
    format!("`{}`", words.join(" "))
}
