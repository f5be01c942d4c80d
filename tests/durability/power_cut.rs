//! Power cuts: a store on a loop-mounted image, whose copy is what a disk would hold. The file system is stopped
//! before it is copied, because one that goes on while it is copied is of several moments.

use std::{
    ffi::OsStr,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use rand::RngExt;

use super::{
    child::{self, Role, Said, Writer},
    preload, rounds, seeded, turns,
};

/// Runs a command; returns what it printed, or the error it gave.
fn run(program: &str, args: &[&dyn AsRef<OsStr>]) -> Result<(), String> {
    let out = Command::new(program)
        .args(args.iter().map(AsRef::as_ref))
        .output();
    match out {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// The source of a program that stops a file system.
const SHUTDOWN: &str = include_str!("shutdown.c");

/// A mounted image of a journaled file system.
pub(super) struct Disk {
    pub(super) at: PathBuf,
    image: PathBuf,
    /// The program that stops it.
    shutdown: PathBuf,
}

impl Disk {
    pub(super) fn make(image: PathBuf, at: PathBuf) -> Result<Self, String> {
        fs::File::create(&image)
            .unwrap()
            .set_len(192 << 20)
            .unwrap();
        run("mkfs.ext4", &[&"-q", &"-F", &image])?;
        let (source, shutdown) = (image.with_extension("c"), image.with_extension("shutdown"));
        fs::write(&source, SHUTDOWN).unwrap();
        run("cc", &[&"-o", &shutdown, &source])?;
        Self::mount(image, at, shutdown)
    }

    fn mount(image: PathBuf, at: PathBuf, shutdown: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&at).unwrap();
        run("mount", &[&"-o", &"loop", &image, &at])?;
        Ok(Self {
            at,
            image,
            shutdown,
        })
    }

    /// Cuts the power: mounts, in this disk's stead, what has reached its image by now.
    pub(super) fn cut(self, copy: PathBuf, at: PathBuf) -> Result<Self, String> {
        run(&self.shutdown.to_string_lossy(), &[&self.at])?;
        fs::copy(&self.image, &copy).unwrap();
        let shutdown = self.shutdown.clone();
        drop(self);
        Self::mount(copy, at, shutdown)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run("umount", &[&"-l", &self.at]);
    }
}

fn sessions(at: &Path) -> PathBuf {
    at.join("sessions")
}

/// Writes for a while, cuts the power; returns what was said and the disk as it was then.
fn cut(
    dir: &Path,
    (role, seed): (Role, u64),
    millis: u64,
    environment: &[(&str, &OsStr)],
) -> Result<(Said, Disk), String> {
    let disk = Disk::make(dir.join("image"), dir.join("before"))?;
    let mut command = child::command(role, &sessions(&disk.at), seed);
    command.envs(environment.iter().copied());
    let writer = Writer::start(command);
    thread::sleep(Duration::from_millis(millis));
    let said = writer.kill();
    Ok((said, disk.cut(dir.join("copy"), dir.join("after"))?))
}

/// Cuts the power of `rounds` writers, each after a delay, and checks the store.
fn assert_cuts_lose_nothing(
    rounds: u64,
    role: Role,
    millis: Range<u64>,
    environment: &[(&str, &OsStr)],
) {
    let mut rng = seeded();
    let mut acknowledged = 0;
    for round in 0..rounds {
        let dir = tempfile::tempdir().unwrap();
        let millis = rng.random_range(millis.clone());
        let (said, disk) = match cut(dir.path(), (role, rng.random()), millis, environment) {
            Ok(cut) => cut,
            Err(why) => return println!("skipped: it needs root and loop devices: {why}"),
        };
        acknowledged += said.stored.len();
        child::assert_holds(&sessions(&disk.at), &said, &format!("round {round}"));
    }
    println!("{acknowledged} turns acknowledged, none lost");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() {
    assert_cuts_lose_nothing(rounds(24), Role::WriteForEver, 30..900, &[]);
}

/// Commits are large and syncs slow, so that the power is cut between what a commit writes and its syncs, when
/// sled has used space again whose contents it has moved.
#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut_within_a_large_commit() {
    let tools = tempfile::tempdir().unwrap();
    let library = match preload::build(tools.path()) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let environment = [
        ("LD_PRELOAD", library.as_os_str()),
        ("STEMMA_SLOW_SYNC_MS", "60".as_ref()),
    ];
    assert_cuts_lose_nothing(rounds(8), Role::WriteMuch, 2_000..4_000, &environment);
}

/// The tests above can fail: without the syncs they do.
#[test]
fn without_syncs_a_power_cut_loses_acknowledged_turns() {
    let dir = tempfile::tempdir().unwrap();
    let library = match preload::build(dir.path()) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    let environment = [
        ("LD_PRELOAD", library.as_os_str()),
        ("STEMMA_NO_SYNC", "1".as_ref()),
    ];
    let (said, disk) = match cut(dir.path(), (Role::WriteForEver, 1), 400, &environment) {
        Ok(cut) => cut,
        Err(why) => return println!("skipped: it needs root and loop devices: {why}"),
    };
    assert!(!said.kept().is_empty());
    let store = sessions(&disk.at);
    let lost = match turns::open(&store) {
        Ok(log) => said
            .kept()
            .iter()
            .filter(|id| turns::check(&log, **id).is_err())
            .count(),
        Err(error) => {
            println!("{error}");
            said.kept().len()
        }
    };
    println!(
        "{lost} of {} acknowledged turns lost without syncs",
        said.kept().len()
    );
    assert!(
        lost > 0,
        "a power cut without syncs lost nothing: the test proves nothing"
    );
}
