//! Random histories of turns, forks, deletions, faults and restarts, compared with a simple model.
//!
//! Every history comes from one seed, which a failure prints. `STEMMA_HISTORY_SEED` replays one
//! seed; `STEMMA_HISTORIES` sets the number of seeds.

mod compare;
mod model;
mod restart;
mod run;
mod torn;

use std::sync::Arc;

use super::super::{
    SledOptions, SledStorage,
    store::{
        Storage,
        faulty::{Fault, Loss},
        memory::MemoryStorage,
    },
};
use run::{History, Restart};

/// Runs `history` for several seeds. A failure prints its seed.
fn for_seeds(default_count: u64, history: impl Fn(u64)) {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(seed) = number("STEMMA_HISTORY_SEED") {
        return history(seed);
    }
    for seed in 0..number("STEMMA_HISTORIES").unwrap_or(default_count) {
        let run = std::panic::AssertUnwindSafe(|| history(seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("the history of seed {seed} failed: STEMMA_HISTORY_SEED={seed} replays it");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn histories_in_memory_match_the_model() {
    for_seeds(10, |seed| {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        let same = move || -> Arc<dyn Storage> { storage.clone() };
        History::new(seed, Restart::always(same)).run(120);
    });
}

#[test]
fn histories_over_sled_match_the_model() {
    for_seeds(5, |seed| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let open = move || -> Arc<dyn Storage> {
            Arc::new(SledStorage::open(&path, &SledOptions::default()).unwrap())
        };
        History::new(seed, Restart::always(open)).run(70);
    });
}

#[test]
fn no_acknowledged_write_is_lost_by_any_fault_of_a_commit() {
    let faults = [
        Fault::FullBeforeWrite,
        Fault::FullBeforeSync,
        Fault::SyncFails,
        Fault::CrashBeforeWrite,
        Fault::CrashBeforeSync,
        Fault::CrashAfterSync,
    ];
    for_seeds(30, |seed| {
        let loss = if seed % 2 == 0 {
            Loss::Lost
        } else {
            Loss::Kept
        };
        History::new(
            seed,
            Restart::faulty(faults[seed as usize % faults.len()], loss),
        )
        .run(60);
    });
}
