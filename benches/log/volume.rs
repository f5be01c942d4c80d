//! Start-up with a large store, and growth of a store that creates and deletes responses.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use stemma::session::{
    self, Access, LogOptions, SessionId, SessionLog, SledOptions, SledStorage,
    admin::inspect,
    store::{Direct, Storage},
};

use super::{
    load,
    support::{Figures, process_mib},
    turns,
};

/// Clients that fill a store.
const CLIENTS: u64 = 64;
/// Clients that create and delete responses.
const CHURNING_CLIENTS: u64 = 16;
/// Responses that remain while others are created and deleted.
const REMAINING: u64 = 1_000;
/// Responses that are read, each once.
const READS: usize = 200;

fn open_log(folder: &Path) -> Result<SessionLog> {
    let log = session::open(folder, &SledOptions::default(), LogOptions::default());
    log.context("opening the session log")
}

fn ids_file(folder: &Path) -> std::path::PathBuf {
    folder.join("ids")
}

fn db_file(folder: &Path) -> std::path::PathBuf {
    folder.join("store/log/db")
}

/// Writes conversations with `responses` responses together, and saves some of their ids for [`open`].
pub(crate) async fn fill(folder: &Path, responses: u64) -> Result<Figures> {
    let log = open_log(folder)?;
    let start = Instant::now();
    let ids = write(&log, responses).await?;
    let elapsed = start.elapsed();
    log.close().await?;
    let step = (ids.len() / READS).max(1);
    let some: Vec<_> = ids.iter().step_by(step).map(SessionId::to_string).collect();
    fs::write(ids_file(folder), some.join("\n"))?;
    Ok(Figures::from([
        ("fill_s".into(), elapsed.as_secs_f64()),
        ("responses".into(), ids.len() as f64),
    ]))
}

async fn write(log: &SessionLog, responses: u64) -> Result<Vec<SessionId>> {
    let left = Arc::new(AtomicU64::new(responses));
    let tasks = (0..CLIENTS).map(|_| {
        let (log, left) = (log.clone(), left.clone());
        tokio::spawn(async move {
            let mut ids: Vec<SessionId> = Vec::new();
            let take = |left: u64| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                let root = (ids.len() as u64).is_multiple_of(turns::CHAIN_TURNS);
                let previous = ids.last().copied().filter(|_| !root);
                let id = load::new_id();
                turns::store(&log, id, previous).await?;
                ids.push(id);
            }
            anyhow::Ok(ids)
        })
    });
    let mut ids = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        ids.extend(task.await??);
    }
    Ok(ids)
}

/// Opens the store that [`fill`] wrote, and reads uncached responses.
pub(crate) async fn open(folder: &Path) -> Result<Figures> {
    let ids: Vec<SessionId> = fs::read_to_string(ids_file(folder))?
        .lines()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    drop_page_cache(&db_file(folder))?;
    let before = process_mib("VmRSS:");
    let start = Instant::now();
    let log = open_log(folder)?;
    let ready = start.elapsed();
    let after = process_mib("VmRSS:");
    drop_page_cache(&db_file(folder))?;
    let mut reads = Vec::new();
    for id in &ids {
        let start = Instant::now();
        log.response(&Access::All, *id)?;
        reads.push(start.elapsed());
    }
    reads.sort_unstable();
    log.close().await?;
    let ms = |at: usize| reads.get(at).map_or(0.0, |read| read.as_secs_f64() * 1e3);
    let mut figures = Figures::from([
        ("ready_s".into(), ready.as_secs_f64()),
        ("cold_get_p50_ms".into(), ms(reads.len() / 2)),
        ("cold_get_max_ms".into(), ms(reads.len() - 1)),
        ("db_mib".into(), len_mib(folder)?),
    ]);
    if let (Some(before), Some(after)) = (before, after) {
        figures.insert("resident_mib".into(), after - before);
    }
    Ok(figures)
}

/// Drops a file from the page cache of the operating system.
fn drop_page_cache(path: &Path) -> Result<()> {
    let mut of = std::ffi::OsString::from("of=");
    of.push(path);
    let dropped = Command::new("dd")
        .arg(of)
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"])
        .output()?;
    ensure!(
        dropped.status.success(),
        "dd cannot drop the page cache of a file"
    );
    Ok(())
}

fn len_mib(folder: &Path) -> Result<f64> {
    Ok(fs::metadata(db_file(folder))?.len() as f64 / f64::from(1 << 20))
}

/// Creates and deletes responses while others remain.
pub(crate) async fn grow(folder: &Path, rounds: u64) -> Result<Figures> {
    let log = open_log(folder)?;
    let remaining = write(&log, REMAINING).await?;
    let mut figures = Figures::from([("db_mib_at_0".into(), len_mib(folder)?)]);
    let start = Instant::now();
    for quarter in 1..=4 {
        churn(&log, rounds / 4).await?;
        let name = format!("db_mib_at_{}", quarter * rounds / 4);
        figures.insert(name, len_mib(folder)?);
    }
    figures.insert(
        "rounds_per_s".into(),
        rounds as f64 / start.elapsed().as_secs_f64(),
    );
    log.wait_for_gc().await?;
    for id in &remaining {
        log.response(&Access::All, *id)?;
    }
    log.close().await?;
    drop(log);
    let storage = SledStorage::open(folder, &SledOptions::default())?;
    let stats = inspect::stats(&Direct(&storage))?;
    storage.close()?;
    let live: u64 = stats.by_space.values().map(|(_, bytes)| bytes).sum();
    let live_mib = live as f64 / f64::from(1 << 20);
    figures.insert("live_mib".into(), live_mib);
    figures.insert("db_per_live_byte".into(), len_mib(folder)? / live_mib);
    Ok(figures)
}

async fn churn(log: &SessionLog, rounds: u64) -> Result<()> {
    let tasks = (0..CHURNING_CLIENTS).map(|client| {
        let log = log.clone();
        let own = rounds / CHURNING_CLIENTS + u64::from(client < rounds % CHURNING_CLIENTS);
        tokio::spawn(async move {
            for _ in 0..own {
                let id = load::new_id();
                turns::store(&log, id, None).await?;
                log.delete(Access::All, id).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(())
}
