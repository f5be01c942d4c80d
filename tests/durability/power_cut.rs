//! Power cuts: a store on a loop-mounted image, copied as the disk would be at that moment. The
//! file system is shut down before the copy, because a copy of a running file system mixes several
//! moments.

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
    child::{self, Output, Role, Writer},
    preload, rounds, seeded, turns,
};

/// Runs a command. Returns its error output if it fails.
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

/// The source of a program that shuts down an ext4 file system.
const SHUTDOWN: &str = include_str!("shutdown.c");

/// A mounted image of a journaled file system.
pub(super) struct Disk {
    pub(super) at: PathBuf,
    image: PathBuf,
    /// The program that shuts the file system down.
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

    /// Cuts the power: shuts the file system down and mounts a copy of its image.
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

/// Writes for a while, then cuts the power. Returns the acknowledged writes and the disk after the
/// cut.
fn cut(
    dir: &Path,
    (role, seed): (Role, u64),
    millis: u64,
    environment: &[(&str, &OsStr)],
) -> Result<(Output, Disk), String> {
    let disk = Disk::make(dir.join("image"), dir.join("before"))?;
    let mut command = child::command(role, &sessions(&disk.at), seed);
    command.envs(environment.iter().copied());
    let writer = Writer::start(command);
    thread::sleep(Duration::from_millis(millis));
    let output = writer.kill();
    Ok((output, disk.cut(dir.join("copy"), dir.join("after"))?))
}

/// Cuts the power in `rounds` rounds after a random time in `millis`, and checks that no
/// acknowledged write is lost.
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
        let (output, disk) = match cut(dir.path(), (role, rng.random()), millis, environment) {
            Ok(cut) => cut,
            Err(why) => return println!("skipped: it needs root and loop devices: {why}"),
        };
        acknowledged += output.stored.len();
        child::assert_contains_all(&sessions(&disk.at), &output, &format!("round {round}"));
    }
    println!("{acknowledged} turns acknowledged, none lost");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() {
    assert_cuts_lose_nothing(rounds(24), Role::WriteUntilKilled, 30..900, &[]);
}

/// Commits are large and syncs slow. So the power is cut between the writes of a commit and its
/// syncs, when sled has reused the space of moved data.
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
    assert_cuts_lose_nothing(rounds(8), Role::WriteLarge, 2_000..4_000, &environment);
}

/// Proves that the tests above can fail: without syncs, acknowledged turns are lost.
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
    let (output, disk) = match cut(dir.path(), (Role::WriteUntilKilled, 1), 400, &environment) {
        Ok(cut) => cut,
        Err(why) => return println!("skipped: it needs root and loop devices: {why}"),
    };
    assert!(!output.readable().is_empty());
    let store = sessions(&disk.at);
    let lost = match turns::open(&store) {
        Ok(log) => output
            .readable()
            .iter()
            .filter(|id| turns::check(&log, **id).is_err())
            .count(),
        Err(error) => {
            println!("{error}");
            output.readable().len()
        }
    };
    println!(
        "{lost} of {} acknowledged turns lost without syncs",
        output.readable().len()
    );
    assert!(
        lost > 0,
        "a power cut without syncs lost nothing: the test proves nothing"
    );
}
