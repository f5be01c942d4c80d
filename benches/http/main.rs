//! The server's side of `cargo xtask bench http`: requests and streamed events per second with a made-up
//! model, beside a bare handler that returns the same bytes, and memory over many requests.
//!
//! Clients and both servers share the machine. Every command prints one flat JSON object, its units in
//! the names.

mod bare;
mod load;
#[path = "../support/memory.rs"]
mod memory;
#[path = "../../tests/support/model.rs"]
#[expect(dead_code, reason = "tests want more of their models")]
mod model;
mod ours;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use self::{
    bare::Bare,
    load::Connection,
    memory::memory,
    ours::{Limits, Ours},
};

/// As in the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How many clients ask at once.
const CLIENTS: [usize; 2] = [1, 64];

/// Clients that read streams at once.
const STREAMS: usize = 64;

/// Tokens of a streamed answer.
const STREAMED_TOKENS: u64 = 256;

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
    /// Requests and events per second.
    Rate {
        folder: PathBuf,
        /// How long each load lasts.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Only streams, and only ours.
        #[arg(long)]
        streams_only: bool,
    },
    /// Resident memory over so many requests, half of them stored, with caches that are soon full.
    Memory {
        folder: PathBuf,
        requests: u64,
        /// Keep only so many responses, and what was not stored for a second [default: everything].
        #[arg(long)]
        kept: Option<u64>,
    },
}

/// Measurements by name.
type Figures = BTreeMap<String, f64>;

fn main() -> Result<()> {
    stemma::allocator::keep_free_memory();
    // As the program's own runtime; the clients have a thread to themselves.
    let servers = Runtime::new().context("a runtime for the servers")?;
    let clients = Builder::new_current_thread().enable_all().build();
    let clients = clients.context("a runtime for the clients")?;
    let figures = match Cli::parse().command {
        Command::Rate {
            folder,
            seconds,
            streams_only,
        } => {
            let limits = Limits::usual();
            let ours = servers.block_on(Ours::start(&folder, &limits))?;
            let time = Duration::from_secs_f64(seconds);
            let rates = rates(&servers, &ours, time, streams_only);
            let figures = clients.block_on(rates)?;
            servers.block_on(ours.stop())?;
            figures
        }
        Command::Memory {
            folder,
            requests,
            kept,
        } => {
            let limits = Limits::small(kept);
            let ours = servers.block_on(Ours::start(&folder, &limits))?;
            let figures = clients.block_on(growth(ours.address, requests))?;
            servers.block_on(ours.stop())?;
            figures
        }
    };
    writeln!(io::stdout(), "{}", json!(figures))?;
    Ok(())
}

/// The request for an answer of one token.
fn one_token(store: bool) -> Value {
    json!({"input": load::NEW, "max_output_tokens": 1, "store": store})
}

fn streamed() -> Value {
    json!({"input": load::NEW, "max_output_tokens": STREAMED_TOKENS, "stream": true})
}

async fn rates(
    servers: &Runtime,
    ours: &Ours,
    time: Duration,
    streams_only: bool,
) -> Result<Figures> {
    let mut figures = Figures::new();
    let bare = servers.spawn(Bare::start(ours.address)).await??;
    if !streams_only {
        for clients in CLIENTS {
            creates(ours, bare, clients, time, &mut figures).await?;
        }
    }
    let sides = [
        ("ours", ours.address, "/v1/responses"),
        ("bare_written", bare, "/written"),
        ("bare_ready", bare, "/ready"),
    ];
    let wanted = if streams_only { 1 } else { sides.len() };
    for (name, address, path) in sides.into_iter().take(wanted) {
        let request = load::post(address, path, &streamed());
        let load = load::run(address, request, STREAMS, time).await?;
        ensure!(load.frames > STREAMED_TOKENS, "{name} streams too little");
        figures.insert(format!("{name}_events_per_s"), load.frames_per_s());
    }
    Ok(figures)
}

/// Answers of one token: not stored, stored, and from the bare handler.
async fn creates(
    ours: &Ours,
    bare: SocketAddr,
    clients: usize,
    time: Duration,
    figures: &mut Figures,
) -> Result<()> {
    for (name, store) in [("unstored", false), ("stored", true)] {
        let request = load::post(ours.address, "/v1/responses", &one_token(store));
        let before = ours.commits();
        let load = load::run(ours.address, request, clients, time).await?;
        let commits = (ours.commits() - before) as f64;
        note(figures, &format!("{name}_x{clients}"), &load);
        let each = commits / load.answers() as f64;
        figures.insert(format!("{name}_x{clients}_commits_per_request"), each);
    }
    let request = load::post(bare, "/json", &one_token(true));
    let load = load::run(bare, request, clients, time).await?;
    note(figures, &format!("bare_x{clients}"), &load);
    Ok(())
}

fn note(figures: &mut Figures, name: &str, load: &load::Load) {
    figures.insert(format!("{name}_requests_per_s"), load.answers_per_s());
    figures.insert(format!("{name}_p50_ms"), load.latency_ms(0.5));
    figures.insert(format!("{name}_p99_ms"), load.latency_ms(0.99));
}

/// Asks for answers of one token, and looks at the memory ten times on the way.
async fn growth(address: SocketAddr, requests: u64) -> Result<Figures> {
    let mut figures = Figures::new();
    for part in 1..=10 {
        for store in [true, false] {
            let request = load::post(address, "/v1/responses", &one_token(store));
            load::run_many(address, request, 64, requests / 20).await?;
        }
        let done = requests / 10 * part;
        let resident = memory("VmRSS:").context("no resident memory is told here")?;
        figures.insert(format!("resident_mib_at_{done}"), resident);
    }
    // Connections that are closed leave nothing that a new one would not find.
    drop(Connection::open(address).await?);
    Ok(figures)
}
