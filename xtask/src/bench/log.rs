//! `cargo xtask bench log`: the session log compared with other stores of the same bytes.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;

use super::{
    cargo_bench::{bench, measure, subcommand},
    figures::Figures,
    log_report::{LogReport, STORES},
    report,
};
use crate::{
    folder,
    process::{self, say},
    project::Project,
    setup,
};

/// Arguments with which cargo chooses the benchmark.
const LOG: [&str; 2] = ["--features=bench-log", "--bench=log"];

/// Arguments of `bench log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Rounds; each measures every store once, and the report shows medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of each measurement, one for each store and number of writers, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Responses in the store whose start-up is measured; 0 leaves it out.
    #[arg(long, default_value_t = 200_000)]
    responses: u64,
    /// Responses created and deleted to measure the store's growth; 0 leaves it out.
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
            let mut command = bench(project, &LOG);
            command.args(["--", "rate", store]).arg(&work).arg(seconds);
            rounds
                .entry(store)
                .or_default()
                .push(measure(&mut command)?);
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
        let mut command = subcommand(bench(project, &LOG), first, &work);
        alone.extend(measure(command.arg(count.to_string()))?);
        if !second.is_empty() {
            let mut command = subcommand(bench(project, &LOG), second, &work);
            alone.extend(measure(&mut command)?);
        }
    }
    folder::remove(&work)?;
    let log_report = LogReport {
        rounds: &rounds,
        alone: &alone,
    };
    report::write(project, "log", &log_report.markdown(), &log_report.json())
}
