//! Logprobs of output tokens, on every API.

use serde_json::{Value, json};

use crate::support::{Events, Setup, TestApp, chunks};

/// Text with characters of several tokens.
const TEXT: &str = "Hello there, caf\u{e9} \u{1f600}\u{4e16}.";

fn asking(top: u64) -> Value {
    json!({
        "input": "Hi", "top_logprobs": top, "include": ["message.output_text.logprobs"],
    })
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Joins the `bytes` of logprob entries to a text.
fn joined(entries: &Value) -> String {
    let bytes = list(entries).iter().flat_map(|entry| list(&entry["bytes"]));
    let byte = |byte: &Value| u8::try_from(byte.as_u64().expect("a number")).expect("a byte");
    String::from_utf8(bytes.map(byte).collect()).expect("whole characters")
}

/// Returns the entries without their bytes, as they are in events.
fn without_bytes(entries: &Value) -> Value {
    let mut entries = entries.clone();
    for entry in entries.as_array_mut().expect("a list") {
        let top = entry["top_logprobs"].as_array_mut().expect("a list");
        for other in top {
            other.as_object_mut().expect("an object").remove("bytes");
        }
        entry.as_object_mut().expect("an object").remove("bytes");
    }
    entries
}

#[tokio::test]
async fn responses_have_logprobs_and_store_them() {
    let app = Setup::answering(TEXT).start().await;
    let response = app.created(asking(2)).await;
    assert_eq!(response["top_logprobs"], 2);
    let entries = &response["output"][0]["content"][0]["logprobs"];
    assert_eq!(joined(entries), TEXT);
    for entry in list(entries) {
        let top = list(&entry["top_logprobs"]);
        assert_eq!(top.len(), 2, "{entry}");
        assert_eq!(top[0]["token"], entry["token"]);
        assert_eq!(top[0]["logprob"], entry["logprob"]);
        assert!(top[1]["logprob"].as_f64() < Some(-80.0), "{entry}");
    }
    let partial = |entry: &&Value| {
        let token = entry["token"].as_str().expect("text");
        token.starts_with("bytes:\\x")
    };
    assert!(
        list(entries).iter().filter(partial).count() > 3,
        "{entries}"
    );
    let id = response["id"].as_str().expect("an id");
    let stored: Value = app
        .get(&format!("/v1/responses/{id}"))
        .await
        .json()
        .await
        .expect("JSON");
    assert_eq!(stored, response);
    let next = json!({"input": "Go on", "previous_response_id": id});
    assert_eq!(app.created(next).await["status"], "completed");
}

#[tokio::test]
async fn logprobs_are_opt_in() {
    let app = Setup::answering(TEXT).start().await;
    for request in [
        json!({"input": "Hi"}),
        json!({"input": "Hi", "top_logprobs": 5}),
    ] {
        let response = app.created(request).await;
        assert_eq!(response["top_logprobs"], 0);
        assert_eq!(response["output"][0]["content"][0]["logprobs"], json!([]));
    }
}

#[tokio::test]
async fn streamed_logprobs_equal_those_of_the_response() {
    let app = Setup::answering(TEXT).start().await;
    let whole = app.created(asking(1)).await;
    let entries = &whole["output"][0]["content"][0]["logprobs"];
    let events = app.stream(asking(1)).await.all().await;
    let named = |name: &'static str| events.iter().filter(move |event| event["type"] == name);
    let mut together = Vec::new();
    for delta in named("response.output_text.delta") {
        assert!(!list(&delta["logprobs"]).is_empty(), "{delta}");
        together.extend_from_slice(list(&delta["logprobs"]));
    }
    assert_eq!(Value::from(together), without_bytes(entries));
    let done = named("response.output_text.done").next().expect("an end");
    assert_eq!(done["logprobs"], without_bytes(entries));
    let part = named("response.content_part.done").next().expect("an end");
    assert_eq!(&part["part"]["logprobs"], entries);
    let last = events.last().expect("an event");
    assert_eq!(
        &last["response"]["output"][0]["content"][0]["logprobs"],
        entries
    );
}

#[tokio::test]
async fn text_removed_by_a_stop_string_has_no_logprobs() {
    let app = Setup::answering("one two three").start().await;
    let mut request = asking(0);
    request["stop"] = " thr".into();
    let response = app.created(request).await;
    let part = &response["output"][0]["content"][0];
    assert_eq!(part["text"], "one two");
    assert_eq!(joined(&part["logprobs"]), "one two");
}

async fn post(app: &TestApp, path: &str, request: &Value) -> reqwest::Response {
    let answer = app.post(path, request).await;
    assert_eq!(answer.status(), 200, "{request}");
    answer
}

/// Returns the deltas in the chunks of a stream.
async fn choices(app: &TestApp, path: &str, mut request: Value) -> Vec<Value> {
    request["stream"] = true.into();
    let chunks = chunks(post(app, path, &request).await).await;
    let choice = |mut chunk: Value| chunk["choices"][0].take();
    chunks.into_iter().map(choice).collect()
}

#[tokio::test]
async fn chat_completions_have_logprobs() {
    const PATH: &str = "/v1/chat/completions";
    let app = Setup::answering(TEXT).start().await;
    let request = json!({
        "messages": [{"role": "user", "content": "Hi"}], "logprobs": true, "top_logprobs": 3,
    });
    let whole: Value = post(&app, PATH, &request).await.json().await.expect("JSON");
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["refusal"], Value::Null);
    assert_eq!(joined(&logprobs["content"]), TEXT);
    assert_eq!(list(&logprobs["content"][0]["top_logprobs"]).len(), 3);
    let mut together = Vec::new();
    for choice in choices(&app, PATH, request).await {
        let said = choice["delta"]["content"].as_str().unwrap_or_default();
        assert_eq!(choice["logprobs"].is_null(), said.is_empty(), "{choice}");
        let new = choice["logprobs"]["content"].as_array().cloned();
        together.extend(new.unwrap_or_default());
    }
    assert_eq!(Value::from(together), logprobs["content"]);
}

#[tokio::test]
async fn completions_have_logprobs() {
    const PATH: &str = "/v1/completions";
    let app = Setup::answering(TEXT).start().await;
    let request = json!({"prompt": "Hi", "max_tokens": 99, "logprobs": 2});
    let whole: Value = post(&app, PATH, &request).await.json().await.expect("JSON");
    let choice = &whole["choices"][0];
    let mut together = json!({
        "tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": [],
    });
    for choice in choices(&app, PATH, request).await {
        for (key, all) in together.as_object_mut().expect("an object") {
            let new = choice["logprobs"][key].as_array().cloned();
            all.as_array_mut()
                .expect("a list")
                .extend(new.unwrap_or_default());
        }
    }
    assert_eq!(&together, &choice["logprobs"]);
    let characters: Vec<char> = TEXT.chars().collect();
    let tokens = list(&together["tokens"]).iter();
    for (token, offset) in tokens.zip(list(&together["text_offset"])) {
        let offset = usize::try_from(offset.as_u64().expect("a number")).expect("a place");
        let rest: String = characters[offset..].iter().collect();
        let token = token.as_str().expect("text");
        assert!(
            token.starts_with("bytes:") || rest.starts_with(token),
            "{token}"
        );
    }
}

#[tokio::test]
async fn events_without_text_have_no_logprobs() {
    let app = Setup::answering("").start().await;
    let events: Events = app.stream(asking(1)).await;
    let events = events.all().await;
    let last = events.last().expect("an event");
    let part = &last["response"]["output"][0]["content"][0];
    assert_eq!((&part["text"], &part["logprobs"]), (&json!(""), &json!([])));
}
