//! KV snapshots: prefixes of KV caches on disk, so that a conversation is warm after a restart.
//!
//! All of it is derived data: the session log is the truth. If a snapshot is missing, damaged or of
//! another model, its tokens are prefilled again. [`file`] is the file format, [`index`] knows the
//! files and their eviction order, [`dir`] names and opens them. One thread [saves](save), a few
//! threads [restore](restore). Only the request that needs a snapshot waits for it.

mod file;
mod index;
mod inspect;
mod restore;
mod save;

mod dir;
mod stats;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
    thread::JoinHandle,
    time::Duration,
};

use sha2::{Digest as _, Sha256};

pub use inspect::{Inspection, inspect};
pub use restore::{job::KvChunk, plan::RestorePlan};
pub use save::request::{SaveRequest, SaveReservation};
pub use stats::{SkipReason, SnapshotStats, smoothed};

use self::index::{Change, Index};
use super::CacheScope;
use crate::{
    clock::Clock,
    id::TokenId,
    lock::IgnorePoison as _,
    model::exec::{KvFormat, KvLayout},
};
use dir::SnapshotDir;
use file::hash::Namespace;
use restore::{job::RestoreJob, reader};
use save::{job::Write, writer};
use stats::Counters;

/// Snapshot id: the bits of the id of the response whose turn the snapshot ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u128);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The lifetime of a snapshot, if it is used and there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// Until the response is deleted.
    WithResponse,
    /// Until this Unix time in milliseconds.
    UntilMs(i64),
}

/// Directory, size and lifetime of snapshots.
#[derive(Clone)]
pub struct SnapshotOptions {
    /// The folder, made when there is something to put into it.
    pub folder: PathBuf,
    /// Maximum bytes of all files.
    pub bytes_max: u64,
    /// Maximum time since the last use; `None` for no limit.
    pub age_ms_max: Option<i64>,
    /// Disk space that snapshots leave free.
    pub free_bytes_min: u64,
    /// True if prompts go on from snapshots even where computing is estimated to be faster, as tests
    /// want it, whose models take no time.
    pub reads_always: bool,
    /// Clock for the time of last use.
    pub clock: Arc<dyn Clock>,
}

/// Snapshot directory with its threads. Clones share both.
#[derive(Clone)]
pub struct Snapshots {
    handle: Handle,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// Snapshots of one model.
#[derive(Clone)]
pub struct ModelSnapshots {
    handle: Handle,
    model: [u8; 32],
    layout: KvLayout,
}

/// State that all threads share, and the channels to the worker threads. The threads end with the
/// last handle.
#[derive(Clone)]
struct Handle {
    shared: Arc<Shared>,
    writes: SyncSender<Write>,
    reads: SyncSender<RestoreJob>,
}

struct Shared {
    options: SnapshotOptions,
    folder: SnapshotDir,
    /// Held while files change, and locked before `state`. So files and index agree, and lookups do
    /// not wait for the disk.
    disk: Mutex<()>,
    state: Mutex<State>,
    /// Notified after the first scan.
    scanned: Condvar,
    counters: Counters,
    /// True if the last write failed, so that a full disk is logged once.
    is_in_trouble: AtomicBool,
}

#[derive(Default)]
struct State {
    index: Index,
    /// True if the folder has been looked through.
    is_scanned: bool,
    /// Snapshots in the save queue. The value is true if the response was deleted meanwhile.
    pending: HashMap<SnapshotId, bool>,
}

/// Until a folder on a slow disk has been looked through, prompts are read instead.
const SCAN_PATIENCE: Duration = Duration::from_secs(5);

impl Snapshots {
    /// Starts the threads. The writer thread scans the directory first.
    ///
    /// # Errors
    /// A text if a thread cannot be started.
    pub fn open(options: SnapshotOptions) -> Result<Self, String> {
        let (writes, to_write) = writer::queue();
        let (reads, to_read) = reader::queue();
        let shared = Arc::new(Shared {
            folder: SnapshotDir::new(options.folder.clone()),
            options,
            disk: Mutex::default(),
            state: Mutex::default(),
            scanned: Condvar::new(),
            counters: Counters::default(),
            is_in_trouble: AtomicBool::new(false),
        });
        let started = writer::start(&shared, to_write)
            .and_then(|writer| reader::start(&shared, to_read).map(|()| writer));
        let writer = started
            .map_err(|error| format!("a thread for snapshots cannot be started: {error}"))?;
        Ok(Self {
            handle: Handle {
                shared,
                writes,
                reads,
            },
            writer: Arc::new(Mutex::new(Some(writer))),
        })
    }

    /// Returns the snapshots of a model. `files` is a digest of everything that its weights depend
    /// on.
    #[must_use]
    pub fn of_model(&self, files: &[u8; 32], format: &KvFormat) -> ModelSnapshots {
        let mut hasher = Sha256::new();
        hasher.update(files);
        hasher.update(format!("{format:?}"));
        ModelSnapshots {
            handle: self.handle.clone(),
            model: hasher.finalize().into(),
            layout: format.layout,
        }
    }

    /// Says in the log how many there are of other models than these.
    pub fn tell_foreign<'a>(&self, models: impl Iterator<Item = &'a ModelSnapshots>) {
        let models: Vec<[u8; 32]> = models.map(|model| model.model).collect();
        let files = self.handle.shared.scanned_state().index.foreign(&models);
        if files > 0 {
            tracing::info!(files, "snapshots of other models or settings ignored");
        }
    }

    /// Removes the snapshot of a response that is deleted, also one that is still to be written. What
    /// others build on stays until the last of them goes. Touches the disk.
    pub fn forget(&self, id: SnapshotId) {
        self.handle.shared.change(|state| {
            if let Some(unwanted) = state.pending.get_mut(&id) {
                *unwanted = true;
            }
            state.index.forget(id)
        });
    }

    /// Removes expired snapshots, and snapshots of responses for which `is_there` is false. Does
    /// disk I/O.
    pub fn sweep(&self, is_there: impl Fn(SnapshotId) -> bool) {
        let shared = &self.handle.shared;
        let ids = shared.scanned_state().index.of_responses();
        for id in ids {
            if !is_there(id) {
                self.forget(id);
            }
        }
        let now_ms = shared.now_ms();
        let age_ms_max = shared.options.age_ms_max;
        let used_before_ms = age_ms_max.map_or(i64::MIN, |age_ms| now_ms.saturating_sub(age_ms));
        let expired = shared.change(|state| state.index.expire(used_before_ms, now_ms));
        shared.counters.evicted(expired);
    }

    /// Returns counts since the start.
    #[must_use]
    pub fn stats(&self) -> SnapshotStats {
        let shared = &self.handle.shared;
        let (files, bytes) = shared.state().index.size();
        SnapshotStats {
            files: files as u64,
            bytes,
            ..shared.counters.stats()
        }
    }

    /// Writes all queued snapshots, then stops the writer thread and waits for it.
    pub fn close(&self) {
        // A full queue has room again soon; the writer takes one after the other.
        let _ = self.handle.writes.send(Write::Stop);
        if let Some(writer) = self.writer.lock().ignore_poison().take() {
            let _ = writer.join();
        }
    }
}

impl ModelSnapshots {
    /// Plans the restore of a prompt's prefix. At least the prompt's last token is left to prefill.
    #[must_use]
    pub fn find(&self, scope: CacheScope, prompt: &[TokenId]) -> Option<RestorePlan> {
        let (_, tokens) = prompt.split_last()?;
        let realm = self.realm(scope);
        let state = self.handle.shared.scanned_state();
        let id = state.index.longest(realm, tokens, false)?;
        let chain = state.index.chain(id);
        Some(RestorePlan::new(&self.handle, realm, self.layout, &chain))
    }

    /// Says that the turn of this response is about to end and that its snapshot will be wanted. To be
    /// called before anybody can delete the response.
    #[must_use]
    pub fn announce(&self, id: SnapshotId, scope: CacheScope, keep: Retention) -> SaveReservation {
        SaveReservation::new(self, id, scope, keep)
    }

    fn realm(&self, scope: CacheScope) -> Namespace {
        Namespace {
            model: self.model,
            scope,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }

    /// The state once the folder has been looked through, or after a while.
    fn scanned_state(&self) -> MutexGuard<'_, State> {
        let waits = |state: &mut State| !state.is_scanned;
        let waited = self
            .scanned
            .wait_timeout_while(self.state(), SCAN_PATIENCE, waits);
        waited.ignore_poison().0
    }

    /// Changes the index, and then the files. Gives the number of files that changed.
    fn change(&self, act: impl FnOnce(&mut State) -> Vec<Change>) -> usize {
        let _disk = self.disk.lock().ignore_poison();
        let changes = act(&mut self.state());
        self.folder.apply(&changes);
        changes.len()
    }

    /// Says why there is no snapshot, once until there is one again.
    fn complain(&self, why: &dyn fmt::Display) {
        let folder = self.folder.path().display();
        if !self.is_in_trouble.swap(true, Ordering::Relaxed) {
            tracing::warn!(%why, %folder, "snapshot write failed");
        }
    }

    fn now_ms(&self) -> i64 {
        self.options.clock.now().as_millisecond()
    }

    /// Drops a snapshot that turned out to be of no use, and those that build on it.
    fn discard(&self, id: SnapshotId, why: &str) {
        tracing::warn!(snapshot = %id, why, "snapshot ignored");
        self.counters.unusable();
        self.change(|state| state.index.discard(id));
    }
}
