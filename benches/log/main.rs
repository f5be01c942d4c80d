//! The session log's side of `cargo xtask bench log`: how fast turns become durable, beside other
//! stores that keep the same bytes, how a large store opens, and how one grows.
//!
//! Every command prints one flat JSON object, its units in the names.

mod load;
#[path = "../support/memory.rs"]
mod memory;
mod rivals;
mod turns;
mod volume;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use mimalloc::MiMalloc;
use serde_json::json;
use stemma::session::{LogOptions, SessionLog, SledOptions, SledStorage};

use self::load::Load;

/// As in the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many clients write at once.
const WRITERS: [usize; 3] = [1, 16, 64];

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// What `cargo bench` adds.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Durable turns per second and their latency, with 1, 16 and 64 writers.
    Rate {
        store: Store,
        folder: PathBuf,
        /// How long each number of writers writes.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Only this number of writers.
        #[arg(long)]
        writers: Option<usize>,
    },
    /// Write a store with so many responses, for `open`.
    Fill { folder: PathBuf, responses: u64 },
    /// Open that store and read from it.
    Open { folder: PathBuf },
    /// Create and delete responses; how large the store gets.
    Grow { folder: PathBuf, rounds: u64 },
}

/// What keeps the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    /// The session log.
    Log,
    /// A file that is appended to and synced.
    Raw,
    /// Sled, whose flush syncs in this program, and nothing else.
    Sled,
    /// SQLite with a write-ahead log and synchronous=FULL.
    Sqlite,
}

/// Measurements by name.
type Figures = BTreeMap<String, f64>;

fn main() -> Result<()> {
    stemma::allocator::keep_free_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = match Cli::parse().command {
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
    writeln!(io::stdout(), "{}", json!(figures))?;
    Ok(())
}

async fn rates(store: Store, folder: &Path, time: Duration, writers: &[usize]) -> Result<Figures> {
    let mut figures = Figures::new();
    for &writers in writers {
        let folder = folder.join(writers.to_string());
        std::fs::create_dir_all(&folder)?;
        let mut note = |name: &str, value: f64| {
            figures.insert(format!("x{writers}_{name}"), value);
        };
        let load = match store {
            Store::Log => log_rate(&folder, time, writers, &mut note).await?,
            rival => rivals::rate(rival, &folder, time, writers).await?,
        };
        note("turns_per_s", load.turns_per_s());
        note("p50_ms", load.latency_ms(0.5));
        note("p99_ms", load.latency_ms(0.99));
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(figures)
}

async fn log_rate(
    folder: &Path,
    time: Duration,
    writers: usize,
    note: &mut impl FnMut(&str, f64),
) -> Result<Load> {
    let storage = Arc::new(SledStorage::open(folder, &SledOptions::default())?);
    let log = SessionLog::start(storage.clone(), LogOptions::default())?;
    let before = storage.write_stats();
    let clients = (0..writers).map(|_| turns::Chain::on(&log)).collect();
    let load = load::run(clients, time).await?;
    let effort = storage.write_stats();
    let commits = (effort.commits - before.commits) as f64;
    note("turns_per_commit", load.turns() as f64 / commits);
    note(
        "flushes_per_commit",
        (effort.flushes - before.flushes) as f64 / commits,
    );
    note(
        "syncs_per_commit",
        (effort.syncs - before.syncs) as f64 / commits,
    );
    log.close().await?;
    Ok(load)
}
