//! Creates a store, checks its format version, and upgrades an older format in place.
//!
//! The structs of every format are in `migrations/`. Events keep the bytes they were written with,
//! because the hash chain covers those bytes; readers convert them. A migration step rewrites all
//! other records, one value at a time.

use super::{
    super::{
        error::LogError,
        keys::{Key, KeyRange, Space},
        store::{Direct, ReadStore, Storage, Totals},
        txn::Txn,
    },
    codec::{self, Envelope},
    payload::Payload,
    record::{Format, SCAN_PAGE_ENTRIES, Upgrade, damaged, load, load_totals},
};

/// The format version that this program writes.
pub const FORMAT_VERSION: u32 = 1;

/// The migration steps. Step `n` (from 0) upgrades format `n + 1` to `n + 2`.
pub const STEPS: &[Step] = &[];

/// Converts one record to the next format, or returns `None` to keep it.
pub type Step = fn(&Envelope<'_>) -> Result<Option<Payload>, String>;

/// Prepares a store for the format that `steps` lead to: creates the store if it is empty, or runs
/// the missing steps. After a crash between two commits, a new call continues. Returns the totals.
///
/// # Errors
/// [`LogError::Refused`] if a newer program wrote the store; errors of the storage.
pub fn prepare(storage: &dyn Storage, steps: &[Step]) -> Result<Totals, LogError> {
    let newest = steps.len() as u32 + 1;
    let view = Direct(storage);
    let Some(format) = load::<Format>(&view, &Key::format())? else {
        return create(storage, newest);
    };
    if format.store != storage.id() {
        return Err(LogError::Refused(
            "the session log and its manifest belong to different stores: restore both from the \
             same backup"
                .into(),
        ));
    }
    if format.version > newest {
        return Err(LogError::Refused(newer_format(format.version, newest)));
    }
    let mut totals = load_totals(&view)?;
    for to in format.version + 1..=newest {
        totals = upgrade(storage, totals, to, steps[to as usize - 2])?;
    }
    Ok(totals)
}

/// Returns the message for a store of a newer format.
pub fn newer_format(version: u32, newest: u32) -> String {
    format!(
        "a newer version of stemma wrote this session log (format {version}; this program knows up \
         to {newest}): run that version, or restore a backup made before the upgrade"
    )
}

fn create(storage: &dyn Storage, version: u32) -> Result<Totals, LogError> {
    if let Some((key, _)) = storage.scan(&KeyRange::all(), 1)?.pop() {
        return Err(damaged(&key, &"there is data but no record of the format").into());
    }
    let mut txn = Txn::begin(storage, Totals::default());
    txn.put(
        Key::format(),
        &Format {
            version,
            store: storage.id(),
        },
    );
    let (batch, _) = txn.finish()?;
    storage.commit(&batch)?;
    Ok(batch.totals)
}

fn upgrade(
    storage: &dyn Storage,
    mut totals: Totals,
    to: u32,
    step: Step,
) -> Result<Totals, LogError> {
    loop {
        let mut txn = Txn::begin(storage, totals);
        let done = upgrade_page(&mut txn, to, step)?;
        if done {
            txn.remove(Key::upgrade());
            txn.put(
                Key::format(),
                &Format {
                    version: to,
                    store: storage.id(),
                },
            );
        }
        let (batch, _) = txn.finish()?;
        storage.commit(&batch)?;
        totals = batch.totals;
        if done {
            return Ok(totals);
        }
    }
}

/// Upgrades the next page of values and records the progress. Returns true at the end.
fn upgrade_page(txn: &mut Txn<'_>, to: u32, step: Step) -> Result<bool, LogError> {
    let mut range = KeyRange::all();
    if let Some(upgrade) = load::<Upgrade>(txn, &Key::upgrade())?.filter(|u| u.to == to) {
        range = range.after(&Key::from_bytes(&upgrade.done));
    }
    let page = txn.scan(&range, SCAN_PAGE_ENTRIES)?;
    for (key, value) in &page {
        if matches!(key.space(), Some(Space::Meta | Space::Event)) {
            continue;
        }
        let envelope = codec::open(key, value).map_err(|damage| damaged(key, &damage))?;
        if let Some(payload) = step(&envelope).map_err(|reason| damaged(key, &reason))? {
            txn.put_payload(key.clone(), &payload);
        }
    }
    let Some((last, _)) = page.last() else {
        return Ok(true);
    };
    txn.put(
        Key::upgrade(),
        &Upgrade {
            to,
            done: last.as_bytes().to_vec(),
        },
    );
    Ok(page.len() < SCAN_PAGE_ENTRIES)
}

#[cfg(test)]
mod tests;
