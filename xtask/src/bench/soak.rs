//! `cargo xtask bench soak`: chains, cancels, deletions and `kill -9`, again and again, while memory,
//! files and disk are looked at.

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
    server_report::Output,
    servers::{Server, ServerArgs, Servers},
    soak_report::{self, Sample},
    talk::{Passages, turn},
};
use crate::{process::say, project::Project};

/// How long, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    servers: ServerArgs,
    /// How long, in minutes.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Clients at once.
    #[arg(long, default_value_t = 6)]
    clients: u64,
    /// Seconds from one `kill -9` to the next.
    #[arg(long, default_value_t = 300)]
    restart_every: u64,
    /// Stored responses that the server is to keep.
    #[arg(long, default_value_t = 200)]
    kept: u64,
    /// Seconds between two looks at the process.
    #[arg(long, default_value_t = 5)]
    sample_every: u64,
}

/// What clients share.
struct Shared {
    /// The server of the moment; writing waits until a restart is over.
    client: RwLock<Client>,
    /// Restarts begun and ended, one each: a request over which this changes may fail.
    restarts: AtomicU64,
    ends: AtomicBool,
    counts: Counts,
}

/// What became of requests.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) turns: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) deleted: AtomicU64,
    /// Broken off by a restart.
    pub(super) killed: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// Turns of a conversation before another one begins.
const CHAIN_TURNS: u64 = 8;

/// Soaks and writes `docs/benchmarks/soak.md`, `soak.json` and `soak.svg`; errors of requests fail it.
pub(crate) fn soak(project: &Project, args: &SoakArgs) -> Result<()> {
    let servers = Servers::prepare_ours(project, &args.servers)?;
    let output = Output::new(project, &args.servers, "soak");
    servers.forget()?;
    let mut server = start(&servers, args)?;
    let shared = Arc::new(Shared {
        client: RwLock::new(server.client.clone()),
        restarts: AtomicU64::new(0),
        ends: AtomicBool::new(false),
        counts: Counts::default(),
    });
    let client = |nth: u64| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.talk(nth))
    };
    let clients: Vec<_> = (0..args.clients).map(client).collect();
    let samples = watch(&servers, args, &mut server, &shared);
    shared.ends.store(true, Relaxed);
    for client in clients {
        client.join().map_err(|_| anyhow!("a client panicked"))?;
    }
    let samples = samples?;
    let rounds = output.begin(&servers)?;
    let report = soak_report::Report {
        setting: rounds.setting(),
        samples: &samples,
        restarts: shared.restarts.load(Relaxed) / 2,
        counts: &shared.counts,
        kept: args.kept,
    };
    output.write(&report.markdown(), &report.json())?;
    output.draw(&report.chart())?;
    match shared.counts.errors.load(Relaxed) {
        0 => Ok(()),
        errors => Err(anyhow!("{errors} requests failed")),
    }
}

fn start(servers: &Servers, args: &SoakArgs) -> Result<Server> {
    let kept = format!("--responses-store-max-entries={}", args.kept);
    // Small enough to be full soon, or else growth within the bounds would look like a leak.
    let flags = [&kept, "--unstored-retention=30", "--kv-bytes=268435456"];
    servers.ours(&flags, &servers.sessions())
}

/// Looks at the server and restarts it, until the time is over.
fn watch(
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
            ..look(server, &servers.sessions())?
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

/// Memory, files and disk of the moment.
fn look(server: &Server, sessions: &Path) -> Result<Sample> {
    let process = format!("/proc/{}", server.id());
    let status = fs::read_to_string(format!("{process}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let kib: f64 = kib.context("the system does not tell the resident memory")?;
    Ok(Sample {
        minute: 0.0,
        resident_mib: kib / 1024.0,
        files: fs::read_dir(format!("{process}/fd"))?.count() as f64,
        disk_mib: bytes_in(sessions) as f64 / f64::from(1 << 20),
    })
}

/// Bytes of all files of a folder that are there long enough to be looked at.
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
    /// One client: chain after chain. Every seventh answer is hung up on, every fifth chain deleted.
    fn talk(&self, nth: u64) {
        let mut passages = Passages::from(nth as usize);
        for chain in 0.. {
            let mut told: Vec<String> = Vec::new();
            for step in 0..CHAIN_TURNS {
                if self.ends.load(Relaxed) {
                    return;
                }
                let text = format!(
                    "{} {nth}.{chain}.{step}",
                    passages.next(20 + 10 * (step % 3))
                );
                let body = turn(told.last().map(String::as_str), &text, 24);
                let hangs_up = (nth + 3 * chain + step) % 7 == 6;
                let answer = self.ask(|client| match hangs_up {
                    true => client.response_begun(&body, 2),
                    false => client.response(&body),
                });
                match answer {
                    Some(_) if hangs_up => _ = self.counts.cancelled.fetch_add(1, Relaxed),
                    Some(answer) => {
                        self.counts.turns.fetch_add(1, Relaxed);
                        told.push(answer.id);
                    }
                    None => {}
                }
            }
            if chain % 5 == 0 {
                for id in told {
                    if self.ask(|client| client.delete(&id)).is_some() {
                        self.counts.deleted.fetch_add(1, Relaxed);
                    }
                }
            }
        }
    }

    /// Asks the server of the moment. What fails while no restart comes between is an error.
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
