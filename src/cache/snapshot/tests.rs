//! Snapshots in a folder of their own: what is written is what is read, whatever becomes of the files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::*;
use crate::{
    clock::SystemClock,
    limits,
    model::exec::{KvElementType, KvExport},
};

mod chains;
mod damage;
mod index;

const LAYOUT: KvLayout = KvLayout {
    layers: 3,
    heads: 2,
    head_dim: 4,
    element: KvElementType::F16,
};

fn format() -> KvFormat {
    KvFormat {
        layout: LAYOUT,
        compute_id: "a test".to_owned(),
    }
}

const SCOPE: CacheScope = CacheScope(5);
const PATIENCE: Duration = Duration::from_secs(20);

/// KV data that depends on all tokens up to and including its own.
struct Made(Vec<u8>);

fn made(tokens: &[TokenId]) -> Vec<u8> {
    let width = LAYOUT.bytes_per_token();
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(tokens.len() * width);
    for &token in tokens {
        state = (state ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend((0..width as u64).map(|at| (state >> (at % 50)) as u8));
    }
    bytes
}

impl KvExport for Made {
    fn write(&self, tokens: std::ops::Range<usize>, out: &mut Vec<u8>) {
        let width = LAYOUT.bytes_per_token();
        out.extend(&self.0[tokens.start * width..tokens.end * width]);
    }
}

fn options(folder: &Path) -> SnapshotOptions {
    SnapshotOptions {
        folder: folder.join("snapshots"),
        bytes_max: 1 << 30,
        age_ms_max: None,
        free_bytes_min: 0,
        reads_always: false,
        clock: Arc::new(SystemClock),
    }
}

/// A folder with snapshots of one model, opened anew as often as a test wants.
struct Shelf {
    all: Snapshots,
    model: ModelSnapshots,
}

impl Shelf {
    fn open(options: SnapshotOptions) -> Self {
        let all = Snapshots::open(options).expect("threads");
        let model = all.of_model(&[1; 32], &format());
        Self { all, model }
    }

    fn in_folder(folder: &Path) -> Self {
        Self::open(options(folder))
    }

    /// Requests the snapshot of a turn.
    fn write(&self, id: u128, tokens: &[TokenId]) {
        self.keep(id, tokens, Retention::WithResponse);
    }

    fn keep(&self, id: u128, tokens: &[TokenId], keep: Retention) {
        let announced = self.model.announce(SnapshotId(id), SCOPE, keep);
        if let Some(order) = announced.request(tokens.to_vec()) {
            assert_eq!((order.scope(), order.tokens()), (SCOPE, tokens));
            order.submit(Box::new(Made(made(tokens))), tokens.len());
        }
    }

    /// Waits until the save queue is empty.
    fn settle(&self) -> SnapshotStats {
        let begun = std::time::Instant::now();
        while self.all.stats().waiting_bytes > 0 {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.all.stats());
            std::thread::sleep(Duration::from_millis(2));
        }
        self.all.stats()
    }

    /// Restores a prompt and returns the number of restored tokens; all of them must be right.
    fn thawed(&self, prompt: &[TokenId], known: usize) -> usize {
        let Some(restore) = self.model.find(SCOPE, prompt) else {
            return known;
        };
        assert!(restore.len() < prompt.len());
        let width = LAYOUT.bytes_per_token();
        let pieces = restore.start(prompt, known, || {}).expect("a free thread");
        let mut at = known;
        for piece in pieces {
            let expected = &made(prompt)[at * width..(at + piece.tokens) * width];
            assert!(piece.bytes == expected, "tokens from {at} on");
            at += piece.tokens;
        }
        at
    }
}

/// The names of all files, sorted.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join("snapshots")) else {
        return Vec::new();
    };
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

fn file(folder: &Path, id: u128) -> PathBuf {
    let name = format!("{}.safetensors", SnapshotId(id));
    folder.join("snapshots").join(name)
}

fn name(id: u128) -> String {
    format!("{}.safetensors", SnapshotId(id))
}

fn trunk(id: u128) -> String {
    format!("{}.trunk.safetensors", SnapshotId(id))
}

/// Returns tokens that no other seed produces.
fn tokens(seed: u32, count: u32) -> Vec<TokenId> {
    (0..count).map(|n| seed * 1000 + n).collect()
}

/// Returns `tokens` and then `more`.
fn after(tokens: &[TokenId], more: &[TokenId]) -> Vec<TokenId> {
    [tokens, more].concat()
}
