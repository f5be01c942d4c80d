//! `/v1/chat/completions`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Script, Setup, TestApp, chunks, error};

async fn post(app: &TestApp, request: &Value) -> reqwest::Response {
    app.post("/v1/chat/completions", request).await
}

async fn completion(app: &TestApp, request: &Value) -> Value {
    let answer = post(app, request).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().contains_key("x-stemma-warm"));
    answer.json().await.expect("JSON")
}

/// Returns the chunks of a stream, and checks its end.
async fn streamed(app: &TestApp, mut request: Value) -> Vec<Value> {
    request["stream"] = true.into();
    let answer = post(app, &request).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    chunks(answer).await
}

fn hello() -> Value {
    json!({"messages": [{"role": "user", "content": "Hi."}]})
}

fn with(field: &str, value: Value) -> Value {
    let mut request = hello();
    request[field] = value;
    request
}

#[tokio::test]
async fn a_completion_has_all_fields() {
    let app = Setup::answering("Hello there.").start().await;
    let mut whole = completion(&app, &hello()).await;
    let id = whole["id"].take();
    assert!(id.as_str().expect("an id").starts_with("chatcmpl-"));
    assert_eq!(
        whole,
        json!({
            "id": null,
            "object": "chat.completion",
            "created": 1_760_000_000,
            "model": "scripted",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "Hello there.", "refusal": null,
                    "annotations": [],
                },
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": {
                "prompt_tokens": whole["usage"]["prompt_tokens"],
                "completion_tokens": whole["usage"]["completion_tokens"],
                "total_tokens": whole["usage"]["total_tokens"],
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": 0, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                },
            },
            "service_tier": "default",
            "system_fingerprint": null,
        })
    );
    let response = app.created(json!({"input": "Hi."})).await;
    let usage = &response["usage"];
    assert_eq!(whole["usage"]["prompt_tokens"], usage["input_tokens"]);
    assert_eq!(whole["usage"]["completion_tokens"], usage["output_tokens"]);
}

#[tokio::test]
async fn a_stream_adds_up_to_the_completion() {
    let app = Setup::answering("Hello there, caf\u{e9} \u{1f600}.")
        .start()
        .await;
    let whole = completion(&app, &hello()).await;
    for include_usage in [false, true] {
        let options = json!({"include_usage": include_usage});
        let chunks = streamed(&app, with("stream_options", options)).await;
        let ids = chunks.iter().map(|chunk| &chunk["id"]);
        assert!(ids.clone().all(|id| id == &chunks[0]["id"]));
        let delta = |chunk: &Value| chunk["choices"][0]["delta"].clone();
        assert_eq!(
            delta(&chunks[0]),
            json!({"role": "assistant", "content": ""})
        );
        let said: String = chunks
            .iter()
            .filter_map(|chunk| delta(chunk)["content"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(whole["choices"][0]["message"]["content"], said.as_str());
        let (usages, rest): (Vec<_>, Vec<_>) = chunks
            .iter()
            .partition(|chunk| chunk["choices"] == json!([]));
        let last = rest.last().expect("a chunk");
        assert_eq!(
            (delta(last), &last["choices"][0]["finish_reason"]),
            (json!({}), &json!("stop"))
        );
        let expected: &[&Value] = if include_usage {
            &[&whole["usage"]]
        } else {
            &[]
        };
        let found: Vec<&Value> = usages.iter().map(|chunk| &chunk["usage"]).collect();
        assert_eq!(found, expected);
        let has_key = rest.iter().map(|chunk| chunk.get("usage").is_some());
        assert!(has_key.clone().all(|has| has == include_usage));
    }
}

#[tokio::test]
async fn a_request_can_have_several_choices() {
    let app = Setup::answering("Yes.").start().await;
    let whole = completion(&app, &with("n", 3.into())).await;
    let choices = whole["choices"].as_array().expect("a list");
    let indices: Vec<_> = choices.iter().map(|choice| &choice["index"]).collect();
    assert_eq!(indices, [0, 1, 2]);
    let one = completion(&app, &hello()).await;
    let tokens = |whole: &Value, key: &str| whole["usage"][key].as_u64().expect("a number");
    assert_eq!(
        tokens(&whole, "prompt_tokens"),
        tokens(&one, "prompt_tokens")
    );
    let three = 3 * tokens(&one, "completion_tokens");
    assert_eq!(tokens(&whole, "completion_tokens"), three);

    let chunks = streamed(&app, with("n", 3.into())).await;
    for index in 0..3 {
        let own = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let own: Vec<&Value> = chunks.iter().filter(own).collect();
        let said: String = own
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(said, "Yes.");
        let last = own.last().expect("a chunk");
        assert_eq!(last["choices"][0]["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn limits_and_stop_strings_apply_to_chat() {
    let app = Setup::answering("One two three four.").start().await;
    let cut = completion(&app, &with("max_tokens", 2.into())).await;
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    assert_eq!(cut["usage"]["completion_tokens"], 2);
    let stopped = completion(&app, &with("stop", json!([" three"]))).await;
    let choice = &stopped["choices"][0];
    assert_eq!(choice["message"]["content"], "One two");
    assert_eq!(choice["finish_reason"], "stop");
}

#[tokio::test]
async fn a_failure_is_an_error_chunk_or_a_status() {
    let failing = Script::new("scripted", |_| "Not to the end.".to_owned())
        .executor(|executor| executor.failing_at(4));
    let app = Setup::of(failing).start().await;
    let answer = post(&app, &with("stream", true.into())).await;
    let text = answer.text().await.expect("text");
    let last = text.trim_end().rsplit("\n\n").next().expect("a frame");
    let last: Value = serde_json::from_str(&last["data: ".len()..]).expect("JSON");
    assert_eq!(last["error"]["code"], "server_error");

    let failing = Script::new("scripted", |_| "Not to the end.".to_owned())
        .executor(|executor| executor.failing_at(4));
    let app = Setup::of(failing).start().await;
    assert_eq!(
        error(post(&app, &hello()).await, 500).await["code"],
        "server_error"
    );
}

#[tokio::test]
async fn a_disconnect_cancels_all_choices() {
    let slow = Script::new("slow", |_| "Word after word after word.".to_owned())
        .executor(|executor| executor.step_delay(Duration::from_millis(20)));
    let app = Setup::of(slow).start().await;
    let mut request = with("n", 4.into());
    request["stream"] = true.into();
    let mut answer = post(&app, &request).await;
    answer.chunk().await.expect("a stream").expect("a chunk");
    app.wait_for_sequences(4).await;
    drop(answer);
    app.wait_for_sequences(0).await;
}

#[tokio::test]
async fn request_errors_name_the_parameter() {
    let app = Setup::default().start().await;
    for (request, param, code) in [
        (json!({}), json!("messages"), "missing_required_parameter"),
        (
            with("messages", json!([])),
            json!("messages"),
            "empty_input",
        ),
        (
            with("messages", json!("Hi.")),
            json!("messages"),
            "invalid_type",
        ),
        (
            with("tools", json!([{}])),
            json!("tools[0].type"),
            "missing_required_parameter",
        ),
        (
            json!({"messages": [{"role": "user", "content": "refuse me"}]}),
            json!("messages"),
            "template_refused",
        ),
    ] {
        let refused = error(post(&app, &request).await, 400).await;
        assert_eq!(
            (&refused["param"], &refused["code"]),
            (&param, &json!(code)),
            "{request}"
        );
    }
    let unknown = error(post(&app, &with("model", json!("none"))).await, 404).await;
    assert_eq!(unknown["code"], "model_not_found");
}
