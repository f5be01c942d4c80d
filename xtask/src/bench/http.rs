//! `cargo xtask bench http`: the server beside a bare handler that returns the same bytes.

use anyhow::Result;
use clap::Args;

use super::{asked, bench, figures::Figures, http_report::HttpReport, measured, write};
use crate::{
    folder,
    process::{self, say},
    project::Project,
    setup,
};

/// How cargo is told of the benchmark.
const HTTP: [&str; 1] = ["--bench=http"];

/// Responses that a bounded store keeps.
pub(super) const KEPT: u64 = 1000;

/// What is measured, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// How often everything is measured; the figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each load lasts, in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Requests over which memory is looked at; 0 leaves that out.
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
        let mut command = asked(bench(project, &HTTP), &["rate"], &work);
        rounds.push(measured(command.arg(seconds))?);
    }
    let mut memory = [Figures::new(), Figures::new()];
    let kept = [None, Some(format!("--kept={KEPT}"))];
    for (figures, kept) in memory.iter_mut().zip(kept) {
        if args.requests == 0 {
            break;
        }
        say(&format!("memory over {} requests", args.requests));
        folder::empty(&work)?;
        let mut command = asked(bench(project, &HTTP), &["memory"], &work);
        *figures = measured(command.arg(args.requests.to_string()).args(kept))?;
    }
    folder::remove(&work)?;
    let report = HttpReport {
        rounds: &rounds,
        memory: memory.each_ref(),
    };
    write(project, "http", &report.markdown(), &report.json())
}
