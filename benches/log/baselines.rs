//! Other stores of the session log's bytes, behind one thread that groups commits as the log does.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use rusqlite::{Connection, params};
use stemma::session::{
    LogOptions, SessionId, SessionLog,
    keys::{Key, Space},
    store::{Value, memory::MemoryStorage},
};
use tokio::sync::oneshot;

use super::{
    Store,
    load::{self, Client, Load},
    turns::{self, CHAIN_TURNS},
};

/// Bound of the commit queue, as in the log.
const QUEUE_LEN_MAX: usize = 256;

/// The entries that one turn adds or changes.
type Pairs = Vec<(Vec<u8>, Value)>;

/// The entries that one turn of a conversation writes, and the turn's id.
#[derive(Debug, Clone)]
struct Sample {
    id: SessionId,
    pairs: Vec<(Key, Value)>,
}

/// Writes turns for `time`.
pub(crate) async fn rate(
    baseline: Store,
    folder: &Path,
    time: Duration,
    writers: usize,
) -> Result<Load> {
    let samples = Arc::new(samples().await?);
    let (queue, waiting) = mpsc::sync_channel(QUEUE_LEN_MAX);
    let commit = open(baseline, folder)?;
    let thread = thread::spawn(move || group(&waiting, commit));
    let clients = (0..writers as u64).map(|number| Writer {
        samples: samples.clone(),
        queue: queue.clone(),
        turns: number << 32,
    });
    let load = load::run(clients.collect(), time).await;
    drop(queue);
    thread
        .join()
        .map_err(|_| anyhow!("the writing thread panicked"))??;
    load
}

/// Writes one conversation to a log in memory and returns its entries.
async fn samples() -> Result<Vec<Sample>> {
    let storage = Arc::new(MemoryStorage::default());
    let log = SessionLog::start(storage.clone(), LogOptions::default())?;
    let mut samples = Vec::new();
    let mut last = None;
    for _ in 0..CHAIN_TURNS {
        let before = storage.entries();
        let id = load::new_id();
        turns::store(&log, id, last).await?;
        last = Some(id);
        let changed = storage.entries().into_iter().filter(|(key, value)| {
            key.space() != Some(Space::Meta) && before.get(key) != Some(value)
        });
        samples.push(Sample {
            id,
            pairs: changed.collect(),
        });
    }
    log.close().await?;
    Ok(samples)
}

impl Sample {
    /// Returns the entries with the id of another turn.
    fn with_id(&self, id: SessionId, number: u64) -> Pairs {
        let renamed = self.pairs.iter().map(|(key, value)| {
            let mut key = key.as_bytes().to_vec();
            let id_at = key.windows(16).position(|bytes| bytes == self.id.0);
            match id_at {
                Some(at) => key[at..at + 16].copy_from_slice(&id.0),
                None => {
                    let suffix = key.len() - 8;
                    key[suffix..].copy_from_slice(&number.to_be_bytes());
                }
            }
            (key, value.clone())
        });
        renamed.collect()
    }
}

struct Request {
    pairs: Pairs,
    durable: oneshot::Sender<()>,
}

struct Writer {
    samples: Arc<Vec<Sample>>,
    queue: mpsc::SyncSender<Request>,
    turns: u64,
}

impl Client for Writer {
    async fn write(&mut self, id: SessionId) -> Result<()> {
        let sample = &self.samples[(self.turns % CHAIN_TURNS) as usize];
        self.turns += 1;
        let (durable, answer) = oneshot::channel();
        let pairs = sample.with_id(id, self.turns);
        self.queue
            .send(Request { pairs, durable })
            .map_err(|_| anyhow!("the writing thread is gone"))?;
        answer.await.context("the turn was not written")
    }
}

type Commit = Box<dyn FnMut(&[Request]) -> Result<()> + Send>;

/// Commits all waiting turns together and acknowledges them, until the queue is closed.
fn group(waiting: &mpsc::Receiver<Request>, mut commit: Commit) -> Result<()> {
    while let Ok(first) = waiting.recv() {
        let mut requests = vec![first];
        requests.extend(waiting.try_iter().take(QUEUE_LEN_MAX));
        commit(&requests)?;
        for request in requests {
            let _ = request.durable.send(());
        }
    }
    Ok(())
}

fn pairs(requests: &[Request]) -> impl Iterator<Item = &(Vec<u8>, Value)> {
    requests.iter().flat_map(|request| &request.pairs)
}

fn open(baseline: Store, folder: &Path) -> Result<Commit> {
    match baseline {
        Store::Raw => raw(folder),
        Store::Sled => bare_sled(folder),
        Store::Sqlite => sqlite(folder),
        Store::Log => Err(anyhow!("the log is not a baseline")),
    }
}

fn raw(folder: &Path) -> Result<Commit> {
    let mut file = File::create(folder.join("raw"))?;
    let mut buffer = Vec::new();
    Ok(Box::new(move |requests| {
        buffer.clear();
        for (key, value) in pairs(requests) {
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(value);
        }
        file.write_all(&buffer)?;
        Ok(file.sync_data()?)
    }))
}

fn bare_sled(folder: &Path) -> Result<Commit> {
    let db = sled::Config::new()
        .path(folder)
        .cache_capacity(128 << 20)
        .flush_every_ms(None)
        .open()?;
    Ok(Box::new(move |requests| {
        let mut batch = sled::Batch::default();
        for (key, value) in pairs(requests) {
            batch.insert(key.as_slice(), value.as_slice());
        }
        db.apply_batch(batch)?;
        // The flush syncs, as in the log.
        db.flush()?;
        Ok(())
    }))
}

fn sqlite(folder: &Path) -> Result<Commit> {
    let mut connection = Connection::open(folder.join("sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(
        "CREATE TABLE log (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    )?;
    Ok(Box::new(move |requests| {
        let transaction = connection.transaction()?;
        {
            let mut put =
                transaction.prepare_cached("INSERT OR REPLACE INTO log VALUES (?1, ?2)")?;
            for (key, value) in pairs(requests) {
                put.execute(params![key, value])?;
            }
        }
        Ok(transaction.commit()?)
    }))
}
