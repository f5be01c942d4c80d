//! Tests of retention: number, bytes and age.

use std::sync::Arc;

use super::{ALL, SetClock, assert_clean, id, new_session, start, start_at, store};
use crate::session::{
    LogError, RetentionLimits,
    format::record::{SessionHeader, SessionState, load, load_totals},
    keys::Key,
    store::{Direct, Storage, memory::MemoryStorage},
};

#[tokio::test]
async fn retention_deletes_the_oldest_but_keeps_continued_sessions() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(
        &storage,
        RetentionLimits::from_flags(Some(2), None, None, 0),
    );
    store(&log, 1, None).await;
    for n in 2..=5 {
        let parent = log.continuation(&ALL, id(n - 1)).unwrap();
        store(&log, n, Some(&parent)).await;
    }
    log.wait_for_gc().await.unwrap();
    let listed: Vec<_> = log
        .list(None, None, 9)
        .unwrap()
        .iter()
        .map(|entry| entry.id)
        .collect();
    assert_eq!(listed, [id(5), id(4)]);
    assert_eq!(log.response(&ALL, id(3)), Err(LogError::NotFound));
    assert_eq!(log.history(id(5)).unwrap().len(), 5);
    assert_clean(&storage);
    for n in 6..=7 {
        store(&log, n, None).await;
    }
    log.wait_for_gc().await.unwrap();
    assert_eq!(load_totals(&Direct(&*storage)).unwrap().sessions, 2);
}

#[tokio::test]
async fn a_limit_of_0_bytes_deletes_each_response_at_once() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(
        &storage,
        RetentionLimits::from_flags(None, Some(0), None, 0),
    );
    store(&log, 1, None).await;
    assert_eq!(log.response(&ALL, id(1)), Err(LogError::NotFound));
    log.wait_for_gc().await.unwrap();
    assert_eq!(load_totals(&Direct(&*storage)).unwrap().records, 2);
}

#[tokio::test]
async fn responses_expire_in_log_order() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(
        &storage,
        RetentionLimits::from_flags(None, None, Some(1), 0),
    );
    store(&log, 1, None).await;
    store(&log, 900, None).await;
    log.sweep(1_000).await.unwrap();
    assert!(log.response(&ALL, id(1)).is_ok());
    log.sweep(1_001).await.unwrap();
    assert_eq!(log.response(&ALL, id(1)), Err(LogError::NotFound));
    assert!(log.response(&ALL, id(900)).is_ok());
    log.sweep(1_900).await.unwrap();
    assert_eq!(log.response(&ALL, id(900)), Err(LogError::NotFound));
}

#[tokio::test]
async fn expired_responses_are_hidden_before_they_are_deleted() {
    let storage = Arc::new(MemoryStorage::default());
    let clock = Arc::<SetClock>::default();
    let log = start_at(
        &storage,
        RetentionLimits::from_flags(None, None, Some(1), 60),
        clock.clone(),
    );
    assert_eq!(log.next_expiry_ms(), Ok(None));
    store(&log, 1, None).await;
    store(&log, 900, None).await;
    assert_eq!(log.next_expiry_ms(), Ok(Some(1_001)));
    clock.set(1_000);
    assert!(log.response(&ALL, id(1)).is_ok());
    clock.set(1_001);
    assert_eq!(log.response(&ALL, id(1)), Err(LogError::NotFound));
    assert_eq!(log.input_items(&ALL, id(1)), Err(LogError::NotFound));
    assert_eq!(log.continuation(&ALL, id(1)), Err(LogError::NotFound));
    assert_eq!(log.delete(ALL, id(1)).await, Err(LogError::NotFound));
    let listed = log.list(None, None, 9).unwrap();
    assert_eq!(listed.iter().map(|l| l.id).collect::<Vec<_>>(), [id(900)]);
    assert!(storage.get(&Key::header(id(1))).unwrap().is_some());
    log.sweep(1_001).await.unwrap();
    log.wait_for_gc().await.unwrap();
    assert_eq!(storage.get(&Key::header(id(1))).unwrap(), None);
    assert_eq!(log.next_expiry_ms(), Ok(Some(1_900)));
}

#[tokio::test]
async fn without_persistence_access_by_id_fails_and_turns_are_still_logged() {
    let storage = Arc::new(MemoryStorage::default());
    let log = start(
        &storage,
        RetentionLimits::from_flags(Some(0), None, None, 0),
    );
    store(&log, 1, None).await;
    assert_eq!(
        log.response(&ALL, id(1)),
        Err(LogError::PersistenceDisabled)
    );
    assert_eq!(
        log.delete(ALL, id(1)).await,
        Err(LogError::PersistenceDisabled)
    );
    let listed = log.list(None, None, 1).map(|listed| listed.len());
    assert_eq!(listed, Err(LogError::PersistenceDisabled));
    let mut continuing = new_session(2, None);
    continuing.continues = Some(id(1));
    let refused = log.begin(continuing).await.map(|turn| turn.id());
    assert_eq!(refused, Err(LogError::PersistenceDisabled));
    let header: SessionHeader = load(&Direct(&*storage), &Key::header(id(1)))
        .unwrap()
        .unwrap();
    assert_eq!(header.state, SessionState::Unstored);
}
