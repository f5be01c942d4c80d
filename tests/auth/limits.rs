//! Rate limits of a key.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Entry, create, created, start};
use crate::support::{Script, Setup, TIMEOUT, error};

#[tokio::test]
async fn requests_a_minute() {
    let ann = Entry::new("ann", "rate_limit_rpm = 2");
    let bob = Entry::new("bob", "");
    let app = start(Setup::default(), [&ann, &bob]).await;
    for left in ["1", "0"] {
        let answer = create(&app, ann.secret(), &json!({"input": "Hi."})).await;
        assert_eq!(answer.status(), 200);
        let headers = answer.headers();
        assert_eq!(headers["x-ratelimit-limit-requests"], "2");
        assert_eq!(headers["x-ratelimit-remaining-requests"], left);
        assert!(!headers.contains_key("x-ratelimit-limit-tokens"));
    }
    let refused = create(&app, ann.secret(), &json!({"input": "Hi."})).await;
    let after = refused.headers()["retry-after"].to_str().expect("text");
    let after: u64 = after.parse().expect("seconds");
    assert!((1..=30).contains(&after), "{after}");
    assert_eq!(refused.headers()["x-ratelimit-remaining-requests"], "0");
    let refused = error(refused, 429).await;
    assert_eq!(refused["code"], "rate_limit_exceeded");
    let other = create(&app, bob.secret(), &json!({"input": "Hi."})).await;
    assert_eq!(other.status(), 200);
    assert!(!other.headers().contains_key("x-ratelimit-limit-requests"));
}

#[tokio::test]
async fn tokens_a_minute() {
    let ann = Entry::new("ann", "rate_limit_tpm = 10");
    let app = start(Setup::default(), [&ann]).await;
    let response = created(
        &app,
        ann.secret(),
        json!({"input": "Some more words than that."}),
    )
    .await;
    assert!(response["usage"]["total_tokens"].as_u64() > Some(10));
    let refused = create(&app, ann.secret(), &json!({"input": "Hi."})).await;
    assert_eq!(refused.headers()["x-ratelimit-remaining-tokens"], "0");
    let refused = error(refused, 429).await;
    assert_eq!(refused["code"], "rate_limit_exceeded");
}

#[tokio::test]
async fn requests_at_once() {
    let slow = Script::new("slow", |_| "Word after word.".to_owned())
        .executor(|executor| executor.step_delay(Duration::from_millis(20)));
    let ann = Entry::new("ann", "max_concurrent = 1");
    let app = start(Setup::of(slow), [&ann]).await;
    let request = app.client.post(format!("{}/v1/responses", app.url));
    let request = request.bearer_auth(ann.secret());
    let mut stream = request
        .json(&json!({"input": "Hi.", "stream": true}))
        .send()
        .await
        .expect("an answer");
    let refused = create(&app, ann.secret(), &json!({"input": "Hi."})).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    let refused = error(refused, 429).await;
    assert_eq!(refused["code"], "concurrency_limit_exceeded");
    // The place is free once the last event is there, and not a moment later.
    let mut text = String::new();
    while !text.contains("event: response.completed") {
        let chunk = stream.chunk().await.expect("a stream").expect("more");
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let next: Value = created(&app, ann.secret(), json!({"input": "Hi."})).await;
    assert_eq!(next["status"], "completed");
    // Nor does one that has gone hold it.
    let gone = app.client.post(format!("{}/v1/responses", app.url));
    let gone = gone.bearer_auth(ann.secret());
    let gone = gone
        .json(&json!({"input": "Hi.", "stream": true}))
        .send()
        .await;
    drop(gone.expect("an answer"));
    let free = async {
        while create(&app, ann.secret(), &json!({"input": "Hi."}))
            .await
            .status()
            == 429
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let freed = tokio::time::timeout(TIMEOUT, free).await;
    assert!(freed.is_ok(), "the place is not free");
}
