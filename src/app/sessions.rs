//! `stemma sessions`: what an operator does with a store that no server has open.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};

use super::{key_ids, snapshots};
use crate::{
    cache::snapshot,
    cli::{SessionsArgs, SessionsCommand},
    session::{
        SessionId, SledOptions, SledStorage,
        admin::{
            archive::{self, Archive},
            carve,
            copy::{self, CopyReport},
            inspect, verify,
        },
        format::record::SessionHeader,
        store::{Direct, Storage as _},
    },
};

/// Runs one of the operator's commands.
pub(super) fn run(args: SessionsArgs) -> anyhow::Result<()> {
    let dir = args.sessions.as_path();
    match args.command {
        SessionsCommand::List => with_store(dir, list),
        SessionsCommand::Show { id } => with_store(dir, |store| show(store, &id)),
        SessionsCommand::Tree { id } => with_store(dir, |store| tree(store, &id)),
        SessionsCommand::Stats => {
            with_store(dir, stats)?;
            tell_snapshots(dir, false)
        }
        SessionsCommand::Verify => {
            let checked = with_store(dir, check);
            tell_snapshots(dir, true)?;
            checked
        }
        SessionsCommand::Export { file, id, carve } => match (carve, id) {
            (true, _) => carve_into(dir, &file),
            (false, id) => with_store(dir, |store| export(store, &file, id.as_deref())),
        },
        SessionsCommand::Import { file } => import(dir, &file),
        SessionsCommand::Backup { dest } => with_store(dir, |store| {
            let report = copy::back_up(store, &dest, &SledOptions::default())?;
            key_ids::copy(dir, &dest)?;
            copied(&report)
        }),
        SessionsCommand::Compact => {
            let store = open(dir)?;
            copied(&copy::compact(store, &SledOptions::default())?)
        }
    }
}

/// Opens a store that is there: looking must not make one.
fn open(dir: &Path) -> anyhow::Result<SledStorage> {
    if !dir.join("store").is_dir() {
        bail!("{} holds no session log", dir.display());
    }
    Ok(SledStorage::open(dir, &SledOptions::default())?)
}

fn with_store(
    dir: &Path,
    work: impl FnOnce(&SledStorage) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let store = open(dir)?;
    let worked = work(&store);
    let closed = store.close();
    worked?;
    Ok(closed?)
}

fn list(store: &SledStorage) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let mut told = Ok(());
    inspect::list(&Direct(store), |id, head| {
        if told.is_ok() {
            told = writeln!(out, "{id}  {}", state(head));
        }
    })?;
    told.context(NO_OUTPUT)
}

fn state(head: &SessionHeader) -> String {
    let state = format!("{:?}", head.state).to_lowercase();
    format!("{:>6} events  {state}", head.events)
}

fn show(store: &SledStorage, id: &str) -> anyhow::Result<()> {
    let shown = inspect::show(&Direct(store), parse(id)?)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", state(&shown.header)).context(NO_OUTPUT)?;
    for (number, event) in shown.events.iter().enumerate() {
        writeln!(out, "{number:>6}  {}", inspect::describe(event)).context(NO_OUTPUT)?;
    }
    Ok(())
}

fn tree(store: &SledStorage, id: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for branch in inspect::tree(&Direct(store), parse(id)?)? {
        let indent = "  ".repeat(branch.level);
        let edge = branch.edge.map(|edge| format!("  {edge:?}").to_lowercase());
        let edge = edge.unwrap_or_default();
        writeln!(
            out,
            "{indent}{}{edge}  {}",
            branch.id,
            state(&branch.header)
        )
        .context(NO_OUTPUT)?;
    }
    Ok(())
}

fn stats(store: &SledStorage) -> anyhow::Result<()> {
    let stats = inspect::stats(&Direct(store))?;
    let mut out = io::stdout().lock();
    for (space, (count, bytes)) in &stats.by_space {
        let space = space.as_str();
        writeln!(out, "{space:<16} {count:>10} values {bytes:>14} bytes").context(NO_OUTPUT)?;
    }
    for (state, count) in &stats.by_state {
        writeln!(out, "sessions, {state}: {count}").context(NO_OUTPUT)?;
    }
    Ok(())
}

fn check(store: &SledStorage) -> anyhow::Result<()> {
    let report = verify::verify(&Direct(store))?;
    let mut out = io::stdout().lock();
    for finding in &report.findings {
        writeln!(out, "{finding}").context(NO_OUTPUT)?;
    }
    if !report.findings.is_empty() {
        bail!(
            "the session log is damaged: {} findings",
            report.findings.len()
        );
    }
    writeln!(
        out,
        "all is well: {} values, {} sessions, {} responses",
        report.records, report.sessions, report.responses
    )
    .context(NO_OUTPUT)
}

fn export(store: &SledStorage, file: &Path, id: Option<&str>) -> anyhow::Result<()> {
    let out = create(file)?;
    let count = match id {
        Some(id) => archive::export_session(&Direct(store), parse(id)?, &out)?,
        None => archive::export_all(&Direct(store), &out)?,
    };
    exported(&out, count)
}

fn carve_into(dir: &Path, file: &Path) -> anyhow::Result<()> {
    let damaged = dir.join("store").join("log").join("db");
    let out = create(file)?;
    let count = carve::carve(&damaged, &out)?;
    exported(&out, count)
}

/// Prints the snapshots on disk beside the log. With `deep`, reads every byte of them. Damaged
/// snapshots are harmless, so they are reported without an error.
fn tell_snapshots(dir: &Path, deep: bool) -> anyhow::Result<()> {
    let folder = dir.join(snapshots::FOLDER);
    let found = snapshot::inspect(&folder, deep)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    let mut out = io::stdout().lock();
    for (name, why) in &found.unusable {
        writeln!(out, "snapshot {name} will be passed over: {why}").context(NO_OUTPUT)?;
    }
    writeln!(
        out,
        "snapshots: {} files, {} bytes, {} not usable",
        found.whole + found.unusable.len() as u64,
        found.bytes,
        found.unusable.len()
    )
    .context(NO_OUTPUT)
}

/// An archive is never written over another file.
fn create(file: &Path) -> anyhow::Result<File> {
    File::create_new(file).with_context(|| format!("cannot make {}", file.display()))
}

fn exported(out: &File, count: u64) -> anyhow::Result<()> {
    out.sync_all().context("the archive is not on disk")?;
    writeln!(io::stdout(), "{count} values written").context(NO_OUTPUT)
}

fn import(dir: &Path, file: &Path) -> anyhow::Result<()> {
    let archive = Archive::open(file)?;
    let store = SledStorage::open(dir, &SledOptions::default())?;
    let report = copy::copy_sessions(&archive, &store);
    store.close()?;
    copied(&report?)
}

fn copied(report: &CopyReport) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for (id, why) in &report.skipped {
        writeln!(out, "left out {id}: {why}").context(NO_OUTPUT)?;
    }
    writeln!(
        out,
        "{} sessions with {} responses copied, {} left out",
        report.sessions,
        report.responses,
        report.skipped.len()
    )
    .context(NO_OUTPUT)
}

/// A session is named by its id, or by its response's.
fn parse(id: &str) -> anyhow::Result<SessionId> {
    let digits = id.strip_prefix("resp_").unwrap_or(id);
    digits
        .parse()
        .ok()
        .with_context(|| format!("`{id}` is not the id of a session or response"))
}

const NO_OUTPUT: &str = "cannot write to standard output";
