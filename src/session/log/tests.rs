//! Tests of the log's interface: forks, deletions, retention, faults.

mod clock;
mod retention;
mod storages;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Duration,
};

pub(in crate::session) use clock::SetClock;
use storages::{CountingStorage, GatedStorage};

use super::{Access, ForkSource, LogOptions, NewResponse, SessionLog, TurnEnd, TurnHandle};
use crate::session::{
    Event, LogError, NewSession, RetentionLimits, SessionId,
    admin::verify::verify,
    format::{
        event::{ForkPoint, InputAppended, Tokens, TurnClosed, TurnFinish, TurnStatus, Usage},
        record::{SessionHeader, SessionState, load, load_totals},
    },
    keys::{Key, KeyRange, Space},
    store::{
        Direct, Storage,
        faulty::{Fault, FaultyStorage, Loss},
        memory::MemoryStorage,
    },
};

const ALL: Access = Access::All;

fn id(n: u32) -> SessionId {
    SessionId::from_bits(u128::from(n))
}

fn new_session(n: u32, continues: Option<&ForkSource>) -> NewSession {
    NewSession {
        id: id(n),
        owner: None,
        model: "model".into(),
        fork: continues.map(|continuation| continuation.fork),
        continues: continues.map(|continuation| continuation.fork.parent),
        created_at_ms: i64::from(n),
    }
}

fn turn_end(n: u32, response: Option<&str>) -> TurnEnd {
    TurnEnd {
        generated: vec![n, n],
        closed: TurnClosed {
            status: TurnStatus::Completed,
            finish: TurnFinish::EndToken(0),
            usage: Usage::default(),
            seed: 1,
            closed_at_ms: i64::from(n),
        },
        response: response.map(|body| NewResponse {
            body: body.into(),
            preamble_digest: [0; 32],
            forkable: true,
        }),
    }
}

/// Starts a log whose clock shows 1970.
fn start(storage: &Arc<impl Storage + 'static>, retention: RetentionLimits) -> SessionLog {
    start_at(storage, retention, Arc::default())
}

fn start_at(
    storage: &Arc<impl Storage + 'static>,
    retention: RetentionLimits,
    clock: Arc<SetClock>,
) -> SessionLog {
    let options = LogOptions {
        retention,
        full_disk_retry: Duration::ZERO,
        clock,
    };
    SessionLog::start(storage.clone(), options).unwrap()
}

async fn begin(log: &SessionLog, n: u32, continues: Option<&ForkSource>) -> TurnHandle {
    let mut turn = log.begin(new_session(n, continues)).await.unwrap();
    let input = InputAppended {
        items: vec![format!("{{\"n\":{n}}}")],
        head: "{}".into(),
    };
    let prompt = Event::PromptAppended(Tokens { tokens: vec![n] });
    turn.append(&[Event::InputAppended(input), prompt])
        .await
        .unwrap();
    turn
}

async fn store(log: &SessionLog, n: u32, continues: Option<&ForkSource>) {
    begin(log, n, continues)
        .await
        .end(turn_end(n, Some("{}")))
        .await
        .unwrap();
}

fn assert_clean(storage: &Arc<impl Storage>) {
    assert_eq!(verify(&Direct(&**storage)).unwrap().findings, [""; 0]);
}

#[tokio::test]
async fn a_chain_of_thousands_of_forks_is_read_in_few_steps() {
    let storage = Arc::new(CountingStorage::default());
    let log = start(&storage, RetentionLimits::default());
    let mut expected = Vec::new();
    let mut parent = None;
    for n in 1..=2_100 {
        store(&log, n, parent.as_ref()).await;
        expected.extend([n, n, n]);
        // Checking every length would take quadratic time, so only some are checked.
        let whole = n % 97 == 0 || [32, 33, 1_024, 1_025, 2_048, 2_049, 2_100].contains(&n);
        let before = storage.reads();
        if whole {
            assert_eq!(log.continuation(&ALL, id(n)).unwrap().tokens, expected);
            let reads = storage.reads() - before;
            assert!(reads < 300, "{reads} reads at depth {n}");
        }
        let record = log.response_record(&ALL, id(n)).unwrap();
        let fork = ForkPoint {
            parent: id(n),
            events: record.end_events,
        };
        parent = Some(ForkSource {
            record,
            fork,
            head: String::new(),
            tokens: Vec::new(),
        });
    }
    assert_clean(&storage);
}

#[tokio::test]
async fn a_deleted_parent_stays_for_a_turn_in_flight_until_that_response_is_deleted() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(&storage, RetentionLimits::default());
    store(&log, 1, None).await;
    let parent = log.continuation(&ALL, id(1)).unwrap();
    let mut child = begin(&log, 2, Some(&parent)).await;
    child.registered().await.unwrap();
    log.delete(ALL, id(1)).await.unwrap();
    log.wait_for_gc().await.unwrap();
    assert_eq!(log.response(&ALL, id(1)), Err(LogError::NotFound));
    assert_eq!(log.tokens(parent.fork).unwrap(), [1, 1, 1]);
    child.end(turn_end(2, Some("{}"))).await.unwrap();
    let ids: Vec<_> = log
        .history(id(2))
        .unwrap()
        .iter()
        .map(|turn| turn.id)
        .collect();
    assert_eq!(ids, [id(1), id(2)]);
    let late = log
        .begin(new_session(3, Some(&parent)))
        .await
        .unwrap()
        .registered()
        .await;
    assert_eq!(late, Err(LogError::ParentGone));
    assert_clean(&storage);
    log.delete(ALL, id(2)).await.unwrap();
    log.wait_for_gc().await.unwrap();
    assert_eq!(
        storage.scan(&KeyRange::space(Space::Header), 9).unwrap(),
        []
    );
    assert_eq!(load_totals(&Direct(&*storage)).unwrap().sessions, 0);
}

#[tokio::test]
async fn forks_that_store_nothing_keep_only_the_events_that_they_share() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(&storage, RetentionLimits::from_flags(None, None, None, 1));
    store(&log, 1, None).await;
    let (fork, covered) = log.fork_point_at(id(1), 2).unwrap().unwrap();
    assert_eq!((fork.events, covered), (3, 1));
    let mut stateless = new_session(2, None);
    stateless.fork = Some(fork);
    let turn = log.begin(stateless).await.unwrap();
    turn.end(turn_end(2, None)).await.unwrap();
    log.delete(ALL, id(1)).await.unwrap();
    log.wait_for_gc().await.unwrap();
    let header: SessionHeader = load(&Direct(&*storage), &Key::header(id(1)))
        .unwrap()
        .unwrap();
    assert_eq!(
        (header.state, header.events, header.tokens),
        (SessionState::Trunk, 4, 1)
    );
    assert_eq!(log.response(&ALL, id(1)), Err(LogError::NotFound));
    assert_eq!(storage.scan(&KeyRange::space(Space::Body), 9).unwrap(), []);
    let point = ForkPoint {
        parent: id(2),
        events: 3,
    };
    assert_eq!(log.tokens(point).unwrap(), [1, 2, 2]);
    assert_clean(&storage);
    log.sweep(10_000).await.unwrap();
    log.wait_for_gc().await.unwrap();
    assert_eq!(load_totals(&Direct(&*storage)).unwrap().records, 2);
}

#[tokio::test]
async fn gc_of_a_large_session_takes_many_commits_and_survives_a_restart_between_them() {
    let storage = Arc::new(FaultyStorage::default());
    let log = start(&storage, RetentionLimits::default());
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(20 << 20));
    begin(&log, 1, None)
        .await
        .end(turn_end(1, Some(&body)))
        .await
        .unwrap();
    assert_eq!(log.response(&ALL, id(1)).unwrap().body, body);
    assert_clean(&storage);
    storage.fail_after(1, Fault::CrashBeforeWrite);
    log.delete(ALL, id(1)).await.unwrap();
    assert!(matches!(
        log.wait_for_gc().await,
        Err(LogError::Unavailable(_))
    ));
    let storage = Arc::new(storage.restarted(Loss::Lost));
    let left = storage
        .scan(&KeyRange::space(Space::Body), usize::MAX)
        .unwrap()
        .len();
    assert!(left > 2_000, "{left}");
    assert_clean(&storage);
    let log = start(&storage, RetentionLimits::default());
    log.wait_for_gc().await.unwrap();
    assert_eq!(load_totals(&Direct(&*storage)).unwrap().records, 2);
}

#[tokio::test]
async fn a_large_turn_takes_many_commits_none_of_which_is_large() {
    let storage = Arc::new(CountingStorage::default());
    let log = start(&storage, RetentionLimits::default());
    let huge = format!("{{\"text\":\"{}\"}}", "x".repeat(32 << 20));
    let mut turn = begin(&log, 1, None).await;
    let input = InputAppended {
        items: vec![huge.clone()],
        head: "{}".into(),
    };
    turn.append(&[Event::InputAppended(input)]).await.unwrap();
    turn.end(turn_end(1, Some(&huge))).await.unwrap();
    let largest = storage.largest_batch_bytes.load(Relaxed);
    assert!(
        largest < 2 << 20,
        "a commit of {largest} bytes holds up others"
    );
    assert_eq!(log.response(&ALL, id(1)).unwrap().body, huge);
    assert_eq!(log.input_items(&ALL, id(1)).unwrap()[1], huge);
    assert_clean(&storage);
}

#[tokio::test]
async fn readers_do_not_see_data_that_is_not_durable() {
    let (at_sync, synced) = mpsc::sync_channel(0);
    let (go_on, wait) = mpsc::sync_channel::<bool>(0);
    let storage = Arc::new(GatedStorage {
        inner: MemoryStorage::default(),
        gate: std::sync::Mutex::new(None),
    });
    let log = start(&storage, RetentionLimits::default());
    store(&log, 1, None).await;
    *storage.gate.lock().unwrap() = Some((at_sync, wait));
    let turn = begin(&log, 2, None).await;
    let ended = tokio::spawn(turn.end(turn_end(2, Some("{}"))));
    // The first gated commit may hold only the beginning of the turn. Pass commits until the
    // response is in.
    loop {
        tokio::task::yield_now().await;
        if synced.try_recv().is_err() {
            continue;
        }
        let applied = storage.inner.get(&Key::header(id(2))).unwrap().is_some();
        assert_eq!(log.response(&ALL, id(2)), Err(LogError::NotFound));
        assert_eq!(log.list(None, None, 9).unwrap().len(), 1);
        assert_eq!(log.response(&ALL, id(1)).unwrap().body, "{}");
        go_on.send(!applied).unwrap();
        if applied {
            break;
        }
    }
    // That commit failed: it stays invisible, although the storage contains it.
    assert!(matches!(
        ended.await.unwrap(),
        Err(LogError::Unavailable(_))
    ));
    assert_eq!(log.response(&ALL, id(2)), Err(LogError::NotFound));
    assert_eq!(log.response(&ALL, id(1)).unwrap().body, "{}");
    let refused = log.delete(ALL, id(1)).await;
    assert!(matches!(refused, Err(LogError::Unavailable(text)) if text.contains("injected")));
}

#[tokio::test]
async fn a_response_whose_body_or_session_is_lost_is_corrupt_and_not_unknown() {
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(5_000));
    for lost in [Key::header(id(1)), Key::body(id(1), 0)] {
        let storage = Arc::new(MemoryStorage::default());
        let log = start(&storage, RetentionLimits::default());
        let turn = begin(&log, 1, None).await;
        turn.end(turn_end(1, Some(&long))).await.unwrap();
        log.close().await.unwrap();
        let mut entries = storage.entries();
        entries.remove(&lost).unwrap();
        let storage = Arc::new(MemoryStorage::holding(entries));
        let log = start(&storage, RetentionLimits::default());
        let read = log.response(&ALL, id(1));
        assert!(
            matches!(read, Err(LogError::Corrupt(_))),
            "{lost:?}: {read:?}"
        );
        assert!(!verify(&Direct(&*storage)).unwrap().findings.is_empty());
    }
}

#[tokio::test]
async fn check_writable_fails_before_a_turn_while_writes_fail() {
    let storage = Arc::new(FaultyStorage::default());
    let log = start(&storage, RetentionLimits::default());
    assert_eq!(log.check_writable().await, Ok(()));
    storage.fail_after(0, Fault::FullBeforeWrite);
    let turn = begin(&log, 1, None).await;
    turn.end(turn_end(1, Some("{}"))).await.unwrap_err();
    let refused = log.check_writable().await;
    assert!(matches!(refused, Err(LogError::Unavailable(_))));
    storage.free_space();
    assert_eq!(log.check_writable().await, Ok(()));
    store(&log, 2, None).await;
    storage.fail_after(0, Fault::SyncFails);
    let turn = begin(&log, 3, None).await;
    turn.end(turn_end(3, Some("{}"))).await.unwrap_err();
    let refused = log.check_writable().await;
    assert!(matches!(refused, Err(LogError::Unavailable(_))));
}

#[tokio::test]
async fn only_the_owner_and_the_operator_see_a_response() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(&storage, RetentionLimits::default());
    let mut owned = new_session(1, None);
    owned.owner = Some("anna".into());
    log.begin(owned)
        .await
        .unwrap()
        .end(turn_end(1, Some("{}")))
        .await
        .unwrap();
    let owner = |name: &str| Access::Owned(Some(name.into()));
    assert!(log.response(&owner("anna"), id(1)).is_ok());
    assert!(log.response(&ALL, id(1)).is_ok());
    for stranger in [owner("ben"), owner(""), Access::Owned(None)] {
        assert_eq!(log.response(&stranger, id(1)), Err(LogError::NotFound));
        assert_eq!(log.input_items(&stranger, id(1)), Err(LogError::NotFound));
        assert_eq!(log.continuation(&stranger, id(1)), Err(LogError::NotFound));
        assert_eq!(log.delete(stranger, id(1)).await, Err(LogError::NotFound));
    }
    // Another owner cannot read the response through a continuation either.
    let mut stolen = new_session(2, None);
    stolen.owner = Some("ben".into());
    stolen.continues = Some(id(1));
    let refused = log.begin(stolen).await.unwrap().registered().await;
    assert_eq!(refused, Err(LogError::ParentGone));
}
