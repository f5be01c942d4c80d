//! Structured output, on every API.

use serde_json::{Value, json};

use super::reasoning::OPENING;
use crate::support::{Script, Setup, TestApp, error};

/// A model that prefers free text. Under a mask it generates the first allowed token of the
/// vocabulary.
fn talkative() -> Setup {
    Setup::answering("Sure, here it is: 1, 2, 3.")
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"enum": ["Anna", "Bert"]},
            "ages": {"type": "array", "items": {"type": "integer", "minimum": 10, "maximum": 99}, "minItems": 1, "maxItems": 2},
        },
        "required": ["name", "ages"],
        "additionalProperties": false,
    })
}

fn flat(schema: &Value) -> Value {
    json!({"type": "json_schema", "name": "person", "schema": schema, "strict": true})
}

fn nested(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "person", "schema": schema}})
}

fn check(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(value["name"] == "Anna" || value["name"] == "Bert", "{text}");
    let ages = value["ages"].as_array().expect("a list");
    assert!((1..=2).contains(&ages.len()), "{text}");
    assert!(
        ages.iter()
            .all(|age| age.as_u64().is_some_and(|age| (10..100).contains(&age))),
        "{text}"
    );
}

fn request(format: &Value, seed: u64) -> Value {
    json!({"input": "Who?", "text": {"format": format}, "seed": seed, "temperature": 1.0})
}

#[tokio::test]
async fn a_response_matches_its_schema() {
    let app = talkative().start().await;
    for seed in 0..5 {
        let response = app.created(request(&flat(&schema()), seed)).await;
        assert_eq!(response["status"], "completed");
        check(response["output_text"].as_str().expect("text"));
        let shown = &response["text"]["format"];
        assert_eq!(shown["schema"], schema());
        assert_eq!(
            (&shown["name"], &shown["strict"]),
            (&json!("person"), &json!(true))
        );
        let again = app.created(request(&nested(&schema()), seed)).await;
        assert_eq!(again["output_text"], response["output_text"]);
        assert_eq!(again["text"]["format"]["type"], "json_schema");
    }
}

#[tokio::test]
async fn a_stream_has_the_same_text_in_deltas() {
    let app = talkative().start().await;
    let whole = app.created(request(&flat(&schema()), 3)).await;
    let events = app.stream(request(&flat(&schema()), 3)).await.all().await;
    let deltas: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert!(deltas.len() > 5, "{deltas:?}");
    assert_eq!(whole["output_text"], deltas.concat());
}

#[tokio::test]
async fn json_object_output_is_an_object() {
    let app = talkative().start().await;
    let mut request = request(&json!({"type": "json_object"}), 0);
    request["max_output_tokens"] = 40.into();
    request["temperature"] = 0.into();
    let response = app.created(request).await;
    let text = response["output_text"].as_str().expect("text");
    assert!(text.starts_with('{'), "{text}");
    assert_eq!(response["text"]["format"], json!({"type": "json_object"}));
}

#[tokio::test]
async fn a_limit_without_room_for_a_completion_cuts_the_output() {
    let app = talkative().start().await;
    let mut request = request(&flat(&schema()), 0);
    request["max_output_tokens"] = 3.into();
    let response = app.created(request).await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(response["usage"]["output_tokens"], 3);
}

#[tokio::test]
async fn a_limit_with_room_for_a_completion_gives_valid_json() {
    let app = talkative().start().await;
    let open = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "people": {"type": "array", "items": schema()}},
        "required": ["title", "people"],
        "additionalProperties": false,
    });
    let mut cut = 0;
    for seed in 0..12 {
        let mut request = request(&flat(&open), seed);
        request["max_output_tokens"] = 64.into();
        let response = app.created(request).await;
        // Sampling from all tokens may open reasoning first, whose text is not constrained.
        if response["output"][0]["type"] == "reasoning" {
            continue;
        }
        let text = response["output_text"].as_str().expect("text");
        let value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
        assert!(value["title"].is_string(), "{text}");
        let people = value["people"].as_array().expect("a list");
        people.iter().for_each(|person| check(&person.to_string()));
        if response["status"] == "incomplete" {
            assert_eq!(response["usage"]["output_tokens"], 64);
            cut += 1;
        }
    }
    assert!(cut > 0, "texts drawn from all tokens are long");
}

#[tokio::test]
async fn a_constrained_response_can_be_continued() {
    let app = talkative().start().await;
    let first = app.created(request(&flat(&schema()), 1)).await;
    let mut second = request(&nested(&schema()), 2);
    second["previous_response_id"] = first["id"].clone();
    let answer = app.create(second).await;
    assert_eq!(answer.headers()["x-stemma-continuation"], "cold");
    let second: Value = answer.json().await.expect("JSON");
    check(second["output_text"].as_str().expect("text"));
}

#[tokio::test]
async fn unsupported_schemas_are_refused_with_their_path() {
    let app = talkative().start().await;
    let bad = json!({"type": "object", "properties": {"a": {"not": {"type": "null"}}}});
    for stream in [false, true] {
        let mut request = request(&flat(&bad), 0);
        request["stream"] = stream.into();
        let error = error(app.create(request).await, 400).await;
        assert_eq!(error["code"], "invalid_value");
        assert_eq!(error["param"], "text.format.schema.properties.a.not");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("`not`"), "{message}");
    }
    let none = json!({"type": "integer", "minimum": 2, "maximum": 1});
    let error = error(app.create(request(&nested(&none), 0)).await, 400).await;
    assert_eq!(error["param"], "text.format.json_schema.schema");
}

async fn chat(app: &TestApp, format: &Value) -> reqwest::Response {
    let request = json!({
        "messages": [{"role": "user", "content": "Who?"}], "response_format": format, "n": 2, "seed": 1,
    });
    app.post("/v1/chat/completions", &request).await
}

#[tokio::test]
async fn a_chat_completion_matches_its_schema() {
    let app = talkative().start().await;
    for format in [flat(&schema()), nested(&schema())] {
        let completion: Value = chat(&app, &format).await.json().await.expect("JSON");
        for choice in completion["choices"].as_array().expect("a list") {
            check(choice["message"]["content"].as_str().expect("text"));
            assert_eq!(choice["finish_reason"], "stop");
        }
    }
    let bad = json!({"uniqueItems": true});
    let error = error(chat(&app, &nested(&bad)).await, 400).await;
    assert_eq!(
        error["param"],
        "response_format.json_schema.schema.uniqueItems"
    );
}

#[tokio::test]
async fn unconstrained_requests_do_not_wait_for_masks() {
    let app = Setup::of(Script::new("scripted", |_| "word ".repeat(50)))
        .start()
        .await;
    let constrained = request(&flat(&schema()), 0);
    let (free, formed) = tokio::join!(app.created(json!({"input": "x"})), app.created(constrained));
    assert_eq!(free["output_text"], "word ".repeat(50));
    check(formed["output_text"].as_str().expect("text"));
}

#[tokio::test]
async fn reasoning_before_structured_output_is_unconstrained() {
    let mut model = Script::new("scripted", |_| {
        "Well, {\"name\": 1}.\n</think>\n\nSure, here it is.".to_owned()
    });
    model.template = Some(OPENING);
    let app = Setup::of(model).start().await;
    let response = app.created(request(&flat(&schema()), 0)).await;
    let items = response["output"].as_array().expect("a list");
    assert_eq!(items.len(), 2, "{response}");
    assert_eq!(items[0]["type"], "reasoning");
    assert_eq!(items[0]["content"][0]["text"], "Well, {\"name\": 1}.");
    check(response["output_text"].as_str().expect("text"));
}
