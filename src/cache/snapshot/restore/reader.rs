//! The threads that restore snapshots: read a chain of files chunk by chunk, and check each chunk.

use std::{
    fs::File,
    io,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    super::{
        Shared,
        dir::{self, Opened},
        file::{format::Header, hash},
    },
    job::{KvChunk, RestoreJob},
};
use crate::{limits, lock::IgnorePoison as _};

/// Number of prefixes that are restored at once.
const THREADS: usize = 2;

/// The reason why a restore stops.
enum Stop {
    /// The receiver was dropped.
    Gone,
    /// The file cannot be used, for this reason.
    Unusable(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Unusable(why)
    }
}

pub(crate) fn queue() -> (SyncSender<RestoreJob>, Receiver<RestoreJob>) {
    sync_channel(limits::SNAPSHOT_QUEUE_LEN_MAX)
}

pub(crate) fn start(shared: &Arc<Shared>, reads: Receiver<RestoreJob>) -> io::Result<()> {
    let reads = Arc::new(Mutex::new(reads));
    for _ in 0..THREADS {
        let (shared, reads) = (Arc::clone(shared), Arc::clone(&reads));
        let thread = thread::Builder::new().name("snapshot-reader".to_owned());
        thread.spawn(move || {
            while let Some(read) = next(&reads) {
                run(&shared, read);
            }
        })?;
    }
    Ok(())
}

fn next(reads: &Mutex<Receiver<RestoreJob>>) -> Option<RestoreJob> {
    reads.lock().ignore_poison().recv().ok()
}

fn run(shared: &Shared, read: RestoreJob) {
    let mut progress = Progress::default();
    for index in 0..read.parts.len() {
        let part = read.parts[index];
        if part.end <= read.from {
            continue;
        }
        match read.part(shared, index, &mut progress) {
            Ok(()) => {}
            Err(Stop::Gone) => break,
            Err(Stop::Unusable(why)) => {
                shared.discard(part.id, &why);
                break;
            }
        }
    }
    shared
        .counters
        .read(progress.tokens, progress.bytes, progress.time);
    if let Some(last) = read.parts.last() {
        shared.state().index.touch(last.id, shared.now_ms());
    }
    let RestoreJob { pieces, wake, .. } = read;
    drop(pieces);
    wake();
}

/// Progress of one restore.
#[derive(Default)]
struct Progress {
    tokens: usize,
    bytes: u64,
    /// Time spent reading, without waits for the consumer.
    time: Duration,
}

impl RestoreJob {
    /// Reads one file.
    fn part(&self, shared: &Shared, index: usize, progress: &mut Progress) -> Result<(), Stop> {
        let begun = Instant::now();
        let part = self.parts[index];
        let path = shared.folder.file(part.id, part.is_trunk);
        // It may have become a trunk meanwhile.
        let file = File::open(&path).or_else(|_| File::open(shared.folder.file(part.id, true)));
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        let opened = Opened::new(file)?;
        self.check(index, &opened.header)?;
        progress.time += begun.elapsed();
        let width = self.layout.bytes_per_token();
        for (piece, checksum) in opened.pieces() {
            if piece.tokens.end <= self.from {
                continue;
            }
            let begun = Instant::now();
            let mut bytes = opened.read(&piece, checksum)?;
            let known = self.from.saturating_sub(piece.tokens.start);
            bytes.drain(..known * width);
            let tokens = piece.tokens.len() - known;
            progress.time += begun.elapsed();
            progress.bytes += bytes.len() as u64;
            progress.tokens += tokens;
            let sent = self.pieces.send(KvChunk { tokens, bytes });
            sent.map_err(|_| Stop::Gone)?;
            (self.wake)();
        }
        if let Err(error) = dir::touch(&opened.file, shared.now_ms()) {
            tracing::debug!(%error, "snapshot access time not updated");
        }
        Ok(())
    }

    /// Checks that a file matches its index entry and holds these tokens.
    fn check(&self, index: usize, header: &Header) -> Result<(), String> {
        let (part, before) = (self.parts[index], index.checked_sub(1));
        let before = before.map(|before| self.parts[before]);
        let start = before.map_or(0, |before| before.end);
        let same = header.id == part.id
            && header.realm == self.realm
            && header.layout == self.layout
            && header.tokens == (start..part.end)
            && header.base == before.map(|before| before.id);
        if !same {
            return Err("it is not what it was".to_owned());
        }
        match hash::hash(&self.tokens[..part.end]) == header.token_hash {
            true => Ok(()),
            false => Err("it is of other tokens".to_owned()),
        }
    }
}
