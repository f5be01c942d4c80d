//! `cargo xtask bench http`: the HTTP server compared with a static server that returns the same bytes.

use anyhow::Result;
use clap::Args;

use super::{
    cargo_bench::{bench, measure, subcommand},
    figures::Figures,
    http_report::{HttpReport, STORED_MAX},
    report,
};
use crate::{
    folder,
    process::{self, say},
    project::Project,
    setup,
};

/// Arguments with which cargo chooses the benchmark.
const HTTP: [&str; 1] = ["--bench=http"];

/// Arguments of `bench http`.
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// Rounds; the report shows medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of each load, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Requests of the measurement of memory; 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
}

/// Measures both sides in turn and writes `docs/benchmarks/http.md` and `http.json`.
pub(crate) fn http(project: &Project, args: &HttpArgs) -> Result<()> {
    setup::run(project, None)?;
    process::run(bench(project, &HTTP).arg("--no-run"))?;
    let work = project.state()?.join("bench/http");
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        say(&format!("round {round} of {}", args.rounds));
        folder::empty(&work)?;
        let seconds = format!("--seconds={}", args.seconds);
        let mut command = subcommand(bench(project, &HTTP), "rate", &work);
        rounds.push(measure(command.arg(seconds))?);
    }
    let mut memory = [Figures::new(), Figures::new()];
    let limits = [None, Some(format!("--stored-max={STORED_MAX}"))];
    for (figures, limit) in memory.iter_mut().zip(limits) {
        if args.requests == 0 {
            break;
        }
        say(&format!("memory over {} requests", args.requests));
        folder::empty(&work)?;
        let mut command = subcommand(bench(project, &HTTP), "memory", &work);
        *figures = measure(command.arg(args.requests.to_string()).args(limit))?;
    }
    folder::remove(&work)?;
    let http_report = HttpReport {
        rounds: &rounds,
        memory: memory.each_ref(),
    };
    report::write(
        project,
        "http",
        &http_report.markdown(),
        &http_report.json(),
    )
}
