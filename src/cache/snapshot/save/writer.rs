//! The thread that saves snapshots, one after the other, at low priority.

use std::{
    io::{self, BufWriter, Write as _},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use super::{
    super::{
        Shared, SkipReason, SnapshotId,
        dir::{self, Found, Name, Opened},
        file::{format::Header, hash, hash::RollingHash},
        index::{Entry, Index},
    },
    job::{SaveJob, Write},
};
use crate::{limits, lock::IgnorePoison as _, model::exec::KvExport};

/// Nice value of the thread: token generation comes first.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

pub(crate) fn queue() -> (SyncSender<Write>, Receiver<Write>) {
    sync_channel(limits::SNAPSHOT_QUEUE_LEN_MAX)
}

pub(crate) fn start(shared: &Arc<Shared>, writes: Receiver<Write>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("snapshot-writer".to_owned());
    thread.spawn(move || {
        // Elsewhere the niceness applies to the whole process, so it stays unchanged.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::warn!(%error, "snapshot writer: nice value not set");
        }
        scan(&shared);
        while let Ok(Write::Job(job)) = writes.recv() {
            let bytes = job.bytes;
            write(&shared, &job);
            drop(job);
            shared.counters.dequeue(bytes);
        }
    })
}

/// Scans the directory and builds the index.
fn scan(shared: &Shared) {
    let begun = Instant::now();
    let found = shared.folder.scan().unwrap_or_else(|error| {
        let folder = shared.folder.path().display();
        tracing::warn!(%error, %folder, "snapshot directory unreadable");
        Vec::new()
    });
    let entries: Vec<Entry> = found
        .iter()
        .filter_map(|file| entry(shared, file))
        .collect();
    let (index, changes) = Index::of(entries);
    shared.folder.apply(&changes);
    let (files, bytes) = index.size();
    if files > 0 || !found.is_empty() {
        let (removed, time) = (found.len() - files, begun.elapsed());
        tracing::info!(files, bytes, removed, ?time, "snapshots found");
    }
    shared.change(|state| {
        state.index = index;
        state.index.shrink(shared.options.bytes_max)
    });
    shared.state().is_scanned = true;
    shared.scanned.notify_all();
}

/// Builds the index entry from a file's header; deletes a file that cannot be used.
fn entry(shared: &Shared, found: &Found) -> Option<Entry> {
    let Name::Snapshot { id, is_trunk } = found.name else {
        dir::remove(&found.path);
        return None;
    };
    match Opened::found(&found.path, id) {
        Ok(Opened { header, .. }) => {
            Some(Entry::new(header, found.bytes, found.modified_ms, is_trunk))
        }
        Err(why) => {
            let file = found.path.display();
            tracing::warn!(%file, why, "snapshot ignored");
            shared.counters.unusable();
            dir::remove(&found.path);
            None
        }
    }
}

/// Writes or skips one snapshot.
fn write(shared: &Shared, job: &SaveJob) {
    let begun = Instant::now();
    let Some(header) = plan(shared, job) else {
        return;
    };
    let base = header.base;
    let id = header.id;
    let written = make_room(shared, &header).and_then(|()| {
        let written = into_file(shared, &header, &*job.kv);
        written.map_err(|error| {
            shared.complain(&error);
            shared.folder.give_up(id);
            SkipReason::Failed
        })
    });
    let bytes = match written {
        Ok(bytes) => bytes,
        Err(why) => {
            shared.counters.dropped(why);
            release(shared, base);
            return;
        }
    };
    if publish(shared, header, bytes) {
        shared.is_in_trouble.store(false, Ordering::Relaxed);
        shared.counters.wrote(bytes, begun.elapsed());
        tracing::debug!(snapshot = %id, bytes, time = ?begun.elapsed(), "snapshot written");
    }
}

/// Plans the tokens to write, which no snapshot has yet. Holds the base snapshot.
fn plan(shared: &Shared, job: &SaveJob) -> Option<Header> {
    let (id, end) = (job.pending.id, job.tokens.len());
    let _disk = shared.disk.lock().ignore_poison();
    let base = shared.state().index.longest(job.realm, &job.tokens, true);
    let base = base.filter(|base| shared.has_file(*base));
    let mut state = shared.state();
    if state.pending.get(&id) != Some(&false) || state.index.get(id).is_some() {
        return None;
    }
    let entry = base.and_then(|base| state.index.get(base));
    let start = entry.map_or(0, |base| base.header.tokens.end);
    if start < job.start {
        shared.counters.dropped(SkipReason::Memory);
        return None;
    }
    if end < start + limits::SNAPSHOT_TOKENS_MIN {
        return None;
    }
    if let Some(base) = base {
        state.index.hold(base);
    }
    drop(state);
    Some(Header {
        id,
        base,
        realm: job.realm,
        tokens: start..end,
        rolling: RollingHash::of(&job.tokens),
        token_hash: hash::hash(&job.tokens),
        keep: job.keep,
        layout: job.layout,
    })
}

fn make_room(shared: &Shared, header: &Header) -> Result<(), SkipReason> {
    let bytes = header.data_bytes();
    let options = &shared.options;
    let rest = options
        .bytes_max
        .checked_sub(bytes)
        .ok_or(SkipReason::Size)?;
    let evicted = shared.change(|state| state.index.shrink(rest));
    shared.counters.evicted(evicted);
    if shared.state().index.size().1 > rest {
        return Err(SkipReason::Size);
    }
    match shared.folder.free_bytes() {
        Some(free) if free < options.free_bytes_min.saturating_add(bytes) => {
            shared.complain(&format!("only {free} bytes of the disk are free"));
            Err(SkipReason::Space)
        }
        _ => Ok(()),
    }
}

fn into_file(shared: &Shared, header: &Header, kv: &dyn KvExport) -> io::Result<u64> {
    let mut file = shared.folder.create(header.id)?;
    let begin = header.encode();
    file.write_all(&begin)?;
    let mut checksums = vec![crc32c::crc32c(&begin)];
    let mut bytes = Vec::new();
    for piece in header.pieces() {
        bytes.clear();
        kv.write(piece.tokens, &mut bytes);
        checksums.push(crc32c::crc32c(&bytes));
        file.write_all(&bytes)?;
    }
    let mut end = BufWriter::new(&file);
    for checksum in checksums {
        end.write_all(&checksum.to_le_bytes())?;
    }
    end.flush()?;
    drop(end);
    Ok(file.metadata()?.len())
}

/// Renames a complete file and adds it to the index, unless its response was deleted meanwhile.
/// Returns true if it did.
fn publish(shared: &Shared, header: Header, bytes: u64) -> bool {
    let (id, base) = (header.id, header.base);
    {
        let _disk = shared.disk.lock().ignore_poison();
        let wanted = shared.state().pending.get(&id) == Some(&false);
        match wanted.then(|| shared.folder.publish(id)) {
            Some(Ok(())) => {
                let mut state = shared.state();
                let now_ms = shared.now_ms();
                state.index.put(Entry::new(header, bytes, now_ms, false));
                state.index.touch(id, now_ms);
                return true;
            }
            Some(Err(error)) => {
                tracing::warn!(%error, snapshot = %id, "snapshot rename failed");
                shared.counters.dropped(SkipReason::Failed);
            }
            None => {}
        }
        shared.folder.give_up(id);
    }
    release(shared, base);
    false
}

fn release(shared: &Shared, base: Option<SnapshotId>) {
    if let Some(base) = base {
        shared.change(|state| state.index.release(base));
    }
}

impl Shared {
    /// True if a snapshot's file is still there; if somebody has removed it, it is forgotten. To be
    /// called by who holds `disk`.
    fn has_file(&self, id: SnapshotId) -> bool {
        let is_trunk = self.state().index.get(id).map(|entry| entry.is_trunk);
        let is_there = is_trunk.is_some_and(|is_trunk| self.folder.file(id, is_trunk).exists());
        if !is_there {
            let changes = self.state().index.discard(id);
            self.folder.apply(&changes);
        }
        is_there
    }
}
