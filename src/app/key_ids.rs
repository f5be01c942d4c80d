//! The ids of all keys that ever had access to a session log: a file beside it, which can be read
//! while a server has the log open. An id that was used must not go to somebody else, who would own
//! what its first bearer created.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use anyhow::Context as _;

use crate::auth::KeyId;

const FILE: &str = "key-ids";

/// Adds what is new.
pub(super) fn add<'a>(sessions: &Path, ids: impl Iterator<Item = &'a KeyId>) -> anyhow::Result<()> {
    let known = read(sessions)?;
    let new: String = ids
        .filter(|id| !known.contains(id.as_str()))
        .map(|id| format!("{id}\n"))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    append(sessions, &new).with_context(|| {
        let path = sessions.join(FILE);
        format!("cannot write {}", path.display())
    })
}

fn append(sessions: &Path, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    let mut file = file.append(true).create(true).open(sessions.join(FILE))?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()
}

/// Takes them over to a copy of the log.
pub(super) fn copy(sessions: &Path, to: &Path) -> anyhow::Result<()> {
    let ids: Result<Vec<KeyId>, _> = read(sessions)?.iter().map(|id| KeyId::new(id)).collect();
    let ids = ids.with_context(|| sessions.join(FILE).display().to_string())?;
    add(to, ids.iter())
}

/// All of them.
pub(super) fn read(sessions: &Path) -> anyhow::Result<BTreeSet<String>> {
    let path = sessions.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_once_and_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = folder.path().join("sessions");
        fs::create_dir(&sessions).expect("a folder");
        let ids = ["b", "a"].map(|id| KeyId::new(id).expect("an id"));
        assert!(read(&sessions).expect("readable").is_empty());
        add(&sessions, ids[..1].iter()).expect("written");
        add(&sessions, ids.iter()).expect("written");
        add(&sessions, std::iter::empty()).expect("nothing to do");
        let text = fs::read_to_string(sessions.join(FILE)).expect("a file");
        assert_eq!(text, "b\na\n");
        assert!(read(&sessions).expect("readable").contains("a"));
        let copied = folder.path().join("copy");
        fs::create_dir(&copied).expect("a folder");
        copy(&sessions, &copied).expect("copied");
        assert_eq!(
            read(&copied).expect("readable"),
            read(&sessions).expect("readable")
        );
    }
}
