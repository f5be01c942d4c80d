//! Snapshot counters, and the measured read speed.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The reason why a requested snapshot was not saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The save queue was full.
    Queue,
    /// The prefix cache no longer held the tokens.
    Memory,
    /// The snapshot exceeds the size limit of the directory.
    Size,
    /// The disk is nearly full.
    Space,
    /// Writing the file failed.
    Failed,
}

impl SkipReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Queue,
        Self::Memory,
        Self::Size,
        Self::Space,
        Self::Failed,
    ];

    /// Returns the label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Memory => "memory",
            Self::Size => "size",
            Self::Space => "space",
            Self::Failed => "failed",
        }
    }
}

/// Snapshot counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotStats {
    /// Files in the directory.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of keys and values that wait to be written.
    pub waiting_bytes: u64,
    /// Snapshots written.
    pub written: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time spent on writing.
    pub write_time: Duration,
    /// Snapshots requested but not written, in the order of [`SkipReason::ALL`].
    pub skipped: [u64; SkipReason::ALL.len()],
    /// Restored prefixes.
    pub reads: u64,
    /// Tokens of restored prefixes.
    pub read_tokens: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time spent on reading.
    pub read_time: Duration,
    /// Files evicted because of their age or to make room.
    pub evicted: u64,
    /// Unusable files.
    pub unusable: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    waiting_bytes: AtomicU64,
    written: AtomicU64,
    written_bytes: AtomicU64,
    write_nanos: AtomicU64,
    dropped: [AtomicU64; SkipReason::ALL.len()],
    reads: AtomicU64,
    read_tokens: AtomicU64,
    read_bytes: AtomicU64,
    read_nanos: AtomicU64,
    evicted: AtomicU64,
    unusable: AtomicU64,
    /// Nanoseconds for each MiB; 0 before the first measurement.
    nanos_per_mib: AtomicU64,
}

/// Reads below this say more of opening files than of reading them.
const TIMED_BYTES_MIN: u64 = 1 << 20;

/// Returns an exponential moving average; never 0, because 0 means "not measured yet".
#[must_use]
pub fn smoothed(before: u64, latest: u64) -> u64 {
    let smoothed = match before {
        0 => latest,
        _ => before - before / 4 + latest / 4,
    };
    smoothed.max(1)
}

impl Counters {
    /// Reserves room in the save queue. An empty queue accepts any size.
    pub(super) fn enqueue(&self, bytes: u64, bytes_max: u64) -> bool {
        let took = self
            .waiting_bytes
            .fetch_update(Relaxed, Relaxed, |waiting| {
                let all = waiting.saturating_add(bytes);
                (waiting == 0 || all <= bytes_max).then_some(all)
            });
        took.is_ok()
    }

    pub(super) fn dequeue(&self, bytes: u64) {
        self.waiting_bytes.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn wrote(&self, bytes: u64, time: Duration) {
        self.written.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes, Relaxed);
        self.write_nanos.fetch_add(nanos(time), Relaxed);
    }

    pub(super) fn dropped(&self, why: SkipReason) {
        self.dropped[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self, tokens: usize, bytes: u64, time: Duration) {
        self.reads.fetch_add(1, Relaxed);
        self.read_tokens.fetch_add(tokens as u64, Relaxed);
        self.read_bytes.fetch_add(bytes, Relaxed);
        self.read_nanos.fetch_add(nanos(time), Relaxed);
        if bytes >= TIMED_BYTES_MIN {
            let latest = nanos(time).saturating_mul(1 << 20) / bytes;
            let before = self.nanos_per_mib.load(Relaxed);
            self.nanos_per_mib.store(smoothed(before, latest), Relaxed);
        }
    }

    /// Estimates the time to read `bytes`; zero before the first measurement.
    pub(super) fn read_time(&self, bytes: u64) -> Duration {
        let nanos_per_mib = u128::from(self.nanos_per_mib.load(Relaxed));
        let nanos = nanos_per_mib * u128::from(bytes) / (1 << 20);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(super) fn evicted(&self, files: usize) {
        self.evicted.fetch_add(files as u64, Relaxed);
    }

    pub(super) fn unusable(&self) {
        self.unusable.fetch_add(1, Relaxed);
    }

    pub(super) fn stats(&self) -> SnapshotStats {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        SnapshotStats {
            files: 0,
            bytes: 0,
            waiting_bytes: load(&self.waiting_bytes),
            written: load(&self.written),
            written_bytes: load(&self.written_bytes),
            write_time: Duration::from_nanos(load(&self.write_nanos)),
            skipped: self.dropped.each_ref().map(load),
            reads: load(&self.reads),
            read_tokens: load(&self.read_tokens),
            read_bytes: load(&self.read_bytes),
            read_time: Duration::from_nanos(load(&self.read_nanos)),
            evicted: load(&self.evicted),
            unusable: load(&self.unusable),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
