//! `cargo xtask bench log`: the session log beside other stores of the same bytes.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;

use super::{asked, bench, figures::Figures, log_report::LogReport, measured, write};
use crate::{
    folder,
    process::{self, say},
    project::Project,
    setup,
};

/// What is measured side by side, by the names that the benchmark knows.
pub(super) const STORES: [&str; 4] = ["log", "raw", "sled", "sqlite"];

/// How cargo is told of the benchmark.
const LOG: [&str; 2] = ["--features=bench-log", "--bench=log"];

/// What is measured, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// How often each store is measured, in turn; the figures are medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each store is written to, in seconds, with each number of writers.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Responses in the store whose opening is measured; 0 leaves that out.
    #[arg(long, default_value_t = 200_000)]
    responses: u64,
    /// Responses that are created and deleted to see how the store grows; 0 leaves that out.
    #[arg(long, default_value_t = 20_000)]
    deletions: u64,
}

/// Measures all stores in turn and writes `docs/benchmarks/log.md` and `log.json`.
pub(crate) fn log(project: &Project, args: &LogArgs) -> Result<()> {
    setup::run(project, None)?;
    process::run(bench(project, &LOG).arg("--no-run"))?;
    let work = project.state()?.join("bench/log");
    let mut rounds: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    for round in 1..=args.rounds {
        say(&format!("round {round} of {}", args.rounds));
        for store in STORES {
            folder::empty(&work)?;
            let seconds = format!("--seconds={}", args.seconds);
            let mut command = asked(bench(project, &LOG), &["rate", store], &work);
            rounds
                .entry(store)
                .or_default()
                .push(measured(command.arg(seconds))?);
        }
    }
    let volume = [
        ("fill", "open", args.responses),
        ("grow", "", args.deletions),
    ];
    let mut alone = Figures::new();
    for (first, second, count) in volume.into_iter().filter(|(_, _, count)| *count > 0) {
        say(&format!("{first} {count}"));
        folder::empty(&work)?;
        let mut command = asked(bench(project, &LOG), &[first], &work);
        alone.extend(measured(command.arg(count.to_string()))?);
        if !second.is_empty() {
            alone.extend(measured(&mut asked(
                bench(project, &LOG),
                &[second],
                &work,
            ))?);
        }
    }
    folder::remove(&work)?;
    let report = LogReport {
        rounds: &rounds,
        alone: &alone,
    };
    write(project, "log", &report.markdown(), &report.json())
}
