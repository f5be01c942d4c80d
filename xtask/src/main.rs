//! `cargo xtask`: set-up, models, tests and benchmarks of the project.

mod bench;
mod folder;
mod models;
mod node;
mod process;
mod project;
mod python;
mod serve;
mod setup;
mod test;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{bench::BenchCommand, project::Project, setup::Backend};

/// Set-up, models, tests and benchmarks of stemma.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepare MLX for `cargo build`; takes no time if it is ready already.
    Setup {
        /// MLX build on Linux [default: the one set up before, or else cpu].
        #[arg(long, value_enum)]
        mlx: Option<Backend>,
    },
    /// Set up, build in release mode and run `stemma serve` with the arguments.
    Serve {
        /// Flags of `stemma serve`; the default of --model is smollm2.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Set up, download the tests' models and clients, and run `cargo test` with the arguments.
    Test {
        /// Arguments of `cargo test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Download models.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Run a benchmark and write its report.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Write the Rust declarations of mlx-c. The set-up runs this with LIBCLANG_PATH set.
    #[command(hide = true)]
    WriteBindings {
        mlx_c: PathBuf,
        builtin_headers: PathBuf,
        to: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Download models into the download folder and check them.
    Fetch {
        /// Aliases.
        #[arg(default_value = "smollm2")]
        aliases: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let project = Project::find()?;
    match command {
        Command::Setup { mlx } => setup::run(&project, mlx),
        Command::Serve { args } => serve::run(&project, &args),
        Command::Test { args } => test::run(&project, &args),
        Command::Models(ModelsCommand::Fetch { aliases }) => models::fetch(&aliases),
        Command::Bench(command) => bench::run(&project, &command),
        Command::WriteBindings {
            mlx_c,
            builtin_headers,
            to,
        } => setup::bindings::write(&mlx_c, &builtin_headers, &to),
    }
}
