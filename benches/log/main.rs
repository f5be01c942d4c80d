//! The benchmark of the session log, run by `cargo xtask bench log`: the rate of durable turns, compared
//! with other stores of the same bytes, the start-up with a large store, and the growth of a store.
//!
//! Every command prints one flat JSON object with units in the names.

mod baselines;
mod load;
#[path = "../support/mod.rs"]
mod support;
mod turns;
mod volume;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use mimalloc::MiMalloc;
use stemma::session::{LogOptions, SessionLog, SledOptions, SledStorage};

use self::{
    load::Load,
    support::{Figures, print},
};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Numbers of concurrent writers.
const WRITERS: [usize; 3] = [1, 16, 64];

#[derive(Subcommand)]
enum Command {
    /// Measure durable turns per second and their latency, with 1, 16 and 64 writers.
    Rate {
        store: Store,
        folder: PathBuf,
        /// Duration of each measurement, in seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Measure only this number of writers.
        #[arg(long)]
        writers: Option<usize>,
    },
    /// Write a store with `responses` responses, for `open`.
    Fill { folder: PathBuf, responses: u64 },
    /// Measure opening that store, and reads from it.
    Open { folder: PathBuf },
    /// Create and delete responses, and measure the size of the store.
    Grow { folder: PathBuf, rounds: u64 },
}

/// A store of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    /// The session log.
    Log,
    /// Appends to a file, with fdatasync.
    Raw,
    /// sled alone; its flush syncs in this program.
    Sled,
    /// SQLite with a write-ahead log and `synchronous=FULL`.
    Sqlite,
}

fn main() -> Result<()> {
    stemma::allocator::keep_free_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = match support::command() {
        Command::Rate {
            store,
            folder,
            seconds,
            writers,
        } => {
            let writers = writers.map_or(WRITERS.to_vec(), |writers| vec![writers]);
            let time = Duration::from_secs_f64(seconds);
            runtime.block_on(rates(store, &folder, time, &writers))?
        }
        Command::Fill { folder, responses } => {
            runtime.block_on(volume::fill(&folder, responses))?
        }
        Command::Open { folder } => runtime.block_on(volume::open(&folder))?,
        Command::Grow { folder, rounds } => runtime.block_on(volume::grow(&folder, rounds))?,
    };
    print(&figures)
}

async fn rates(store: Store, folder: &Path, time: Duration, writers: &[usize]) -> Result<Figures> {
    let mut figures = Figures::new();
    for &writers in writers {
        let folder = folder.join(writers.to_string());
        std::fs::create_dir_all(&folder)?;
        let mut insert = |name: &str, value: f64| {
            figures.insert(format!("x{writers}_{name}"), value);
        };
        let load = match store {
            Store::Log => log_rate(&folder, time, writers, &mut insert).await?,
            baseline => baselines::rate(baseline, &folder, time, writers).await?,
        };
        insert("turns_per_s", load.turns_per_s());
        insert("p50_ms", load.latency_ms(0.5));
        insert("p99_ms", load.latency_ms(0.99));
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(figures)
}

async fn log_rate(
    folder: &Path,
    time: Duration,
    writers: usize,
    insert: &mut impl FnMut(&str, f64),
) -> Result<Load> {
    let storage = Arc::new(SledStorage::open(folder, &SledOptions::default())?);
    let log = SessionLog::start(storage.clone(), LogOptions::default())?;
    let before = storage.write_stats();
    let clients = (0..writers).map(|_| turns::Chain::on(&log)).collect();
    let load = load::run(clients, time).await?;
    let effort = storage.write_stats();
    let commits = (effort.commits - before.commits) as f64;
    insert("turns_per_commit", load.turns() as f64 / commits);
    insert(
        "flushes_per_commit",
        (effort.flushes - before.flushes) as f64 / commits,
    );
    insert(
        "syncs_per_commit",
        (effort.syncs - before.syncs) as f64 / commits,
    );
    log.close().await?;
    Ok(load)
}
