//! Set-up, models, tests and benchmarks of the project, as one command line.

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

use crate::{project::Project, setup::Backend};

/// Set-up, models, tests and benchmarks of stemma.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make MLX ready for `cargo build`; done again, it takes no time.
    Setup {
        /// Which MLX to take on Linux [default: the one set up before, or else cpu].
        #[arg(long, value_enum)]
        mlx: Option<Backend>,
    },
    /// Set up, build in release mode and serve; the arguments go to `stemma serve`.
    Serve {
        /// Flags of `stemma serve`; without --model it serves smollm2.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Set up, fetch what the tests need and run them all; the arguments go to `cargo test`.
    Test {
        /// Arguments of `cargo test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Download models.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Write the Rust declarations of mlx-c: a step of the set-up, with libclang in its environment.
    #[command(hide = true)]
    WriteBindings {
        mlx_c: PathBuf,
        builtin_headers: PathBuf,
        to: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Download models into the cache folder and check them.
    Fetch {
        /// Aliases, as `stemma models` knows them [default: what it fetches by itself].
        aliases: Vec<OsString>,
    },
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure the engine beside mlx-lm and write docs/benchmarks/engine.md.
    Engine(bench::EngineArgs),
    /// Measure the session log beside other stores and write docs/benchmarks/log.md.
    Log(bench::LogArgs),
    /// Measure the server beside a bare handler and write docs/benchmarks/http.md.
    Http(bench::HttpArgs),
    /// Measure turns of long conversations beside the servers of llama.cpp and mlx-lm and write
    /// docs/benchmarks/chain.md.
    Chain(bench::ChainArgs),
    /// Measure first turns after a restart beside them and write docs/benchmarks/restart.md.
    Restart(bench::RestartArgs),
    /// Measure many requests at once beside them and write docs/benchmarks/load.md.
    Load(bench::LoadArgs),
    /// Hold conversations, hang up and kill the server for a while and write docs/benchmarks/soak.md.
    Soak(bench::SoakArgs),
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
        Command::Models(ModelsCommand::Fetch { aliases }) => models::fetch(&project, &aliases),
        Command::Bench(command) => run_bench(&project, &command),
        Command::WriteBindings {
            mlx_c,
            builtin_headers,
            to,
        } => setup::bindings::write(&mlx_c, &builtin_headers, &to),
    }
}

fn run_bench(project: &Project, command: &BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Engine(args) => bench::engine(project, args),
        BenchCommand::Log(args) => bench::log(project, args),
        BenchCommand::Http(args) => bench::http(project, args),
        BenchCommand::Chain(args) => bench::chain(project, args),
        BenchCommand::Restart(args) => bench::restart(project, args),
        BenchCommand::Load(args) => bench::load(project, args),
        BenchCommand::Soak(args) => bench::soak(project, args),
    }
}
