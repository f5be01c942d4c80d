//! Running other programs, and messages to the user.

use std::{
    ffi::OsStr,
    io::{self, Write},
    iter,
    process::Command,
};

use anyhow::{Context, Result, bail};

/// Writes one line to standard error. Ignores errors.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Runs a program that shares this program's output. An error names the program and its status.
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

/// Runs a program and returns its standard output. An error has its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = program(command);
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed with {}: {}", output.status, errors.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of {name} is not UTF-8"))
}

/// Returns the first words of a command line, for messages.
fn program(command: &Command) -> String {
    let words = iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.take(4).map(OsStr::to_string_lossy).collect();
    format!("`{}`", words.join(" "))
}
