//! Durability of the session log under faults of real processes, files and disks.
//!
//! Rounds are few by default; `STEMMA_ROUNDS` sets the number. Random choices come from a seed that
//! a failure prints and `STEMMA_SEED` sets.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, helpers included, and shows seeds and what it skipped"
)]

mod child;
mod damage;
mod full_disk;
mod kill;
mod power_cut;
mod preload;
mod program;
mod sync_faults;
mod turns;

use std::{env, fs, path::Path};

use rand::{SeedableRng, rngs::StdRng};

/// Returns the number of rounds to run.
fn rounds(default: u64) -> u64 {
    env::var("STEMMA_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Returns a random generator and prints its seed. The test harness shows the output of a failed
/// test.
fn seeded() -> StdRng {
    let seed = env::var("STEMMA_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    println!("STEMMA_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Copies a folder with its contents.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
