//! Authentication of the server: builds the authenticator from flags and files, and reloads it
//! while the server runs.

use std::{convert::Infallible, fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use tokio::time::MissedTickBehavior;

use super::{key_ids, signal::Reload};
use crate::{
    auth::{self, Authenticator, Policy, Secret},
    cli::{AccessArgs, ServeArgs},
    clock::SystemClock,
};

/// Interval at which the policy file is checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Makes the gate.
pub(super) fn open(args: &ServeArgs) -> anyhow::Result<Authenticator> {
    let access = &args.access;
    if let Some(file) = &access.key_policy {
        let policy = read_policy(file)?;
        tracing::info!(keys = policy.keys.len(), file = %file.display(), "key policy loaded");
        return Authenticator::policy(policy, Arc::new(SystemClock))
            .context("keys cannot be checked");
    }
    let secrets = secrets(access)?;
    if secrets.is_empty() {
        if !args.host.is_loopback() && !access.allow_unauthenticated {
            bail!(
                "{} can be reached from other machines, and nobody needs a key: give --key-policy \
                 or --api-key, listen on loopback, or say --allow-unauthenticated",
                args.host
            );
        }
        return Ok(Authenticator::open(access.share_owned));
    }
    Ok(Authenticator::keys(&secrets, access.share_owned))
}

fn secrets(access: &AccessArgs) -> anyhow::Result<Vec<Secret>> {
    let mut secrets = access.api_keys.clone();
    if let Some(file) = &access.api_key_file {
        let text = fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let before = secrets.len();
        secrets.extend(lines.map(|line| Secret::new(line.to_owned())));
        if secrets.len() == before {
            bail!("{} holds no key", file.display());
        }
    }
    let is_fit = |secret: &Secret| Secret::of_header(secret.expose().as_bytes()).is_some();
    if !secrets.iter().all(is_fit) {
        bail!("an --api-key is empty, too long, or has characters that no header can carry");
    }
    Ok(secrets)
}

/// Reads a policy file.
pub(super) fn read_policy(file: &Path) -> anyhow::Result<Policy> {
    let text = fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    auth::parse(&text).with_context(|| file.display().to_string())
}

/// Puts another policy in force, with its ids on record before anybody can use them.
fn enforce(gate: &Authenticator, args: &ServeArgs, policy: Policy) -> anyhow::Result<()> {
    key_ids::add(&args.sessions, policy.keys.keys())?;
    tracing::info!(keys = policy.keys.len(), "key policy reloaded");
    gate.replace(policy);
    Ok(())
}

/// Puts the ids of the policy in force on record; the log's folder must be there.
pub(super) fn record(gate: &Authenticator, args: &ServeArgs) -> anyhow::Result<()> {
    key_ids::add(&args.sessions, gate.key_ids().iter())
}

/// Reads the policy again when its file changes or the process is told to; a bad file changes
/// nothing. Never ends.
pub(super) async fn follow(
    gate: &Authenticator,
    args: &ServeArgs,
    mut reload: Reload,
) -> Infallible {
    let Some(file) = &args.access.key_policy else {
        return std::future::pending().await;
    };
    let mut times = tokio::time::interval(LOOK_EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = mark(file);
    loop {
        let told = tokio::select! {
            () = reload.told() => true,
            _ = times.tick() => false,
        };
        let now = mark(file);
        if !told && now == seen {
            continue;
        }
        seen = now;
        let enforced = read_policy(file).and_then(|policy| enforce(gate, args, policy));
        if let Err(error) = enforced {
            let error = format!("{error:#}");
            tracing::error!(error, "key policy reload failed");
        }
    }
}

/// Returns the file's time, length and inode, which change when the file does.
fn mark(file: &Path) -> Option<(std::time::SystemTime, u64, u64)> {
    let data = fs::metadata(file).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&data);
    #[cfg(not(unix))]
    let inode = 0;
    Some((data.modified().ok()?, data.len(), inode))
}
