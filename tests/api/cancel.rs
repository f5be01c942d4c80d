//! `/v1/responses/{id}/cancel` and `/v1/responses/input_tokens`.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use stemma::id::ResponseId;

use crate::support::{Script, Setup, TestApp, error};

fn slow() -> Script {
    Script::new("slow", |_| "Word after word after word.".repeat(100))
        .executor(|executor| executor.step_delay(Duration::from_millis(5)))
}

async fn post(app: &TestApp, path: &str, body: &Value) -> reqwest::Response {
    let post = app.client.post(format!("{}{path}", app.url)).json(body);
    post.send().await.expect("an answer")
}

async fn cancel(app: &TestApp, id: &str) -> reqwest::Response {
    post(app, &format!("/v1/responses/{id}/cancel"), &json!({})).await
}

#[tokio::test]
async fn a_cancelled_stream_ends_incomplete_and_is_stored() {
    let app = Setup::of(slow()).start().await;
    let mut events = app.stream(json!({"input": "Hi."})).await;
    let first = events.next().await.expect("an event");
    let id = first["response"]["id"].as_str().expect("an id").to_owned();
    // Until the response ends, its id is valid for cancel only.
    error(app.get(&format!("/v1/responses/{id}")).await, 404).await;
    while events.next().await.expect("an event")["type"] != "response.output_text.delta" {}
    let cancelled: Value = cancel(&app, &id).await.json().await.expect("JSON");
    assert_eq!(
        (&cancelled["id"], &cancelled["status"]),
        (&json!(id), &json!("cancelled"))
    );
    assert_eq!(cancelled["output"][0]["status"], "incomplete");
    assert!(!cancelled["output_text"].as_str().expect("text").is_empty());
    let mut last = Value::Null;
    while let Some(event) = events.next().await {
        last = event;
    }
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"], cancelled);
    app.wait_for_sequences(0).await;
    let read: Value = app
        .get(&format!("/v1/responses/{id}"))
        .await
        .json()
        .await
        .expect("JSON");
    assert_eq!(read, cancelled);
    let again = error(cancel(&app, &id).await, 400).await;
    assert_eq!(again["code"], "not_cancellable");
    // A cancelled response can be continued.
    let next = json!({"input": "Go on.", "previous_response_id": id, "max_output_tokens": 1});
    app.created(next).await;
}

#[tokio::test]
async fn a_response_that_is_not_streamed_can_be_cancelled() {
    let app = Arc::new(Setup::of(slow()).start().await);
    let asking = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.created(json!({"input": "Hi.", "store": false})).await }
    });
    app.wait_for_sequences(1).await;
    // The first random number of a test is 0, and the clock is fixed.
    let id = ResponseId::new(1_760_000_000_000, 0).to_string();
    let cancelled: Value = cancel(&app, &id).await.json().await.expect("JSON");
    assert_eq!(asking.await.expect("an answer"), cancelled);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(
        error(cancel(&app, &id).await, 404).await["code"],
        "not_found"
    );
}

#[tokio::test]
async fn unknown_and_ended_responses_cannot_be_cancelled() {
    let app = Setup::default().start().await;
    for id in ["resp_1", &format!("resp_{:032x}", 77)] {
        assert_eq!(
            error(cancel(&app, id).await, 404).await["code"],
            "not_found"
        );
    }
    let ended = app.created(json!({"input": "Hi."})).await;
    let refused = error(
        cancel(&app, ended["id"].as_str().expect("an id")).await,
        400,
    )
    .await;
    assert_eq!(refused["code"], "not_cancellable");
}

#[tokio::test]
async fn input_tokens_counts_the_prompt_tokens_of_the_same_request() {
    let app = Setup::default().start().await;
    let count = async |request: &Value| {
        let counted = post(&app, "/v1/responses/input_tokens", request).await;
        assert_eq!(counted.status(), 200);
        counted.json::<Value>().await.expect("JSON")
    };
    let first = json!({"input": "Some words.", "instructions": "Be brief."});
    let counted = count(&first).await;
    let response = app.created(first).await;
    let expected = &response["usage"]["input_tokens"];
    assert_eq!(
        counted,
        json!({"object": "response.input_tokens", "input_tokens": expected})
    );
    let next = json!({"input": "More.", "previous_response_id": response["id"]});
    let counted = count(&next).await;
    let response = app.created(next).await;
    assert_eq!(counted["input_tokens"], response["usage"]["input_tokens"]);
    let refused = post(&app, "/v1/responses/input_tokens", &json!({"input": ""})).await;
    assert_eq!(error(refused, 400).await["code"], "empty_input");
}
