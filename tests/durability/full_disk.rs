//! Full disk: writes fail, reads work, and writes resume when there is space.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use stemma::session::{LogError, SessionId};

use super::turns;

/// A small file system in memory. Dropping it unmounts it.
pub(super) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(super) fn mount(mebibytes: u32) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(out) if out.status.success() => Ok(Self(dir)),
            _ => Err("it needs the right to mount a small file system".into()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all space left, also for small writes. Returns the file that takes the space.
    pub(super) fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut filler = File::create(&path).unwrap();
        let error = io::copy(&mut io::repeat(1), &mut filler).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_stops_writes_only_and_they_resume_when_there_is_space() {
    let disk = match SmallDisk::mount(32) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: {why}"),
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 10 << 20]).unwrap();
    let dir = disk.path().join("sessions");
    let log = turns::open(&dir).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut stored = Vec::new();
    let mut store_until = |failing: bool, tries: u32| {
        for n in 0..tries {
            let number = stored.len() as u32 * 100_000 + n;
            // The first byte of the id determines the length of the body.
            let id = SessionId::from_bits(0x20 << 120 | u128::from(number));
            match runtime.block_on(turns::store(&log, id, None)) {
                Ok(()) => {
                    stored.push(id);
                    if !failing {
                        return true;
                    }
                }
                Err(LogError::Unavailable(why)) => {
                    assert!(why.contains("no space"), "{why}");
                    stored
                        .iter()
                        .for_each(|id| turns::check(&log, *id).unwrap());
                    if failing {
                        return true;
                    }
                    std::thread::sleep(Duration::from_millis(60));
                }
                Err(error) => panic!("{error}"),
            }
        }
        false
    };
    assert!(store_until(true, 10_000), "the disk did not fill");
    assert!(!store_until(false, 8), "the disk was not full");
    fs::remove_file(&ballast).unwrap();
    assert!(store_until(false, 50), "writes did not resume");
    assert!(store_until(false, 1) && store_until(false, 1));
    stored
        .iter()
        .for_each(|id| turns::check(&log, *id).unwrap());
    runtime.block_on(log.close()).unwrap();
    drop(log);
    assert_eq!(turns::findings(&dir).unwrap(), [""; 0]);
    let log = turns::open(&dir).unwrap();
    stored
        .iter()
        .for_each(|id| turns::check(&log, *id).unwrap());
}
