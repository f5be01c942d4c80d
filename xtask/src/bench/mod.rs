//! `cargo xtask bench`: benchmarks of the engine, the session log, the HTTP layer and the whole server,
//! compared with other programs.

mod baselines;
mod cargo_bench;
mod chain;
mod chain_report;
mod chart;
mod client;
mod conversation;
mod engine;
mod engine_report;
mod figures;
mod http;
mod http_report;
mod load;
mod load_report;
mod log;
mod log_report;
mod report;
mod restart;
mod rounds;
mod server;
mod server_report;
mod servers;
mod soak;
mod soak_report;

use anyhow::Result;
use clap::Subcommand;

use crate::project::Project;

/// Benchmarks by name.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare the engine with llama.cpp and mlx-lm; writes docs/benchmarks/engine.md.
    Engine(engine::EngineArgs),
    /// Compare the session log with other stores; writes docs/benchmarks/log.md.
    Log(log::LogArgs),
    /// Compare the HTTP server with a static one; writes docs/benchmarks/http.md.
    Http(http::HttpArgs),
    /// Compare turns of long conversations with llama.cpp's and mlx-lm's servers; writes
    /// docs/benchmarks/chain.md.
    Chain(chain::ChainArgs),
    /// Compare first turns after a restart with the same servers; writes docs/benchmarks/restart.md.
    Restart(restart::RestartArgs),
    /// Compare many concurrent requests with the same servers; writes docs/benchmarks/load.md.
    Load(load::LoadArgs),
    /// Run clients that also disconnect and delete, and kill the server repeatedly; writes
    /// docs/benchmarks/soak.md.
    Soak(soak::SoakArgs),
}

/// Runs one benchmark and writes its report.
pub(crate) fn run(project: &Project, command: &BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Engine(args) => engine::engine(project, args),
        BenchCommand::Log(args) => log::log(project, args),
        BenchCommand::Http(args) => http::http(project, args),
        BenchCommand::Chain(args) => chain::chain(project, args),
        BenchCommand::Restart(args) => restart::restart(project, args),
        BenchCommand::Load(args) => load::load(project, args),
        BenchCommand::Soak(args) => soak::soak(project, args),
    }
}
