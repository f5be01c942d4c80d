//! Clients that disconnect, and shutdown of the server.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Events, Script, Setup, TIMEOUT, error};

/// A model that generates for minutes.
fn talkative() -> Script {
    Script::new("scripted", |_| "word ".repeat(3000))
        .executor(|executor| executor.step_delay(Duration::from_millis(2)))
}

#[tokio::test]
async fn a_disconnect_from_a_stream_frees_its_sequence() {
    let app = Setup::of(talkative()).start().await;
    for _ in 0..20 {
        let mut stream = app.stream(json!({"input": "x"})).await;
        stream.until("response.output_text.delta").await;
        assert_eq!(app.sequences(), 1);
        drop(stream);
        app.wait_for_sequences(0).await;
    }
}

#[tokio::test]
async fn a_disconnect_before_the_response_frees_its_sequence() {
    let app = Setup::of(talkative()).start().await;
    for _ in 0..5 {
        let waiting = app.create(json!({"input": "x"}));
        let left = tokio::time::timeout(Duration::from_millis(150), waiting).await;
        assert!(left.is_err(), "the answer must take longer");
        app.wait_for_sequences(0).await;
    }
}

#[tokio::test]
async fn a_disconnect_while_queued_frees_the_queue_slot() {
    let mut model = talkative();
    model.engine.running_max = 1;
    model.engine.waiting_max = 1;
    let app = Setup::of(model).start().await;
    let mut running = app.stream(json!({"input": "x"})).await;
    running.until("response.output_text.delta").await;
    let request = json!({"input": "x", "stream": true});
    for _ in 0..5 {
        let begun = Instant::now();
        let waiting = loop {
            let answer = app.create(request.clone()).await;
            if answer.status() != 429 {
                break answer;
            }
            assert!(begun.elapsed() < TIMEOUT, "the place stays taken");
        };
        // The first events arrive while the request is queued.
        let mut waiting = Events::new(waiting);
        waiting.until("response.in_progress").await;
        assert_eq!(app.create(request.clone()).await.status(), 429);
    }
}

#[tokio::test]
async fn shutting_down_lets_turns_finish() {
    let model = Script::new("scripted", |_| "word ".repeat(10))
        .executor(|executor| executor.step_delay(Duration::from_millis(10)));
    let setup = Setup {
        shutdown_grace: Duration::from_secs(10),
        ..Setup::of(model)
    };
    let mut app = setup.start().await;
    let mut stream = app.stream(json!({"input": "x"})).await;
    stream.until("response.output_text.delta").await;
    app.stop();
    stream.until("response.completed").await;
    let begun = Instant::now();
    app.stopped().await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "it does not wait for nothing"
    );
}

#[tokio::test]
async fn shutting_down_ends_turns_after_the_grace_period() {
    let mut app = Setup::of(talkative()).start().await;
    let mut stream = app.stream(json!({"input": "x"})).await;
    stream.until("response.output_text.delta").await;
    let client = app.client.clone();
    let request = client
        .post(format!("{}/v1/responses", app.url))
        .json(&json!({"input": "x"}));
    let whole = tokio::spawn(request.send());
    app.wait_for_sequences(2).await;
    let begun = Instant::now();
    app.stop();
    let failed = stream.until("response.failed").await;
    assert_eq!(
        failed["response"]["error"]["message"],
        "The server is shutting down."
    );
    assert!(stream.next().await.is_none());
    let whole = whole.await.expect("no panic").expect("an answer");
    error(whole, 503).await;
    app.stopped().await;
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}
