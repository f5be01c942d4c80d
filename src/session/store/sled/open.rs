//! Opens or creates a store. The files are checked before sled opens them.

use std::{
    fs,
    path::Path,
    sync::{Mutex, RwLock},
};

use super::{
    Counters, Paths, SledOptions, SledStorage, Writer, WriterState, db::Db, files, log_check,
    manifest::ManifestFile,
};
use crate::session::{
    format::{
        codec,
        migrate::{self, FORMAT_VERSION},
        record::{Format, Manifest, damaged, for_each_entry, load},
    },
    keys::{Key, KeyRange},
    store::{StorageError, Totals},
};

pub(super) fn open(dir: &Path, options: &SledOptions) -> Result<SledStorage, StorageError> {
    let paths = Paths {
        dir: dir.to_owned(),
    };
    files::make_private_dir(dir)?;
    let lock = files::lock(&paths.lock())?;
    files::make_private(dir);
    remove_leftovers(&paths)?;
    if !paths.store().exists() {
        create(&paths, options)?;
    }
    let mut manifest = open_manifest(&paths)?;
    if let Some(reason) = precheck(&paths, &manifest.current)? {
        tracing::warn!(%reason, "session log suspect: checking a copy first");
        trial_open(&paths, options, &manifest.current)
            .map_err(|error| refused(&paths, &format!("{reason}, and {error}")))?;
    }
    let db = open_db(&paths, options)?;
    let durable = check_against(&manifest.current, &db)
        .map_err(|error| refused(&paths, &error.to_string()))?;
    files::sync_tree(&paths.store())?;
    let db_file = files::open_existing(&paths.db_file())?;
    if !manifest.current.closed {
        tracing::warn!(
            commit = durable.commit,
            "unclean shutdown: unacknowledged writes may be missing"
        );
    }
    let store = manifest.current.store;
    let len = db_file
        .metadata()
        .map_err(files::failed("reading the length of", &paths.db_file()))?
        .len();
    manifest.write(Manifest {
        totals: durable,
        db_len_bytes: len,
        closed: false,
        ..manifest.current
    })?;
    manifest.sync()?;
    let state = match files::allocate_reserve(&paths.reserve()) {
        Ok(()) => WriterState::Ready,
        Err(StorageError::Full(why)) => WriterState::Full(why),
        Err(error) => return Err(error),
    };
    let writer = Mutex::new(Writer {
        db_file,
        manifest,
        durable,
        state,
    });
    let db = RwLock::new(db);
    Ok(SledStorage {
        paths,
        options: *options,
        store,
        db,
        writer,
        counters: Counters::default(),
        lock,
    })
}

/// Opens sled. On a full disk, frees the reserve and tries again.
fn open_db(paths: &Paths, options: &SledOptions) -> Result<Db, StorageError> {
    let open = || {
        let db = Db::open(&paths.sled_dir(), options.cache_bytes)?;
        db.flush().map(|()| db)
    };
    let opened = match open() {
        Err(StorageError::Full(_)) => {
            files::free_reserve(&paths.reserve())?;
            open()
        }
        opened => opened,
    };
    opened.map_err(|error| match error {
        full @ StorageError::Full(_) => full,
        other => refused(paths, &other.to_string()),
    })
}

/// Cleans up after a crash: removes temporary copies, and restores a replaced store without a
/// successor.
fn remove_leftovers(paths: &Paths) -> Result<(), StorageError> {
    files::remove_tree(&paths.new_store())?;
    files::remove_tree(&paths.trial())?;
    files::remove_tree(&paths.replacement())?;
    if !paths.old_store().exists() {
        return Ok(());
    }
    if paths.store().exists() {
        return files::remove_tree(&paths.old_store());
    }
    files::rename_dir(&paths.old_store(), &paths.store())
}

/// Creates an empty store under another name and renames it, so that a visible store is always
/// complete.
fn create(paths: &Paths, options: &SledOptions) -> Result<(), StorageError> {
    let new = paths.new_store();
    files::make_private_dir(&new)?;
    let sled_dir = new.join("log");
    let mut db = Db::open(&sled_dir, options.cache_bytes)?;
    db.flush()?;
    db.close();
    let db = sled_dir.join("db");
    let len = fs::metadata(&db)
        .map_err(files::failed("reading the length of", &db))?
        .len();
    let log_end = log_check::check(&sled_dir)?.end;
    let first = Manifest {
        version: FORMAT_VERSION,
        store: rand::random(),
        generation: 0,
        totals: Totals::default(),
        db_len_bytes: len,
        log_end,
        closed: true,
    };
    ManifestFile::create(&new.join("manifest"), first)?;
    files::sync_tree(&new)?;
    files::rename_dir(&new, &paths.store())
}

fn open_manifest(paths: &Paths) -> Result<ManifestFile, StorageError> {
    let manifest = ManifestFile::open(&paths.manifest())?;
    let version = manifest.current.version;
    if version > FORMAT_VERSION {
        let sentence = migrate::newer_format(version, FORMAT_VERSION);
        return Err(StorageError::Refused(sentence));
    }
    Ok(manifest)
}

/// Checks the files before sled may open them. Returns a sentence if they are suspect.
fn precheck(paths: &Paths, manifest: &Manifest) -> Result<Option<String>, StorageError> {
    let path = paths.db_file();
    for needed in [path.clone(), paths.sled_dir().join("conf")] {
        if !needed.is_file() {
            return Err(refused(paths, &format!("{} is missing", needed.display())));
        }
    }
    let db = files::open_existing(&path)?;
    // sled syncs a snapshot of the file on opening. The file must be durable before that.
    db.sync_all().map_err(files::failed("syncing", &path))?;
    let len = db
        .metadata()
        .map_err(files::failed("reading the length of", &path))?
        .len();
    let expected = manifest.db_len_bytes;
    if len < expected || (manifest.closed && len != expected) {
        let lengths = format!("has {len} bytes where the manifest says {expected}");
        return Ok(Some(format!("{} {lengths}", path.display())));
    }
    let checked = log_check::check(&paths.sled_dir())?;
    if manifest.closed && checked.damage.is_none() && checked.end != manifest.log_end {
        let ends = format!(
            "ends at {} where the manifest says {}",
            checked.end, manifest.log_end
        );
        return Ok(Some(format!("the log in {} {ends}", path.display())));
    }
    Ok(checked.damage)
}

/// Opens a copy of the store and reads all of it.
fn trial_open(
    paths: &Paths,
    options: &SledOptions,
    manifest: &Manifest,
) -> Result<(), StorageError> {
    let copy = paths.trial();
    files::copy_tree(&paths.sled_dir(), &copy)?;
    let outcome = Db::open(&copy, options.cache_bytes).and_then(|db| {
        let totals = check_against(manifest, &db)?;
        check_all(&db, totals)
    });
    files::remove_tree(&copy)?;
    outcome
}

/// Compares the content of sled with the manifest. Returns the totals.
fn check_against(manifest: &Manifest, db: &Db) -> Result<Totals, StorageError> {
    let expected = manifest.totals.commit;
    let (format, totals) = (
        load::<Format>(db, &Key::format())?,
        load::<Totals>(db, &Key::totals())?.unwrap_or_default(),
    );
    if format.is_some_and(|format| format.store != manifest.store) {
        return Err(StorageError::Damaged(
            "it belongs to another store than its manifest".into(),
        ));
    }
    if totals.commit < expected || (manifest.closed && totals.commit != expected) {
        return Err(StorageError::Damaged(format!(
            "it ends with commit {} where the manifest says {expected}",
            totals.commit
        )));
    }
    Ok(totals)
}

fn check_all(db: &Db, totals: Totals) -> Result<(), StorageError> {
    let mut records = 0;
    for_each_entry(db, &KeyRange::all(), |key, value| {
        records += 1;
        codec::open(key, &value)
            .map(|_| ())
            .map_err(|damage| damaged(key, &damage))
    })?;
    if records != totals.records {
        return Err(StorageError::Damaged(format!(
            "it holds {records} records where it should hold {}",
            totals.records
        )));
    }
    Ok(())
}

fn refused(paths: &Paths, why: &str) -> StorageError {
    StorageError::Refused(format!(
        "the session log in {} is damaged and was left as it is: {why}. Rescue what is there with \
         `stemma sessions export --carve`, or restore a backup",
        paths.store().display()
    ))
}
