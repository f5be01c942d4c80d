//! Bounds on what is kept, as clients meet them, and across restarts.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
};

use jiff::Timestamp;
use serde_json::{Value, json};
use stemma::{
    clock::Clock,
    session::{LogOptions, RetentionLimits, SessionLog},
};

use super::{assert_unknown, open_with, parrot, path_of, serve, serve_log, stop};
use crate::support::{Entropy, TestApp, error};

/// The moment at which all turns of these tests end, in seconds since 1970.
const TURNS_END_SECS: i64 = 1_760_000_000;

/// The time as readers of the log are told, in milliseconds after the turns' end.
#[derive(Default)]
struct Later(AtomicI64);

impl Clock for Later {
    fn now(&self) -> Timestamp {
        let now_ms = TURNS_END_SECS * 1_000 + self.0.load(SeqCst);
        Timestamp::from_millisecond(now_ms).expect("a time")
    }
}

/// A server with bounds, over a folder.
async fn bounded(
    folder: &Path,
    bounds: (Option<u64>, Option<u64>, Option<u64>),
    entropy: &Arc<Entropy>,
    clock: &Arc<Later>,
) -> (TestApp, SessionLog) {
    let (max_entries, max_bytes, ttl_secs) = bounds;
    let options = LogOptions {
        retention: RetentionLimits::from_flags(max_entries, max_bytes, ttl_secs, 0),
        clock: clock.clone(),
        ..LogOptions::default()
    };
    let log = open_with(folder, options).expect("a log");
    serve_log(log, parrot("m"), entropy).await
}

async fn assert_read(app: &TestApp, response: &Value) {
    let read = app.get(&path_of(response)).await;
    assert_eq!(read.status(), 200);
    assert_eq!(&read.json::<Value>().await.expect("JSON"), response);
}

async fn next(app: &TestApp, previous: &Value, more: Value) -> Value {
    let mut request = json!({"input": "More.", "previous_response_id": previous["id"]});
    for (key, value) in more.as_object().expect("an object") {
        request[key] = value.clone();
    }
    app.created(request).await
}

#[tokio::test]
async fn the_oldest_go_at_once_and_stay_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (entropy, clock) = Default::default();
    let bounds = (Some(2), None, None);
    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    let mut responses = Vec::new();
    for text in ["a", "b", "c", "d"] {
        responses.push(server.0.created(json!({"input": text})).await);
    }
    for gone in &responses[..2] {
        assert_unknown(&server.0, gone).await;
    }
    for kept in &responses[2..] {
        assert_read(&server.0, kept).await;
    }
    // A deletion makes room.
    assert_eq!(server.0.delete(&path_of(&responses[3])).await.status(), 200);
    let last = server.0.created(json!({"input": "e"})).await;
    assert_read(&server.0, &responses[2]).await;
    stop(server).await;

    let server = serve(folder.path(), parrot("m"), &entropy).await;
    for gone in [&responses[0], &responses[1], &responses[3]] {
        assert_unknown(&server.0, gone).await;
    }
    for kept in [&responses[2], &last] {
        assert_read(&server.0, kept).await;
    }
    stop(server).await;
}

#[tokio::test]
async fn what_a_stored_response_continues_is_dropped_but_still_counts_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (entropy, clock) = Default::default();
    let bounds = (Some(1), None, None);
    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    let first = server.0.created(json!({"input": "One."})).await;
    let second = next(&server.0, &first, json!({})).await;
    assert_unknown(&server.0, &first).await;
    let third = next(&server.0, &second, json!({"instructions": "new"})).await;
    let said = third["output_text"].as_str().expect("text");
    assert!(said.contains("user\nOne.<im_end>"), "{said}");
    assert_unknown(&server.0, &second).await;
    stop(server).await;
    // Nothing of it is damage.
    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    assert_read(&server.0, &third).await;
    stop(server).await;
}

#[tokio::test]
async fn a_bound_of_no_bytes_answers_and_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (entropy, clock) = Default::default();
    let bounds = (None, Some(0), None);
    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    let response = server.0.created(json!({"input": "a"})).await;
    assert_eq!(response["store"], true);
    assert_unknown(&server.0, &response).await;
    stop(server).await;
}

#[tokio::test]
async fn responses_expire_for_every_reader_and_for_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let (entropy, clock): (Arc<Entropy>, Arc<Later>) = Default::default();
    let bounds = (None, None, Some(60));
    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    let response = server.0.created(json!({"input": "a"})).await;
    clock.0.store(59_999, SeqCst);
    assert_read(&server.0, &response).await;
    let child = next(&server.0, &response, json!({})).await;
    assert_eq!(child["previous_response_id"], response["id"]);
    clock.0.store(60_000, SeqCst);
    assert_unknown(&server.0, &response).await;
    stop(server).await;

    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    assert_unknown(&server.0, &response).await;
    let now_ms = clock.now().as_millisecond();
    server.1.sweep(now_ms).await.expect("swept");
    stop(server).await;
    // It was dropped, not only hidden.
    let server = serve(folder.path(), parrot("m"), &entropy).await;
    assert_unknown(&server.0, &response).await;
    stop(server).await;
}

#[tokio::test]
async fn a_server_that_keeps_nothing_says_so_and_touches_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (entropy, clock) = Default::default();
    let server = serve(folder.path(), parrot("m"), &entropy).await;
    let before = server.0.created(json!({"input": "a"})).await;
    stop(server).await;

    let bounds = (Some(0), None, None);
    let server = bounded(folder.path(), bounds, &entropy, &clock).await;
    let app = &server.0;
    let answered = app.created(json!({"input": "b"})).await;
    assert_eq!(answered["store"], false);
    for response in [&before, &answered] {
        let path = path_of(response);
        let request = json!({"input": "c", "previous_response_id": response["id"]});
        let cancel = app.client.post(format!("{}{path}/cancel", app.url));
        for answer in [
            cancel.send().await.expect("an answer"),
            app.get(&path).await,
            app.get(&format!("{path}/input_items")).await,
            app.delete(&path).await,
            app.create(request).await,
        ] {
            let refused = error(answer, 400).await;
            assert_eq!(refused["code"], "persistence_disabled");
            let message = refused["message"].as_str().expect("text");
            assert!(message.contains("--responses-store-max-entries 0"));
        }
    }
    stop(server).await;

    let server = serve(folder.path(), parrot("m"), &entropy).await;
    assert_read(&server.0, &before).await;
    assert_unknown(&server.0, &answered).await;
    stop(server).await;
}
