//! Responses that are not streamed.

use serde_json::{Value, json};

use stemma::engine::EngineOptions;

use crate::support::{Events, Script, Setup, error};

/// A model whose output is the prompt, so that tests see what the model gets.
fn parrot() -> Setup {
    Setup::of(Script::new("scripted", |prompt| {
        prompt.replace("<|", "<").replace("|>", ">")
    }))
}

#[tokio::test]
async fn a_string_is_answered_with_the_whole_object() {
    let mut model = Script::new("scripted", |_| "Hello there.".to_owned());
    model.engine = EngineOptions::default();
    let app = Setup::of(model).start().await;
    let response = app
        .created(json!({
            "input": "Hi", "instructions": "Be terse.", "temperature": 0.7,
            "metadata": {"b": "1", "a": "2"}, "user": "u", "max_output_tokens": 50,
        }))
        .await;
    insta::assert_json_snapshot!(response);
}

#[tokio::test]
async fn roles_and_parts_reach_the_model_in_order() {
    let app = parrot().start().await;
    let response = app
        .created(json!({
            "instructions": "Be terse.",
            "input": [
                {"role": "developer", "content": "Rules."},
                {"role": "user", "content": [
                    {"type": "input_text", "text": "One."}, {"type": "input_text", "text": "Two."},
                ]},
                {"role": "assistant", "content": "Three."},
                {"type": "message", "role": "user", "content": "Four."},
            ],
        }))
        .await;
    insta::assert_snapshot!(response["output_text"].as_str().expect("text"));
}

#[tokio::test]
async fn output_items_are_valid_input() {
    let app = parrot().start().await;
    let first = app.created(json!({"input": "First."})).await;
    let mut input = first["output"].as_array().expect("a list").clone();
    input.push(json!({"role": "user", "content": "Second."}));
    let second = app.created(json!({"input": input})).await;
    let text = second["output_text"].as_str().expect("text");
    assert!(text.contains(first["output_text"].as_str().expect("text")));
}

#[tokio::test]
async fn control_token_text_of_a_user_is_plain_text() {
    let app = parrot().start().await;
    let control = app.created(json!({"input": "<|im_end|>"})).await;
    let plain = app.created(json!({"input": "x"})).await;
    let tokens = |response: &Value| {
        response["usage"]["input_tokens"]
            .as_u64()
            .expect("a number")
    };
    // A single token would be the control token itself.
    assert!(tokens(&control) > tokens(&plain) + 3, "{control} {plain}");
    let count = |response: &Value| {
        let text = response["output_text"].as_str().expect("text");
        text.matches("<im_end>").count()
    };
    assert_eq!((count(&control), count(&plain)), (2, 1));
}

#[tokio::test]
async fn usage_counts_tokens() {
    let app = Setup::answering("aaaa").start().await;
    let usage = app.created(json!({"input": "x"})).await["usage"].clone();
    let number = |key: &str| usage[key].as_u64().expect("a number");
    assert_eq!(
        number("total_tokens"),
        number("input_tokens") + number("output_tokens")
    );
    assert!(number("output_tokens") >= 1);
    assert_eq!(
        usage["output_tokens_details"],
        json!({"reasoning_tokens": 0})
    );
}

#[tokio::test]
async fn cached_tokens_are_in_usage_and_in_a_header() {
    let mut model = Script::new("scripted", |_| "x".to_owned());
    model.engine = EngineOptions::default();
    let app = Setup::of(model).start().await;
    let ask = async |stream: bool| {
        let answer = app.create(json!({"input": "x", "stream": stream})).await;
        let header = answer.headers()["x-stemma-warm"].to_str().expect("text");
        let warm: u64 = header.parse().expect("a number");
        let response = match stream {
            true => Events::new(answer).until("response.completed").await["response"].clone(),
            false => answer.json().await.expect("JSON"),
        };
        let number = |path: &str| response["usage"].pointer(path).and_then(Value::as_u64);
        let cached = number("/input_tokens_details/cached_tokens").expect("a number");
        let written = number("/input_tokens_details/cache_write_tokens").expect("a number");
        assert_eq!(warm, cached);
        assert_eq!(cached + written, number("/input_tokens").expect("a number"));
        cached
    };
    assert_eq!(ask(false).await, 0);
    let cached = ask(false).await;
    assert!(cached > 0);
    assert_eq!(ask(true).await, cached);
}

#[tokio::test]
async fn sampling_defaults_are_echoed_and_a_request_overrides_them() {
    let mut model = Script::new("scripted", |_| "x".to_owned());
    model.defaults.temperature = 0.6;
    model.defaults.top_p = 0.95;
    let app = Setup::of(model).start().await;
    let response = app.created(json!({"input": "x", "top_p": 0.5})).await;
    assert_eq!(response["temperature"], 0.6);
    assert_eq!(response["top_p"], 0.5);
}

#[tokio::test]
async fn model_may_be_omitted_only_if_one_is_served() {
    let setup = Setup {
        models: vec![
            Script::new("a", |_| "I am a.".to_owned()),
            Script::new("org/b", |_| "I am b.".to_owned()),
        ],
        ..Setup::default()
    };
    let app = setup.start().await;
    let response = app.created(json!({"input": "x", "model": "org/b"})).await;
    assert_eq!(response["output_text"], "I am b.");
    assert_eq!(response["model"], "org/b");
    let refused = error(app.create(json!({"input": "x"})).await, 400).await;
    assert_eq!(refused["param"], "model");
    assert!(
        refused["message"]
            .as_str()
            .expect("text")
            .contains("a, org/b")
    );
    let unknown = error(app.create(json!({"input": "x", "model": "c"})).await, 404).await;
    assert_eq!(unknown["code"], "model_not_found");
    assert_eq!(unknown["param"], "model");
}

#[tokio::test]
async fn logit_bias_can_force_a_token() {
    let app = Setup::answering("bbb").start().await;
    let tokenizer = crate::support::tokenizer();
    let token = tokenizer.encode_text("a", false)[0].to_string();
    let request = json!({"input": "x", "logit_bias": {token: 100}, "max_output_tokens": 4});
    assert_eq!(app.created(request).await["output_text"], "aaaa");
    let beyond = tokenizer.vocab_size().to_string();
    let request = json!({"input": "x", "logit_bias": {beyond.clone(): 1}});
    let refused = error(app.create(request).await, 400).await;
    assert_eq!(refused["param"], format!("logit_bias.{beyond}"));
}

#[tokio::test]
async fn a_seed_makes_sampling_reproducible() {
    let app = Setup::answering("").start().await;
    let request = |seed: i64| {
        // Without the scripted model's confident logits, sampling is random.
        let end = "2";
        json!({"input": "x", "seed": seed, "max_output_tokens": 12, "logit_bias": {end: -100}})
    };
    let first = app.created(request(7)).await["output_text"].clone();
    assert_eq!(app.created(request(7)).await["output_text"], first);
    assert_ne!(app.created(request(8)).await["output_text"], first);
}
