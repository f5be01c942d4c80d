//! Calls that must be made: whatever the model would rather say, it makes them.

use serde_json::{Value, json};

use super::{CALL, THINK, kinds, model, setup};
use crate::support::{Setup, TestApp, chunks, error};

/// A tool whose arguments are few enough that any model ends them.
fn forecast() -> Value {
    json!({
        "type": "function", "name": "forecast",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"enum": ["Paris", "Rome"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": false,
        },
    })
}

fn clock() -> Value {
    json!({"type": "function", "name": "get_time"})
}

fn named(name: &str) -> Value {
    json!({"type": "function", "name": name})
}

fn asking(said: &str, tools: &[Value], choice: &Value, seed: u64) -> Value {
    json!({
        "input": format!("Say: {said}"), "tools": tools, "tool_choice": choice, "seed": seed,
        "temperature": 1.0, "max_output_tokens": 500, "logit_bias": {THINK: -100},
    })
}

/// Checks the calls of a response; gives their names.
fn check(response: &Value) -> Vec<String> {
    assert_eq!(response["status"], "completed", "{response}");
    let output = response["output"].as_array().expect("a list");
    let calls = output.iter().filter(|item| item["type"] != "reasoning");
    calls
        .map(|call| {
            assert_eq!(call["type"], "function_call", "{response}");
            let text = call["arguments"].as_str().expect("text");
            let arguments: Value = serde_json::from_str(text).expect(text);
            match call["name"].as_str() {
                Some("forecast") => {
                    assert!(["Paris", "Rome"].contains(&arguments["city"].as_str().expect(text)));
                    assert!(
                        (1..10).contains(&arguments["days"].as_u64().expect(text)),
                        "{text}"
                    );
                    assert_eq!(arguments.as_object().map(serde_json::Map::len), Some(2));
                }
                Some("get_time") => assert_eq!(arguments, json!({})),
                other => panic!("{other:?}"),
            }
            call["name"].as_str().unwrap_or_default().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn a_model_that_would_rather_talk_calls() {
    let app = setup().start().await;
    let tools = [forecast(), clock()];
    for seed in 0..8 {
        for said in [
            "Sure, it is sunny.",
            "",
            "<tool_call>no",
            "{\"name\": \"x\"}",
        ] {
            let required = app
                .created(asking(said, &tools, &json!("required"), seed))
                .await;
            assert!(!check(&required).is_empty(), "seed {seed}: {required}");
            for name in ["forecast", "get_time"] {
                let response = app.created(asking(said, &tools, &named(name), seed)).await;
                let names = check(&response);
                assert_eq!(names, [name], "seed {seed}: {response}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_is_the_same() {
    let app = setup().start().await;
    let request = asking("Sure.", &[forecast()], &json!("required"), 5);
    let whole = app.created(request.clone()).await;
    let events = app.stream(request).await.all().await;
    let deltas: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "response.function_call_arguments.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    let [call, ..] = whole["output"].as_array().expect("a list").as_slice() else {
        panic!("{whole}")
    };
    assert!(deltas.len() > 3, "{deltas:?}");
    assert!(
        deltas
            .concat()
            .starts_with(call["arguments"].as_str().expect("text"))
    );
}

#[tokio::test]
async fn what_the_model_would_say_anyway_is_let_through() {
    let app = setup().start().await;
    let city = json!({
        "type": "function", "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    });
    let two = format!("{CALL}\n{CALL}");
    for (limits, count) in [
        (json!({}), 2),
        (json!({"parallel_tool_calls": false}), 1),
        (json!({"max_tool_calls": 1}), 1),
        (json!({"max_tool_calls": 2}), 2),
    ] {
        let mut request = asking(&two, std::slice::from_ref(&city), &json!("required"), 0);
        for (key, value) in limits.as_object().expect("an object") {
            request[key] = value.clone();
        }
        let response = app.created(request).await;
        assert_eq!(kinds(&response), vec!["function_call"; count], "{limits}");
        assert_eq!(response["output"][0]["arguments"], "{\"city\": \"Paris\"}");
    }
}

#[tokio::test]
async fn reasoning_comes_first() {
    let app = setup().start().await;
    let mut request = asking(
        "Hm, no call?\n</think>\n\nSure.",
        &[forecast(), clock()],
        &named("forecast"),
        1,
    );
    request["reasoning"] = json!({"effort": "high"});
    let response = app.created(request).await;
    assert_eq!(response["output"][0]["type"], "reasoning", "{response}");
    assert_eq!(response["output"][0]["content"][0]["text"], "Hm, no call?");
    assert!(!check(&response).is_empty(), "{response}");
}

/// A schema that no grammar enforces.
fn odd(strict: bool) -> Value {
    json!({
        "type": "function", "name": "get_weather", "strict": strict,
        "parameters": {"type": "object", "properties": {"city": {"not": {"type": "null"}}}},
    })
}

#[tokio::test]
async fn a_schema_that_cannot_be_enforced_makes_any_object_do() {
    let app = setup().start().await;
    let response = app
        .created(asking(CALL, &[odd(false), clock()], &json!("required"), 0))
        .await;
    assert_eq!(kinds(&response), ["function_call"]);
    assert_eq!(response["output"][0]["arguments"], "{\"city\": \"Paris\"}");
}

#[tokio::test]
async fn a_strict_schema_that_cannot_be_enforced_is_refused_by_its_path() {
    let app = setup().start().await;
    for choice in [json!("auto"), json!("required"), named("get_weather")] {
        for stream in [false, true] {
            let mut request = asking("x", &[clock(), odd(true)], &choice, 0);
            request["stream"] = stream.into();
            let error = error(app.create(request).await, 400).await;
            assert_eq!(error["code"], "invalid_value");
            assert_eq!(error["param"], "tools[1].parameters.properties.city.not");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("`not`"), "{message}");
        }
    }
    let unused = asking("Hi.", &[odd(true)], &json!("none"), 0);
    assert_eq!(app.created(unused).await["output_text"], "Hi.");
    let mut text = odd(true);
    text["parameters"] = json!({"type": "string"});
    let error = error(
        app.create(asking("x", &[text], &json!("auto"), 0)).await,
        400,
    )
    .await;
    assert_eq!(error["param"], "tools[0].parameters.type");
}

async fn chat(app: &TestApp, request: &Value) -> reqwest::Response {
    app.post("/v1/chat/completions", request).await
}

#[tokio::test]
async fn chat_completions_do_the_same() {
    let app = setup().start().await;
    let nested = |mut tool: Value| {
        tool.as_object_mut().expect("an object").remove("type");
        json!({"type": "function", "function": tool})
    };
    let mut request = json!({
        "messages": [{"role": "user", "content": "Say: Sure."}],
        "tools": [nested(forecast()), nested(clock())], "seed": 3, "logit_bias": {THINK: -100},
        "tool_choice": {"type": "function", "function": {"name": "get_time"}},
    });
    let completion: Value = chat(&app, &request).await.json().await.expect("JSON");
    let choice = &completion["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{completion}");
    let call = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!(call, &json!({"name": "get_time", "arguments": "{}"}));
    assert_eq!(choice["message"]["content"], Value::Null);

    request["tool_choice"] = "required".into();
    request["stream"] = true.into();
    let chunks = chunks(chat(&app, &request).await).await;
    let last = &chunks.last().expect("a chunk")["choices"][0];
    assert_eq!(last["finish_reason"], "tool_calls");

    request["tools"] = json!([nested(odd(true))]);
    let error = error(chat(&app, &request).await, 400).await;
    assert_eq!(
        error["param"],
        "tools[0].function.parameters.properties.city.not"
    );
}

/// Shows tools, and nothing of how to call them.
const UNKNOWN: &str = "{{ tools | tojson }}{% for message in messages %}\
    {{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
    {% endfor %}{{ '<|im_start|>assistant\n' }}";

#[tokio::test]
async fn where_the_wrapper_is_unknown_the_model_is_told_or_read_leniently() {
    for (lenient, expected) in [(false, "message"), (true, "function_call")] {
        let mut model = model();
        model.template = Some(UNKNOWN);
        model.lenient_tool_calls = lenient;
        let app = Setup::of(model).start().await;
        let response = app
            .created(asking("Sure.", &[forecast()], &json!("required"), 1))
            .await;
        assert_eq!(kinds(&response), [expected], "lenient: {lenient}");
    }
}
