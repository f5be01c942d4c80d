//! Tests of archives, copies, carving and inspection.

use std::{fs::File, path::Path, sync::Arc};

use super::{archive, carve, copy, inspect, verify::verify};
use crate::session::{
    Access, Event, ForkPoint, LogOptions, NewSession, SessionId, SessionLog, SledOptions,
    SledStorage,
    format::{
        codec,
        event::{InputAppended, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
        record::{SessionHeader, SessionState, load, load_totals, open_record},
        session_events::load_event_payloads,
    },
    keys::{EdgeKind, Key, KeyRange, Space},
    log::{NewResponse, TurnEnd},
    store::{Direct, ReadStore, Storage, memory::MemoryStorage},
};

fn id(n: u32) -> SessionId {
    SessionId::from_bits(u128::from(n) << 64 | u128::from(n * 7_919))
}

fn ending(n: u32, stored: bool) -> TurnEnd {
    let response = NewResponse {
        body: format!("{{\"text\":\"{}\"}}", "x".repeat(n as usize * 300)),
        preamble_digest: [1; 32],
        forkable: true,
    };
    TurnEnd {
        generated: vec![n],
        closed: TurnClosed {
            status: TurnStatus::Completed,
            finish: TurnFinish::EndToken(0),
            usage: Usage::default(),
            seed: 0,
            closed_at_ms: i64::from(n),
        },
        response: stored.then_some(response),
    }
}

/// Runs turn `n`, which continues session `parent`. It stores a response unless `n` is a multiple
/// of 7.
async fn turn(log: &SessionLog, n: u32, parent: Option<u32>) {
    let fork = parent.map(|parent| {
        let record = log.response_record(&Access::All, id(parent)).unwrap();
        ForkPoint {
            parent: id(parent),
            events: record.end_events,
        }
    });
    let session = NewSession {
        id: id(n),
        owner: n
            .is_multiple_of(2)
            .then(|| "anna".into())
            .filter(|_| parent.is_none()),
        model: "model".into(),
        fork,
        continues: fork.map(|fork| fork.parent),
        created_at_ms: i64::from(n),
    };
    let mut turn = log.begin(session).await.unwrap();
    let input = InputAppended {
        items: vec![format!("{{\"n\":{n}}}")],
        head: "{}".into(),
    };
    turn.append(&[
        Event::InputAppended(input),
        Event::PromptAppended(Tokens { tokens: vec![n, n] }),
    ])
    .await
    .unwrap();
    turn.end(ending(n, !n.is_multiple_of(7))).await.unwrap();
}

/// Fills a store: a chain of 40 with a hidden response, a trunk, sessions without a response,
/// several owners.
fn fill(storage: &Arc<impl Storage + 'static>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let log = SessionLog::start(storage.clone(), LogOptions::default()).unwrap();
    runtime.block_on(async {
        turn(&log, 1, None).await;
        for n in (100..400_u32).filter(|n| !n.is_multiple_of(7)).take(40) {
            let parent = if n == 100 {
                1
            } else {
                (n - 1) - u32::from((n - 1).is_multiple_of(7))
            };
            turn(&log, n, Some(parent)).await;
        }
        for n in 2..30 {
            turn(&log, n, None).await;
        }
        turn(&log, 35, Some(3)).await;
        log.delete(Access::All, id(3)).await.unwrap();
        log.delete(Access::All, id(101)).await.unwrap();
        log.wait_for_gc().await.unwrap();
        log.close().await.unwrap();
    });
}

fn state(read: &impl ReadStore, n: u32) -> Option<SessionState> {
    let header = load::<SessionHeader>(read, &Key::header(id(n))).unwrap();
    header.map(|header| header.state)
}

/// Returns all values but the store's own records, without their commit numbers. Events are listed
/// one by one, because a copy may batch them differently.
fn content(read: &impl ReadStore) -> Vec<(Key, Vec<u8>)> {
    let entries = read.scan(&KeyRange::all(), usize::MAX).unwrap();
    let own = entries
        .into_iter()
        .filter(|(key, _)| !matches!(key.space(), Some(Space::Meta | Space::Event)));
    let mut content = Vec::new();
    for (key, value) in own {
        let payload = codec::open(&key, &value).unwrap().payload.to_vec();
        if let (Some(Space::Header), Some(id)) = (key.space(), key.session()) {
            let header: SessionHeader = open_record(&key, &value).unwrap();
            let events = load_event_payloads(read, id, header.events).unwrap();
            let numbered = (0..).zip(events);
            content.extend(numbered.map(|(n, event)| (Key::event(id, n, 0), event.bytes)));
        }
        content.push((key, payload));
    }
    content
}

fn assert_same(left: &impl ReadStore, right: &impl ReadStore) {
    let (left, right) = (content(left), content(right));
    let keys = |content: &[(Key, Vec<u8>)]| content.iter().map(|e| e.0.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&left), keys(&right));
    assert!(left == right, "the same keys have other values");
}

fn memory() -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::default());
    fill(&storage);
    storage
}

/// Starts a log once, so that GC finishes the work a copy left.
fn finish_gc(storage: &Arc<impl Storage + 'static>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let log = SessionLog::start(storage.clone(), LogOptions::default()).unwrap();
    runtime.block_on(log.wait_for_gc()).unwrap();
    runtime.block_on(log.close()).unwrap();
}

#[test]
fn a_new_store_verifies() {
    let report = verify(&Direct(&MemoryStorage::default())).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_store_survives_export_and_import_value_for_value() {
    let from = memory();
    assert_eq!(state(&Direct(&*from), 3), Some(SessionState::Trunk));
    assert_eq!(state(&Direct(&*from), 101), Some(SessionState::Hidden));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    archive::export_all(&Direct(&*from), File::create(&path).unwrap()).unwrap();
    let to = Arc::new(MemoryStorage::default());
    let opened = archive::Archive::open(&path).unwrap();
    assert!(opened.whole);
    let report = copy::copy_sessions(&opened, &*to).unwrap();
    assert_eq!(report.skipped, []);
    finish_gc(&to);
    assert_eq!(verify(&Direct(&*to)).unwrap().findings, [""; 0]);
    assert_same(&Direct(&*from), &Direct(&*to));
    let again = copy::copy_sessions(&opened, &*to);
    assert!(
        again.is_err(),
        "a store that is not empty was imported into"
    );
}

#[test]
fn one_session_is_exported_with_its_ancestors() {
    let from = memory();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let export = |n| {
        let out = File::create(&path).unwrap();
        archive::export_session(&Direct(&*from), id(n), out)
    };
    assert!(export(99).is_err());
    export(104).unwrap();
    let to = MemoryStorage::default();
    let opened = archive::Archive::open(&path).unwrap();
    let report = copy::copy_sessions(&opened, &to).unwrap();
    assert_eq!((report.sessions, report.responses), (6, 5));
    assert_eq!(verify(&Direct(&to)).unwrap().findings, [""; 0]);
}

#[test]
fn a_truncated_or_changed_archive_is_refused() {
    let from = memory();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    archive::export_all(&Direct(&*from), File::create(&path).unwrap()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let end = whole.len();
    for (cut, flip) in [
        (end, 5_000),
        (end - 1, 0),
        (end - 60, 0),
        (end / 2, 0),
        (8, 0),
        (3, 0),
    ] {
        let mut bytes = whole[..cut].to_vec();
        bytes[flip] ^= 4;
        if flip == 0 {
            bytes[0] ^= 4;
        }
        std::fs::write(&path, bytes).unwrap();
        assert!(
            archive::Archive::open(&path).is_err(),
            "cut at {cut}, changed at {flip}"
        );
    }
}

#[test]
fn damaged_sessions_are_skipped_with_their_descendants() {
    let from = memory();
    let mut entries = from.entries();
    entries.remove(&Key::event(id(102), 0, 0)).unwrap();
    entries.remove(&Key::body(id(26), 0)).unwrap();
    entries.remove(&Key::header(id(4))).unwrap();
    entries.remove(&Key::header(id(24))).unwrap();
    let damaged = MemoryStorage::holding(entries);
    let to = Arc::new(MemoryStorage::default());
    let report = copy::copy_sessions(&Direct(&damaged), &*to).unwrap();
    let skipped: Vec<_> = report.skipped.iter().map(|(id, _)| *id).collect();
    assert!(
        skipped.contains(&id(102)) && skipped.contains(&id(26)),
        "{skipped:?}"
    );
    assert!(
        skipped.contains(&id(108)),
        "a continuation of a lost session was copied"
    );
    // A header can be rebuilt, but not a body inside it.
    assert_eq!(state(&Direct(&*to), 24), Some(SessionState::Stored));
    assert_eq!(state(&Direct(&*to), 4), Some(SessionState::Unstored));
    finish_gc(&to);
    assert_eq!(verify(&Direct(&*to)).unwrap().findings, [""; 0]);
}

fn sled(dir: &Path) -> SledStorage {
    SledStorage::open(
        dir,
        &SledOptions {
            cache_bytes: 16 << 20,
        },
    )
    .unwrap()
}

#[test]
fn a_store_is_backed_up_compacted_and_carved() {
    let dir = tempfile::tempdir().unwrap();
    let (at, backup) = (dir.path().join("sessions"), dir.path().join("backup"));
    fill(&Arc::new(sled(&at)));
    let storage = sled(&at);
    let expected = content(&Direct(&storage));
    let options = SledOptions {
        cache_bytes: 16 << 20,
    };
    let report = copy::back_up(&storage, &backup, &options).unwrap();
    assert!(report.sessions > 60, "{report:?}");
    let compacted = copy::compact(storage, &options).unwrap();
    assert_eq!(report.sessions, compacted.sessions);
    let carved = dir.path().join("carved");
    carve::carve(&at.join("store/log/db"), File::create(&carved).unwrap()).unwrap();
    let rescued = Arc::new(MemoryStorage::default());
    let archive = archive::Archive::open(&carved).unwrap();
    assert_eq!(
        copy::copy_sessions(&archive, &*rescued).unwrap().skipped,
        []
    );
    finish_gc(&rescued);
    assert!(content(&Direct(&*rescued)) == expected);
    for dir in [&at, &backup] {
        finish_gc(&Arc::new(sled(dir)));
        let storage = sled(dir);
        assert_eq!(verify(&Direct(&storage)).unwrap().findings, [""; 0]);
        assert!(content(&Direct(&storage)) == expected);
    }
}

#[test]
fn inspection_lists_sessions_events_and_trees() {
    let storage = memory();
    let read = Direct(&*storage);
    let mut listed = 0;
    inspect::list(&read, |_, _| listed += 1).unwrap();
    let stats = inspect::stats(&read).unwrap();
    assert_eq!(stats.totals, load_totals(&read).unwrap());
    assert_eq!(stats.by_space[&Space::Header].0, listed);
    assert_eq!(stats.by_state["trunk"], 1);
    let shown = inspect::show(&read, id(104)).unwrap();
    let lines: Vec<_> = shown.events.iter().map(inspect::describe).collect();
    assert!(
        lines[0].starts_with("opened for model, fork of "),
        "{lines:?}"
    );
    assert_eq!(lines[1], "input of 1 items: {\"n\":104}");
    assert_eq!(lines[2], "prompt of 2 tokens: 104 104");
    assert!(
        lines[4].starts_with("closed: Completed by EndToken(0)"),
        "{lines:?}"
    );
    let tree = inspect::tree(&read, id(104)).unwrap();
    assert_eq!((tree.len(), tree[0].id), (41, id(1)));
    assert_eq!(
        (tree[40].level, tree[40].edge),
        (40, Some(EdgeKind::Continues))
    );
}
