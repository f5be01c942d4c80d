//! `stemma keys`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};

use super::{auth, key_ids};
use crate::{
    auth::{KeyHash, KeyId, Secret},
    cli::KeysCommand,
    session::{
        SledOptions, SledStorage,
        admin::inspect,
        store::{Direct, Storage as _},
    },
};

pub(super) fn run(command: KeysCommand) -> anyhow::Result<()> {
    match command {
        KeysCommand::New {
            id,
            name,
            admin,
            rotate,
            sessions,
        } => {
            if !rotate {
                refuse_known(&id, &sessions)?;
            }
            new(&id, name.as_deref().unwrap_or(id.as_str()), admin, rotate)
        }
        KeysCommand::Hash { id } => hash(&id),
        KeysCommand::Check { file } => check(&file),
    }
}

fn new(id: &KeyId, name: &str, admin: bool, rotate: bool) -> anyhow::Result<()> {
    let secret = Secret::generate(id);
    let hash = hash_of(&secret)?;
    let mut lines = vec![
        "# The secret, which is shown only now:".to_owned(),
        format!("#   {}", secret.expose()),
    ];
    if rotate {
        lines.extend([
            "# The old secret stays good for a while if the old `hash` becomes `previous_hash`,"
                .to_owned(),
            "# with `previous_until = ` a time such as 2027-01-31T12:00:00Z.".to_owned(),
        ]);
    }
    lines.extend([
        "[[key]]".to_owned(),
        format!("id = \"{id}\""),
        // A JSON string is a TOML string.
        format!("name = {}", serde_json::Value::from(name)),
        format!("hash = \"{}\"", hash.as_str()),
    ]);
    if admin {
        lines.push("admin = true".to_owned());
    }
    print(&lines.join("\n"))
}

/// An id that owns something must not become somebody else's.
fn refuse_known(id: &KeyId, sessions: &Path) -> anyhow::Result<()> {
    let is_known = key_ids::read(sessions)?.contains(id.as_str()) || owns(id, sessions)?;
    if is_known {
        bail!(
            "the key `{id}` is known to the session log in {}: say --rotate for another secret of \
             the same key, or choose another id",
            sessions.display()
        );
    }
    Ok(())
}

/// Checks if the id owns a session. If a server has the log open, the list of key ids beside the
/// log is read instead.
fn owns(id: &KeyId, sessions: &Path) -> anyhow::Result<bool> {
    if !sessions.join("store").is_dir() {
        return Ok(false);
    }
    let Ok(store) = SledStorage::open(sessions, &SledOptions::default()) else {
        return Ok(false);
    };
    let mut owns = false;
    let listed = inspect::list(&Direct(&store), |_, head| {
        owns |= head.owner.as_deref() == Some(id.as_str());
    });
    store.close()?;
    listed?;
    Ok(owns)
}

fn hash(id: &KeyId) -> anyhow::Result<()> {
    let text = io::read_to_string(io::stdin()).context("cannot read standard input")?;
    let secret = Secret::new(text.trim().to_owned());
    if secret.key_id().as_ref() != Some(id) {
        bail!(
            "a secret of the key `{id}` looks like sk-stemma-{id}-RANDOM, RANDOM being letters and digits"
        );
    }
    print(hash_of(&secret)?.as_str())
}

fn check(file: &Path) -> anyhow::Result<()> {
    let policy = auth::read_policy(file)?;
    print(&format!(
        "{}: all is well, {} keys",
        file.display(),
        policy.keys.len()
    ))
}

fn hash_of(secret: &Secret) -> anyhow::Result<KeyHash> {
    KeyHash::of(secret).map_err(|error| anyhow::anyhow!("the secret cannot be hashed: {error}"))
}

fn print(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}
