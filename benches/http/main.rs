//! The benchmark of the HTTP server, run by `cargo xtask bench http`: requests and streamed events per
//! second with a scripted model, and memory over many requests. A static server that returns the same bytes
//! is the baseline.
//!
//! Clients and both servers share this process. Every command prints one flat JSON object with units in the
//! names.

mod load;
#[path = "../../tests/support/model.rs"]
#[expect(dead_code, reason = "only tests use all of it")]
mod model;
mod static_server;
mod stemma_server;
#[path = "../support/mod.rs"]
mod support;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use self::{
    load::Connection,
    stemma_server::{Limits, StemmaServer},
    support::{Figures, print, process_mib},
};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Numbers of concurrent clients.
const CLIENTS: [usize; 2] = [1, 64];

/// Number of concurrent streams.
const STREAMS: usize = 64;

/// Tokens of a streamed output.
const STREAMED_TOKENS: u64 = 256;

#[derive(Subcommand)]
enum Command {
    /// Measure requests and events per second.
    Rate {
        folder: PathBuf,
        /// Duration of each load, in seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Measure only streams of stemma.
        #[arg(long)]
        streams_only: bool,
    },
    /// Measure resident memory over many requests, half of them stored, with small caches.
    Memory {
        folder: PathBuf,
        requests: u64,
        /// Number of responses to keep; unstored ones are kept for a second [default: keep everything].
        #[arg(long)]
        stored_max: Option<u64>,
    },
}

fn main() -> Result<()> {
    stemma::allocator::keep_free_memory();
    // The servers have a runtime like the program's, the clients a thread of their own.
    let servers = Runtime::new().context("a runtime for the servers")?;
    let clients = Builder::new_current_thread().enable_all().build();
    let clients = clients.context("a runtime for the clients")?;
    let figures = match support::command() {
        Command::Rate {
            folder,
            seconds,
            streams_only,
        } => {
            let limits = Limits::defaults();
            let ours = servers.block_on(StemmaServer::start(&folder, &limits))?;
            let time = Duration::from_secs_f64(seconds);
            let rates = rates(&servers, &ours, time, streams_only);
            let figures = clients.block_on(rates)?;
            servers.block_on(ours.stop())?;
            figures
        }
        Command::Memory {
            folder,
            requests,
            stored_max,
        } => {
            let limits = Limits::small(stored_max);
            let ours = servers.block_on(StemmaServer::start(&folder, &limits))?;
            let figures = clients.block_on(growth(ours.address, requests))?;
            servers.block_on(ours.stop())?;
            figures
        }
    };
    print(&figures)
}

/// Returns a request for one token.
fn one_token(store: bool) -> Value {
    json!({"input": load::NEW, "max_output_tokens": 1, "store": store})
}

fn streamed() -> Value {
    json!({"input": load::NEW, "max_output_tokens": STREAMED_TOKENS, "stream": true})
}

async fn rates(
    servers: &Runtime,
    ours: &StemmaServer,
    time: Duration,
    streams_only: bool,
) -> Result<Figures> {
    let mut figures = Figures::new();
    let fixed = servers.spawn(static_server::start(ours.address)).await??;
    if !streams_only {
        for clients in CLIENTS {
            requests(ours, fixed, clients, time, &mut figures).await?;
        }
    }
    let sides = [
        ("ours", ours.address, "/v1/responses"),
        ("bare_written", fixed, "/written"),
        ("bare_ready", fixed, "/ready"),
    ];
    let count = if streams_only { 1 } else { sides.len() };
    for (name, address, path) in sides.into_iter().take(count) {
        let request = load::post(address, path, &streamed());
        let load = load::run(address, request, STREAMS, time).await?;
        ensure!(load.frames > STREAMED_TOKENS, "{name} streams too little");
        figures.insert(format!("{name}_events_per_s"), load.frames_per_s());
    }
    Ok(figures)
}

/// Measures requests for one token: not stored, stored, and to the static server.
async fn requests(
    ours: &StemmaServer,
    fixed: SocketAddr,
    clients: usize,
    time: Duration,
    figures: &mut Figures,
) -> Result<()> {
    for (name, store) in [("unstored", false), ("stored", true)] {
        let request = load::post(ours.address, "/v1/responses", &one_token(store));
        let before = ours.commits();
        let load = load::run(ours.address, request, clients, time).await?;
        let commits = (ours.commits() - before) as f64;
        insert_load(figures, &format!("{name}_x{clients}"), &load);
        let each = commits / load.responses() as f64;
        figures.insert(format!("{name}_x{clients}_commits_per_request"), each);
    }
    let request = load::post(fixed, "/json", &one_token(true));
    let load = load::run(fixed, request, clients, time).await?;
    insert_load(figures, &format!("bare_x{clients}"), &load);
    Ok(())
}

fn insert_load(figures: &mut Figures, name: &str, load: &load::Load) {
    figures.insert(format!("{name}_requests_per_s"), load.responses_per_s());
    figures.insert(format!("{name}_p50_ms"), load.latency_ms(0.5));
    figures.insert(format!("{name}_p99_ms"), load.latency_ms(0.99));
}

/// Sends requests for one token, and samples the resident memory ten times.
async fn growth(address: SocketAddr, requests: u64) -> Result<Figures> {
    let mut figures = Figures::new();
    for tenth in 1..=10 {
        for store in [true, false] {
            let request = load::post(address, "/v1/responses", &one_token(store));
            load::run_many(address, request, 64, requests / 20).await?;
        }
        let done = requests / 10 * tenth;
        let resident = process_mib("VmRSS:").context("/proc has no VmRSS")?;
        figures.insert(format!("resident_mib_at_{done}"), resident);
    }
    // The server still accepts connections.
    drop(Connection::open(address).await?);
    Ok(figures)
}
