//! Damage: the store's file is truncated, extended or changed. Either all data is there, or a
//! sentence reports the damage.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rand::{RngExt, rngs::StdRng};
use stemma::session::{
    SessionId, SledOptions, SledStorage,
    admin::{archive::Archive, carve::carve, copy::copy_sessions},
    store::Storage,
};

use super::{
    child::{self, Role, Writer},
    copy_tree, rounds, seeded, turns,
};

fn db(dir: &Path) -> PathBuf {
    dir.join("store/log/db")
}

/// A store and the ids of its responses.
struct Sample {
    dir: tempfile::TempDir,
    ids: BTreeSet<SessionId>,
    /// True if its process closed the store.
    closed: bool,
}

fn closed_sample() -> Sample {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut ids = BTreeSet::new();
    // Opened twice, so that part of the file is older than sled's last snapshot.
    for half in 0..2 {
        let log = turns::open(dir.path()).unwrap();
        let mut previous = None;
        for n in 0..120_u128 {
            let id = SessionId::from_bits((n * 7 % 256) << 120 | (half * 1_000 + n));
            runtime.block_on(turns::store(&log, id, previous)).unwrap();
            previous = (n % 5 > 0).then_some(id);
            ids.insert(id);
        }
        runtime.block_on(log.close()).unwrap();
    }
    Sample {
        dir,
        ids,
        closed: true,
    }
}

fn killed_sample(seed: u64) -> Sample {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(child::command(Role::WriteUntilKilled, dir.path(), seed));
    std::thread::sleep(std::time::Duration::from_millis(700));
    let output = writer.kill();
    Sample {
        dir,
        ids: output.readable(),
        closed: false,
    }
}

fn damage(file: &File, len: u64, kind: u64, rng: &mut StdRng) -> String {
    match kind % 4 {
        0 => {
            let cut = rng.random_range(1..=len);
            file.set_len(len - cut).unwrap();
            format!("{cut} bytes cut of {len}")
        }
        1 => {
            let cut = rng.random_range(1..4_096.min(len));
            file.set_len(len - cut).unwrap();
            format!("{cut} bytes cut of {len}")
        }
        2 => {
            let junk: Vec<u8> = (0..rng.random_range(1..9_000))
                .map(|_| rng.random())
                .collect();
            file.write_all_at(&junk, len).unwrap();
            format!("{} bytes of junk appended", junk.len())
        }
        _ => {
            let (at, bit) = (rng.random_range(0..len), rng.random_range(0..8));
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
            format!("bit {bit} of byte {at} of {len} flipped")
        }
    }
}

fn sweep(sample: &Sample, trials: u64, rng: &mut StdRng) {
    let mut refused = 0;
    for trial in 0..trials {
        let dir = tempfile::tempdir().unwrap();
        copy_tree(sample.dir.path(), dir.path());
        let file = File::options()
            .read(true)
            .write(true)
            .open(db(dir.path()))
            .unwrap();
        let what = damage(&file, file.metadata().unwrap().len(), trial, rng);
        let damaged = fs::read(db(dir.path())).unwrap();
        let (exited, output) = child::run(child::command(Role::OpenAndCheck, dir.path(), 0));
        assert!(exited, "{what}: the process died: {:?}", output.lines);
        assert_eq!(output.lines_with("found"), 0, "{what}: {:?}", output.lines);
        if output.lines_with("refused") > 0 {
            refused += 1;
            let sentence = output
                .lines
                .iter()
                .find(|line| line.starts_with("refused"))
                .unwrap();
            assert!(sentence.contains("--carve"), "{what}: {sentence}");
            if output.lines_with("closed") == 0 {
                let after = fs::read(db(dir.path())).unwrap();
                assert!(after == damaged, "{what}: the file was changed: {sentence}");
            }
        } else if output.lines_with("damaged") == 0 {
            assert_eq!(output.lines_with("closed"), 2, "{what}: {:?}", output.lines);
            let lost: Vec<_> = sample.ids.difference(&output.whole).collect();
            // After a crash the last commit may be missing, with a warning.
            let allowed = if sample.closed { 0 } else { 16 };
            assert!(
                lost.len() <= allowed,
                "{what}: {} silently lost",
                lost.len()
            );
        }
    }
    println!("{refused} of {trials} refused");
}

#[test]
fn damage_to_a_closed_store_is_reported_and_nothing_is_silently_lost() {
    let mut rng = seeded();
    sweep(&closed_sample(), rounds(24), &mut rng);
}

#[test]
fn damage_to_a_store_that_was_not_closed_loses_its_last_commit_at_most() {
    let mut rng = seeded();
    sweep(&killed_sample(rng.random()), rounds(16), &mut rng);
}

#[test]
fn intact_values_of_a_damaged_file_are_carved_into_a_new_store() {
    let sample = closed_sample();
    let file = File::options()
        .read(true)
        .write(true)
        .open(db(sample.dir.path()))
        .unwrap();
    let len = file.metadata().unwrap().len();
    // Noise in the middle and zeroes at the start, so that sled cannot read the file.
    file.write_all_at(&vec![0xee; 4_096], len / 2).unwrap();
    file.write_all_at(&[0; 64], 0).unwrap();
    let tools = tempfile::tempdir().unwrap();
    let archive = tools.path().join("archive");
    carve(&db(sample.dir.path()), File::create(&archive).unwrap()).unwrap();
    let repaired = tools.path().join("sessions");
    let storage = SledStorage::open(&repaired, &SledOptions::default()).unwrap();
    let report = copy_sessions(&Archive::open(&archive).unwrap(), &storage).unwrap();
    storage.close().unwrap();
    drop(storage);
    assert_eq!(turns::findings(&repaired).unwrap(), [""; 0]);
    let log = turns::open(&repaired).unwrap();
    let whole = sample
        .ids
        .iter()
        .filter(|id| turns::check(&log, **id).is_ok())
        .count();
    println!(
        "{whole} of {} carved, {} skipped",
        sample.ids.len(),
        report.skipped.len()
    );
    assert_eq!(report.responses, whole as u64);
    assert!(
        whole * 10 > sample.ids.len() * 7,
        "{whole} of {}",
        sample.ids.len()
    );
}
