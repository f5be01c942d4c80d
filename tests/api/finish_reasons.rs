//! Finish reasons, streamed and not streamed alike.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Script, Setup, TIMEOUT, TestApp, error};

/// Returns the response to a request that is not streamed. Checks that the streamed response equals
/// it except for the id.
async fn both_ways(app: &TestApp, request: Value) -> Value {
    let plain = app.created(request.clone()).await;
    let events = app.stream(request).await.all().await;
    let last = events.last().expect("an event");
    assert_eq!(
        last["type"],
        format!("response.{}", plain["status"].as_str().expect("text"))
    );
    let without_ids = |response: &Value| {
        let hex = response["id"].as_str().expect("an id")["resp_".len()..].to_owned();
        response.to_string().replace(&hex, "")
    };
    assert_eq!(without_ids(&last["response"]), without_ids(&plain));
    plain
}

#[tokio::test]
async fn eos_token() {
    let app = Setup::answering("Done.").start().await;
    let response = both_ways(&app, json!({"input": "x"})).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["status"], "completed");
    assert_eq!(response["completed_at"], 1_760_000_000);
    assert_eq!(response["incomplete_details"], Value::Null);
}

#[tokio::test]
async fn max_output_tokens() {
    let app = Setup::answering("A long story about nothing.")
        .start()
        .await;
    let response = both_ways(&app, json!({"input": "x", "max_output_tokens": 3})).await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["usage"]["output_tokens"], 3);
    assert_eq!(response["completed_at"], Value::Null);
}

#[tokio::test]
async fn server_limit_and_context_length() {
    let mut model = Script::new("scripted", |_| "x".repeat(500));
    model.max_output_tokens = Some(4);
    let app = Setup::of(model).start().await;
    let response = both_ways(&app, json!({"input": "x"})).await;
    assert_eq!(response["usage"]["output_tokens"], 4);
    assert_eq!(response["max_output_tokens"], Value::Null);

    let model = Script::new("scripted", |_| "x".repeat(500));
    let model = model.executor(|executor| executor.context_length(64));
    let app = Setup::of(model).start().await;
    let request = json!({"input": "x", "max_output_tokens": 100_000_000_000_i64});
    let response = both_ways(&app, request).await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["usage"]["total_tokens"], 64);
}

#[tokio::test]
async fn limit_within_a_character() {
    let app = Setup::answering("\u{1F600}").start().await;
    for tokens in 1..=3 {
        let response = both_ways(&app, json!({"input": "x", "max_output_tokens": tokens})).await;
        let text = response["output_text"].as_str().expect("text");
        assert!(!text.contains('\u{FFFD}'), "{text:?} after {tokens}");
        assert_eq!(response["output"][0]["content"][0]["text"], text);
    }
    let response = both_ways(&app, json!({"input": "x"})).await;
    assert_eq!(response["output_text"], "\u{1F600}");
}

#[tokio::test]
async fn empty_output() {
    let app = Setup::answering("").start().await;
    let response = both_ways(&app, json!({"input": "x"})).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["content"][0]["text"], "");
    assert_eq!(response["usage"]["output_tokens"], 0);
}

#[tokio::test]
async fn stop_string_across_tokens() {
    let app = Setup::answering("one EN END two").start().await;
    let response = both_ways(&app, json!({"input": "x", "stop": ["END", "never"]})).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output_text"], "one EN ");
    let response = both_ways(&app, json!({"input": "x", "stop": "two!"})).await;
    assert_eq!(response["output_text"], "one EN END two");
    app.wait_for_sequences(0).await;
}

#[tokio::test]
async fn ignored_eos_token() {
    let app = Setup::answering("ab").start().await;
    let request = json!({"input": "x", "ignore_eos": true, "max_output_tokens": 9});
    let response = both_ways(&app, request).await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["usage"]["output_tokens"], 9);
    assert_eq!(response["output_text"], "ab");
}

#[tokio::test]
async fn device_failure() {
    let model = || Script::new("scripted", |_| "Hello there, all of you.".to_owned());
    let app = Setup::of(model().executor(|executor| executor.failing_at(4)))
        .start()
        .await;
    let events = app.stream(json!({"input": "x"})).await.all().await;
    let [.., done, error_event, failed] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(done["type"], "response.output_item.done");
    assert_eq!(done["item"]["status"], "incomplete");
    assert_eq!(error_event["type"], "error");
    assert_eq!(error_event["code"], "server_error");
    assert_eq!(error_event["error"]["code"], "server_error");
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["error"]["code"], "server_error");
    assert_eq!(failed["response"]["output"], json!([done["item"]]));
    assert!(
        !failed.to_string().contains("by its script"),
        "the device's error is not for clients"
    );
    // The engine still serves requests.
    assert_eq!(
        app.created(json!({"input": "x"})).await["status"],
        "completed"
    );

    let app = Setup::of(model().executor(|executor| executor.failing_at(4)))
        .start()
        .await;
    let refused = error(app.create(json!({"input": "x"})).await, 500).await;
    assert_eq!(refused["code"], "server_error");
}

#[tokio::test]
async fn engine_panic() {
    let model = Script::new("scripted", |_| "Hello there.".to_owned());
    let model = model.executor(|executor| executor.panicking_at(3));
    let app = Setup::of(model).start().await;
    assert_eq!(app.get("/health").await.status(), 200);
    let events = app.stream(json!({"input": "x"})).await.all().await;
    assert_eq!(events.last().expect("an event")["type"], "response.failed");
    error(app.create(json!({"input": "x"})).await, 503).await;
    // The engine's thread is ending, but may not have ended.
    let begun = Instant::now();
    while app.get("/health").await.status() == 200 {
        assert!(begun.elapsed() < TIMEOUT, "still healthy");
    }
    let health = error(app.get("/health").await, 503).await;
    assert_eq!(health["code"], "engine_stopped");
}

#[tokio::test]
async fn refused_if_the_queue_is_full() {
    let mut model = Script::new("scripted", |_| "x".repeat(2000))
        .executor(|executor| executor.step_delay(Duration::from_millis(5)));
    model.engine.running_max = 1;
    model.engine.waiting_max = 0;
    let app = Setup::of(model).start().await;
    let mut first = app.stream(json!({"input": "x"})).await;
    first.until("response.output_text.delta").await;
    for stream in [false, true] {
        let second = app.create(json!({"input": "x", "stream": stream})).await;
        assert_eq!(second.headers()["retry-after"], "1");
        let refused = error(second, 429).await;
        assert_eq!(refused["code"], "concurrency_limit_exceeded");
        assert_eq!(refused["type"], "rate_limit_error");
    }
}

#[tokio::test]
async fn refused_after_the_queue_timeout() {
    let mut model = Script::new("scripted", |_| "x".repeat(20_000))
        .executor(|executor| executor.step_delay(Duration::from_millis(5)));
    model.engine.running_max = 1;
    model.engine.queue_timeout = Some(Duration::from_millis(100));
    let app = Setup::of(model).start().await;
    let mut first = app.stream(json!({"input": "x"})).await;
    first.until("response.output_text.delta").await;
    let chat = json!({"model": "scripted", "messages": [{"role": "user", "content": "x"}]});
    let (whole, streamed, chat) = tokio::join!(
        app.create(json!({"input": "x"})),
        async { app.stream(json!({"input": "x"})).await.all().await },
        app.post("/v1/chat/completions", &chat),
    );
    for refused in [whole, chat] {
        assert_eq!(refused.headers()["retry-after"], "1");
        let refused = error(refused, 429).await;
        assert_eq!(refused["code"], "rate_limit_exceeded");
        assert_eq!(refused["type"], "rate_limit_error");
    }
    let failed = streamed.last().expect("an event");
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["error"]["code"], "rate_limit_exceeded");
    // The engine updates its counters after the step that ends the requests.
    let counted = "stemma_queue_timeouts_total{model=\"scripted\"} 3";
    let begun = Instant::now();
    loop {
        let metrics = app.get("/metrics").await.text().await.expect("text");
        if metrics.contains(counted) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{metrics}");
    }
}
