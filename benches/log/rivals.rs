//! Other ways to keep the bytes that the log keeps, behind one thread that groups them as it does.

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

/// Turns that may wait, as in the log.
const QUEUE_LEN_MAX: usize = 256;

/// The values that one turn adds or changes.
type Pairs = Vec<(Vec<u8>, Value)>;

/// What one turn of a conversation writes, with the id that it was written under.
#[derive(Debug, Clone)]
struct Sample {
    id: SessionId,
    pairs: Vec<(Key, Value)>,
}

/// Writes turns for a time.
pub(crate) async fn rate(
    rival: Store,
    folder: &Path,
    time: Duration,
    writers: usize,
) -> Result<Load> {
    let samples = Arc::new(samples().await?);
    let (queue, waiting) = mpsc::sync_channel(QUEUE_LEN_MAX);
    let commit = open(rival, folder)?;
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

/// A conversation's values, taken from a log in memory.
async fn samples() -> Result<Vec<Sample>> {
    let storage = Arc::new(MemoryStorage::default());
    let log = SessionLog::start(storage.clone(), LogOptions::default())?;
    let mut samples = Vec::new();
    let mut last = None;
    for _ in 0..CHAIN_TURNS {
        let before = storage.entries();
        let id = turns::new_id();
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
    /// The same values for another turn.
    fn renamed(&self, id: SessionId, number: u64) -> Pairs {
        let renamed = self.pairs.iter().map(|(key, value)| {
            let mut key = key.as_bytes().to_vec();
            let named = key.windows(16).position(|part| part == self.id.0);
            match named {
                Some(at) => key[at..at + 16].copy_from_slice(&id.0),
                None => {
                    let place = key.len() - 8;
                    key[place..].copy_from_slice(&number.to_be_bytes());
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
        let pairs = sample.renamed(id, self.turns);
        self.queue
            .send(Request { pairs, durable })
            .map_err(|_| anyhow!("the writing thread is gone"))?;
        answer.await.context("the turn was not written")
    }
}

type Commit = Box<dyn FnMut(&[Request]) -> Result<()> + Send>;

/// Takes all that waits, makes it durable, answers.
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

fn open(rival: Store, folder: &Path) -> Result<Commit> {
    match rival {
        Store::Raw => raw(folder),
        Store::Sled => bare_sled(folder),
        Store::Sqlite => sqlite(folder),
        Store::Log => Err(anyhow!("the log is no rival of itself")),
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
        // It syncs, as the log's does.
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
