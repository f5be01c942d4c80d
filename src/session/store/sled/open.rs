//! From a folder to an open store: made if there is none, examined before the engine touches it.

use std::{
    fs,
    path::Path,
    sync::{Mutex, RwLock},
};

use super::{
    Counters, Opened, Paths, SledOptions, SledStorage, Writer, WriterState, db::Db, files,
    log_check, manifest::ManifestFile,
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
    files::keep_others_out(dir);
    tidy_up(&paths)?;
    if !paths.store().exists() {
        create(&paths, options)?;
    }
    let mut manifest = open_manifest(&paths)?;
    if let Some(doubt) = precheck(&paths, &manifest.current)? {
        tracing::warn!(%doubt, "the session log is tried on a copy first");
        trial_open(&paths, options, &manifest.current)
            .map_err(|error| refused(&paths, &format!("{doubt}, and {error}")))?;
    }
    let engine = open_engine(&paths, options)?;
    let durable = check_against(&manifest.current, &engine)
        .map_err(|error| refused(&paths, &error.to_string()))?;
    files::settle_tree(&paths.store())?;
    let db = files::open_existing(&paths.db())?;
    if !manifest.current.closed {
        tracing::warn!(
            commit = durable.commit,
            "the session log was not closed in order; what was being written may be missing"
        );
    }
    let store = manifest.current.store;
    let len = db
        .metadata()
        .map_err(files::failed("asking for", &paths.db()))?
        .len();
    manifest.state(Manifest {
        totals: durable,
        db_len_bytes: len,
        closed: false,
        ..manifest.current
    })?;
    manifest.sync()?;
    let state = match files::keep_reserve(&paths.reserve()) {
        Ok(()) => WriterState::Good,
        Err(StorageError::Full(why)) => WriterState::Full(why),
        Err(error) => return Err(error),
    };
    let writer = Mutex::new(Writer {
        db,
        manifest,
        durable,
        state,
    });
    let engine = RwLock::new(engine);
    Ok(SledStorage {
        paths,
        options: *options,
        store,
        engine,
        writer,
        effort: Counters::default(),
        lock,
    })
}

/// Opens the engine, on a full disk with the help of the reserve.
fn open_engine(paths: &Paths, options: &SledOptions) -> Result<Db, StorageError> {
    let open = || {
        let engine = Db::open(&paths.engine(), options.cache_bytes)?;
        engine.flush().map(|()| engine)
    };
    let opened = match open() {
        Err(StorageError::Full(_)) => {
            files::give_up_reserve(&paths.reserve())?;
            open()
        }
        opened => opened,
    };
    opened.map_err(|error| match error {
        full @ StorageError::Full(_) => full,
        other => refused(paths, &other.to_string()),
    })
}

/// Ends what a crash left half done: copies go, a replaced store that has no successor returns.
fn tidy_up(paths: &Paths) -> Result<(), StorageError> {
    files::remove_tree(&paths.unfinished())?;
    files::remove_tree(&paths.trial())?;
    files::remove_tree(&paths.replacement())?;
    if !paths.replaced().exists() {
        return Ok(());
    }
    if paths.store().exists() {
        return files::remove_tree(&paths.replaced());
    }
    files::rename_dir(&paths.replaced(), &paths.store())
}

/// Makes an empty store under another name, so that one that is there is always whole.
fn create(paths: &Paths, options: &SledOptions) -> Result<(), StorageError> {
    let new = paths.unfinished();
    files::make_private_dir(&new)?;
    let engine_dir = new.join("log");
    let mut engine = Db::open(&engine_dir, options.cache_bytes)?;
    engine.flush()?;
    engine.shut();
    let db = engine_dir.join("db");
    let len = fs::metadata(&db)
        .map_err(files::failed("asking for", &db))?
        .len();
    let log_end = log_check::examine(&engine_dir)?.end;
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
    files::settle_tree(&new)?;
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

/// What about the files makes it unsafe to let the engine have them, if anything does.
fn precheck(paths: &Paths, manifest: &Manifest) -> Result<Option<String>, StorageError> {
    let path = paths.db();
    for needed in [path.clone(), paths.engine().join("conf")] {
        if !needed.is_file() {
            return Err(refused(paths, &format!("{} is missing", needed.display())));
        }
    }
    let db = files::open_existing(&path)?;
    // The engine syncs a summary of the file when it opens it; the file must not lag behind that.
    db.sync_all().map_err(files::failed("syncing", &path))?;
    let len = db
        .metadata()
        .map_err(files::failed("asking for", &path))?
        .len();
    let stated = manifest.db_len_bytes;
    if len < stated || (manifest.closed && len != stated) {
        let lengths = format!("has {len} bytes where the manifest says {stated}");
        return Ok(Some(format!("{} {lengths}", path.display())));
    }
    let examined = log_check::examine(&paths.engine())?;
    if manifest.closed && examined.damage.is_none() && examined.end != manifest.log_end {
        let ends = format!(
            "ends at {} where the manifest says {}",
            examined.end, manifest.log_end
        );
        return Ok(Some(format!("the log in {} {ends}", path.display())));
    }
    Ok(examined.damage)
}

/// Opens a copy and reads all of it.
fn trial_open(
    paths: &Paths,
    options: &SledOptions,
    manifest: &Manifest,
) -> Result<(), StorageError> {
    let copy = paths.trial();
    files::copy_tree(&paths.engine(), &copy)?;
    let outcome = Db::open(&copy, options.cache_bytes).and_then(|engine| {
        let totals = check_against(manifest, &engine)?;
        check_all(&engine, totals)
    });
    files::remove_tree(&copy)?;
    outcome
}

/// Compares what the engine found with what it must hold. Returns the totals.
fn check_against(manifest: &Manifest, engine: &Db) -> Result<Totals, StorageError> {
    let stated = manifest.totals.commit;
    let (format, totals) = (
        load::<Format>(&Opened(engine), &Key::format())?,
        load::<Totals>(&Opened(engine), &Key::totals())?.unwrap_or_default(),
    );
    if format.is_some_and(|format| format.store != manifest.store) {
        return Err(StorageError::Damaged(
            "it belongs to another store than its manifest".into(),
        ));
    }
    if totals.commit < stated || (manifest.closed && totals.commit != stated) {
        return Err(StorageError::Damaged(format!(
            "it ends with commit {} where the manifest says {stated}",
            totals.commit
        )));
    }
    Ok(totals)
}

fn check_all(engine: &Db, totals: Totals) -> Result<(), StorageError> {
    let mut records = 0;
    for_each_entry(&Opened(engine), &KeyRange::all(), |key, value| {
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
