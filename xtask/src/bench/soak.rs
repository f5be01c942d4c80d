//! `cargo xtask bench soak`: clients run conversations, disconnect and delete responses while the server
//! is killed repeatedly. Samples the server's memory, open files and disk usage.

use std::{
    fs,
    path::Path,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;

use super::{
    client::Client,
    conversation::{Passages, turn},
    server::Server,
    server_report::Output,
    servers::{ServerArgs, Servers},
    soak_report::{Counts, Sample, SoakReport},
};
use crate::{process::say, project::Project};

/// Arguments of `bench soak`.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// Duration, in minutes.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Concurrent clients.
    #[arg(long, default_value_t = 6)]
    clients: u64,
    /// Seconds from one `kill -9` to the next.
    #[arg(long, default_value_t = 300)]
    restart_every: u64,
    /// Stored responses that the server keeps.
    #[arg(long = "kept", default_value_t = 200)]
    stored_max: u64,
    /// Seconds between two samples of the process.
    #[arg(long, default_value_t = 5)]
    sample_every: u64,
}

/// State that the clients share.
struct Shared {
    /// Client of the running server. A restart holds the write lock.
    client: RwLock<Client>,
    /// Incremented at the start and at the end of each restart. A request during which the value changes
    /// may fail.
    restarts: AtomicU64,
    /// True if the clients are to end.
    ended: AtomicBool,
    counts: Counts,
}

/// Turns of a conversation.
const CHAIN_TURNS: u64 = 8;

/// Runs the soak test and writes `docs/benchmarks/soak.md`, `soak.json` and `soak.svg`. A failed request is
/// an error.
pub(crate) fn soak(project: &Project, args: &SoakArgs) -> Result<()> {
    let servers = Servers::prepare_stemma(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "soak");
    servers.clear()?;
    let mut server = start(&servers, args)?;
    let shared = Arc::new(Shared {
        client: RwLock::new(server.client.clone()),
        restarts: AtomicU64::new(0),
        ended: AtomicBool::new(false),
        counts: Counts::default(),
    });
    let client = |nth: u64| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.run_client(nth))
    };
    let clients: Vec<_> = (0..args.clients).map(client).collect();
    let samples = sample_and_restart(&servers, args, &mut server, &shared);
    shared.ended.store(true, Relaxed);
    for client in clients {
        client.join().map_err(|_| anyhow!("a client panicked"))?;
    }
    let samples = samples?;
    let rounds = output.begin(&servers)?;
    let report = SoakReport {
        setting: rounds.setting(),
        samples: &samples,
        restarts: shared.restarts.load(Relaxed) / 2,
        counts: &shared.counts,
        stored_max: args.stored_max,
    };
    output.write(&report.markdown(), &report.json())?;
    output.draw(&report.chart())?;
    match shared.counts.errors.load(Relaxed) {
        0 => Ok(()),
        errors => Err(anyhow!("{errors} requests failed")),
    }
}

fn start(servers: &Servers, args: &SoakArgs) -> Result<Server> {
    let stored_max = format!("--responses-store-max-entries={}", args.stored_max);
    // The limits are small, so that they are reached soon: growth within them would look like a leak.
    let flags = [
        &stored_max,
        "--unstored-retention=30",
        "--kv-bytes=268435456",
    ];
    servers.stemma(&flags, &servers.sessions())
}

/// Samples the server and restarts it repeatedly, until the time is over.
fn sample_and_restart(
    servers: &Servers,
    args: &SoakArgs,
    server: &mut Server,
    shared: &Shared,
) -> Result<Vec<Sample>> {
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(args.minutes * 60.0);
    let mut restart = begin + Duration::from_secs(args.restart_every);
    let mut samples = Vec::new();
    while Instant::now() < end {
        thread::sleep(Duration::from_secs(args.sample_every));
        samples.push(Sample {
            minute: begin.elapsed().as_secs_f64() / 60.0,
            ..sample(server, &servers.sessions())?
        });
        if Instant::now() >= restart && Instant::now() < end {
            say(&format!(
                "minute {:.1}: kill -9",
                begin.elapsed().as_secs_f64() / 60.0
            ));
            shared.restarts.fetch_add(1, Relaxed);
            let mut client = shared
                .client
                .write()
                .map_err(|_| anyhow!("a client panicked"))?;
            server.kill()?;
            *server = start(servers, args)?;
            *client = server.client.clone();
            shared.restarts.fetch_add(1, Relaxed);
            restart += Duration::from_secs(args.restart_every);
        }
    }
    Ok(samples)
}

/// Samples memory, open files and disk usage.
fn sample(server: &Server, sessions: &Path) -> Result<Sample> {
    let process = format!("/proc/{}", server.id());
    let status = fs::read_to_string(format!("{process}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let kib: f64 = kib.context("/proc has no VmRSS")?;
    Ok(Sample {
        minute: 0.0,
        resident_mib: kib / 1024.0,
        files: fs::read_dir(format!("{process}/fd"))?.count() as f64,
        disk_mib: bytes_in(sessions) as f64 / f64::from(1 << 20),
    })
}

/// Returns the bytes of all files of a folder. Skips files that are deleted meanwhile.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

impl Shared {
    /// Runs one client: chain after chain. Disconnects from every seventh response, and deletes every fifth
    /// chain.
    fn run_client(&self, nth: u64) {
        let mut passages = Passages::from(nth as usize);
        for chain in 0.. {
            let mut stored: Vec<String> = Vec::new();
            for step in 0..CHAIN_TURNS {
                if self.ended.load(Relaxed) {
                    return;
                }
                let text = format!(
                    "{} {nth}.{chain}.{step}",
                    passages.next(20 + 10 * (step % 3))
                );
                let body = turn(stored.last().map(String::as_str), &text, 24);
                let cancels = (nth + 3 * chain + step) % 7 == 6;
                let response = self.ask(|client| match cancels {
                    true => client.response_cancelled(&body, 2),
                    false => client.response(&body),
                });
                match response {
                    Some(_) if cancels => _ = self.counts.cancelled.fetch_add(1, Relaxed),
                    Some(response) => {
                        self.counts.turns.fetch_add(1, Relaxed);
                        stored.push(response.id);
                    }
                    None => {}
                }
            }
            if chain % 5 == 0 {
                for id in stored {
                    if self.ask(|client| client.delete(&id)).is_some() {
                        self.counts.deleted.fetch_add(1, Relaxed);
                    }
                }
            }
        }
    }

    /// Sends a request to the running server. Counts a failure as an error unless a restart explains it.
    fn ask<T>(&self, ask: impl Fn(&Client) -> Result<T>) -> Option<T> {
        let (client, before) = {
            let client = self.client.read().ok()?;
            (client.clone(), self.restarts.load(Relaxed))
        };
        match ask(&client) {
            Ok(answer) => Some(answer),
            Err(_) if self.restarts.load(Relaxed) != before => {
                self.counts.killed.fetch_add(1, Relaxed);
                None
            }
            Err(error) => {
                self.counts.errors.fetch_add(1, Relaxed);
                say(&format!("error: {error:#}"));
                None
            }
        }
    }
}
