//! `/v1/completions`.

use serde_json::{Value, json};

use crate::support::{Script, Setup, TestApp, chunks, error, tokenizer};

async fn post(app: &TestApp, request: &Value) -> reqwest::Response {
    app.post("/v1/completions", request).await
}

async fn completion(app: &TestApp, request: &Value) -> Value {
    let answer = post(app, request).await;
    let status = answer.status();
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(status, 200, "{body}");
    body
}

/// A model whose output is the prompt in brackets.
fn parrot() -> Setup {
    Setup::of(Script::new("scripted", |prompt| format!(" [{prompt}]")))
}

fn texts(completion: &Value) -> Vec<&str> {
    let choices = completion["choices"].as_array().expect("a list");
    let text = |choice: &'_ Value| choice["text"].as_str().map(str::len).is_some();
    assert!(choices.iter().all(text));
    choices
        .iter()
        .filter_map(|choice| choice["text"].as_str())
        .collect()
}

#[tokio::test]
async fn completions_do_not_use_the_template() {
    let app = parrot().start().await;
    let mut whole = completion(&app, &json!({"prompt": "Once"})).await;
    let id = whole["id"].take();
    assert!(id.as_str().expect("an id").starts_with("cmpl-"));
    assert_eq!(
        whole,
        json!({
            "id": null,
            "object": "text_completion",
            "created": 1_760_000_000,
            "model": "scripted",
            "choices": [{"index": 0, "text": " [Once]", "logprobs": null, "finish_reason": "stop"}],
            "usage": whole["usage"],
            "system_fingerprint": null,
        })
    );
    let tokens = tokenizer().encode_text("Once", true).len();
    assert_eq!(whole["usage"]["prompt_tokens"], tokens);
}

#[tokio::test]
async fn a_prompt_can_be_token_ids() {
    let app = parrot().start().await;
    let ids = tokenizer().encode_text("Twice", true);
    let of_tokens = completion(&app, &json!({"prompt": ids})).await;
    assert_eq!(texts(&of_tokens), [" [Twice]"]);
    let unknown = error(post(&app, &json!({"prompt": [1_000_000]})).await, 400).await;
    assert_eq!(
        (&unknown["param"], &unknown["code"]),
        (&json!("prompt"), &json!("invalid_value"))
    );
}

#[tokio::test]
async fn several_prompts_have_several_choices_each() {
    let app = parrot().start().await;
    let request = json!({"prompt": ["a", "b"], "n": 2, "echo": true});
    let whole = completion(&app, &request).await;
    assert_eq!(texts(&whole), ["a [a]", "a [a]", "b [b]", "b [b]"]);
    let one = completion(&app, &json!({"prompt": "a"})).await;
    let count = |whole: &Value, key: &str| whole["usage"][key].as_u64().expect("a number");
    assert_eq!(
        count(&whole, "prompt_tokens"),
        2 * count(&one, "prompt_tokens")
    );
    assert_eq!(
        count(&whole, "completion_tokens"),
        4 * count(&one, "completion_tokens")
    );
}

#[tokio::test]
async fn a_stream_adds_up_to_the_completion() {
    let app = parrot().start().await;
    let mut request = json!({"prompt": ["a", "b"], "echo": true});
    let whole = completion(&app, &request).await;
    request["stream"] = true.into();
    request["stream_options"] = json!({"include_usage": true});
    let chunks = chunks(post(&app, &request).await).await;
    for (index, expected) in texts(&whole).into_iter().enumerate() {
        let own = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let mut own = own.filter(|choice| choice["index"] == index);
        let said: String = own
            .clone()
            .filter_map(|choice| choice["text"].as_str())
            .collect();
        assert_eq!(said, expected);
        assert_eq!(own.next_back().expect("a chunk")["finish_reason"], "stop");
    }
    let last = chunks.last().expect("a chunk");
    assert_eq!(
        (&last["choices"], &last["usage"]),
        (&json!([]), &whole["usage"])
    );
}

#[tokio::test]
async fn empty_prompts_are_refused_and_a_missing_prompt_is_not() {
    let app = parrot().start().await;
    let refused = error(post(&app, &json!({"prompt": " \n"})).await, 400).await;
    assert_eq!(
        (&refused["param"], &refused["code"]),
        (&json!("prompt"), &json!("empty_input"))
    );
    // The tests' tokenizer has no BOS token.
    let refused = error(post(&app, &json!({"prompt": ""})).await, 400).await;
    assert_eq!(
        (&refused["param"], &refused["code"]),
        (&json!("prompt"), &json!("empty_input"))
    );
}

#[tokio::test]
async fn a_model_without_a_template_completes_texts() {
    let mut model = Script::new("base", |prompt| format!("{prompt}, and more"));
    model.template = None;
    let app = Setup::of(model).start().await;
    let whole = completion(&app, &json!({"prompt": "This", "max_tokens": 3})).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["completion_tokens"], 3);
}
