//! Parts that the benchmark programs share: the command line, the figures, and the process's memory.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::json;

#[derive(Parser)]
struct Cli<C: Subcommand> {
    #[command(subcommand)]
    command: C,
    /// Flag that `cargo bench` adds.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

/// Measurements by name. A name ends with its unit.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Parses the command line of the program.
pub(crate) fn command<C: Subcommand>() -> C {
    Cli::parse().command
}

/// Prints figures as one flat JSON object.
pub(crate) fn print(figures: &Figures) -> Result<()> {
    writeln!(io::stdout(), "{}", json!(figures))?;
    Ok(())
}

/// Returns a field of Linux's `/proc/self/status`, in MiB; `None` on other systems.
pub(crate) fn process_mib(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
