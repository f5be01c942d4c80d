//! Tool calls and reasoning in chat completions.

use reqwest::Response;
use serde_json::{Value, json};
use stemma::translate::chat::ReasoningAlias;

use super::{CALL, THINK, clock, setup, weather};
use crate::support::{TestApp, chunks, error};

fn nested(tool: &Value) -> Value {
    let mut function = tool.clone();
    function.as_object_mut().expect("an object").remove("type");
    json!({"type": "function", "function": function})
}

fn saying(text: &str) -> Value {
    json!({
        "messages": [{"role": "user", "content": format!("Say: {text}")}],
        "tools": [nested(&weather()), nested(&clock())],
    })
}

async fn post(app: &TestApp, request: &Value) -> Response {
    app.post("/v1/chat/completions", request).await
}

/// The first choice of a completion.
async fn choice(app: &TestApp, request: &Value) -> Value {
    let answer = post(app, request).await;
    let status = answer.status();
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(status, 200, "{body}");
    body["choices"][0].clone()
}

/// Returns the sum of a stream's deltas as a choice without absent fields.
async fn streamed(app: &TestApp, request: &Value) -> (Value, Vec<Value>) {
    let mut request = request.clone();
    request["stream"] = true.into();
    let chunks = chunks(post(app, &request).await).await;
    let mut message = json!({"tool_calls": []});
    for chunk in &chunks {
        let delta = chunk["choices"][0]["delta"].as_object().expect("an object");
        for (key, value) in delta {
            match value {
                Value::String(text) => add(&mut message[key], text),
                Value::Array(calls) => calls.iter().for_each(|call| add_call(&mut message, call)),
                other => panic!("{other}"),
            }
        }
    }
    let reason = chunks.last().expect("a chunk")["choices"][0]["finish_reason"].clone();
    (json!({"message": message, "finish_reason": reason}), chunks)
}

fn add(text: &mut Value, more: &str) {
    let joined = text.as_str().unwrap_or_default().to_owned() + more;
    *text = joined.into();
}

fn add_call(message: &mut Value, call: &Value) {
    let index = call["index"].as_u64().expect("a number") as usize;
    let calls = message["tool_calls"].as_array_mut().expect("a list");
    if index == calls.len() {
        let mut begun = call.clone();
        begun.as_object_mut().expect("an object").remove("index");
        calls.push(begun);
        return;
    }
    assert_eq!(index + 1, calls.len(), "calls come one after the other");
    assert!(call["id"].is_null() && call["type"].is_null(), "{call}");
    let last = &mut calls[index];
    match call["function"]["arguments"].as_str() {
        Some(more) => add(&mut last["function"]["arguments"], more),
        None => add(
            &mut last["custom"]["input"],
            call["custom"]["input"].as_str().expect("text"),
        ),
    }
}

#[tokio::test]
async fn calls_come_in_the_message_and_in_deltas() {
    let app = setup().start().await;
    let request = saying(&format!("Look:\n{CALL}\n{CALL}"));
    let whole = choice(&app, &request).await;
    assert_eq!(whole["finish_reason"], "tool_calls");
    assert_eq!(whole["message"]["content"], "Look:");
    let calls = whole["message"]["tool_calls"].as_array().expect("a list");
    let called = json!({"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"});
    for call in calls {
        assert_eq!(
            (&call["type"], &call["function"]),
            (&json!("function"), &called)
        );
    }
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    let (sum, chunks) = streamed(&app, &request).await;
    assert_eq!(sum["finish_reason"], "tool_calls");
    assert_eq!(sum["message"]["content"], "Look:");
    let deltas = sum["message"]["tool_calls"].as_array().expect("a list");
    assert_eq!(deltas.len(), 2);
    assert!(
        deltas.iter().all(|call| call["function"] == called),
        "{deltas:?}"
    );
    assert!(chunks.len() > 10);
}

#[tokio::test]
async fn calls_alone_have_no_content() {
    let app = setup().start().await;
    let whole = choice(&app, &saying(CALL)).await;
    assert_eq!(whole["message"]["content"], Value::Null);
    let plain = choice(&app, &saying("Hi.")).await;
    assert!(plain["message"].get("tool_calls").is_none(), "{plain}");
    assert_eq!(plain["finish_reason"], "stop");
}

#[tokio::test]
async fn a_result_is_fed_back_with_the_conversation() {
    let app = setup().start().await;
    let mut request = saying(CALL);
    let answer = choice(&app, &request).await["message"].clone();
    let id = answer["tool_calls"][0]["id"].clone();
    let messages = request["messages"].as_array_mut().expect("a list");
    messages.push(answer);
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": "sun"}));
    let next = choice(&app, &request).await;
    assert_eq!(next["message"]["content"], "It gave sun.");
    request["messages"][2]["tool_call_id"] = "call_x".into();
    let refused = error(post(&app, &request).await, 400).await;
    assert_eq!(refused["param"], "messages[2].tool_call_id");
}

#[tokio::test]
async fn custom_tools_have_their_own_kind_of_call() {
    let app = setup().start().await;
    let said =
        "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"input\": \"ls\\n\"}}\n</tool_call>";
    let mut request = saying(said);
    request["tools"] = json!([{"type": "custom", "custom": {"name": "shell"}}]);
    let called = json!({"name": "shell", "input": "ls\n"});
    for choice in [
        choice(&app, &request).await,
        streamed(&app, &request).await.0,
    ] {
        let call = &choice["message"]["tool_calls"][0];
        assert_eq!(
            (&call["type"], &call["custom"]),
            (&json!("custom"), &called)
        );
    }
}

#[tokio::test]
async fn one_of_several_tools_may_be_demanded() {
    let app = setup().start().await;
    let mut request = saying("x");
    request["messages"][0]["content"] = "Weather?".into();
    request["tool_choice"] = json!({"type": "function", "function": {"name": "get_time"}});
    // The model would rather repeat its prompt, and may not think first.
    request["logit_bias"] = json!({THINK: -100});
    let message = choice(&app, &request).await["message"].clone();
    assert_eq!(message["content"], Value::Null);
    for call in message["tool_calls"].as_array().expect("a list") {
        assert_eq!(
            call["function"],
            json!({"name": "get_time", "arguments": "{}"})
        );
    }
    request["tool_choice"] = "required".into();
    request["tools"] = json!([]);
    let refused = error(post(&app, &request).await, 400).await;
    assert_eq!(refused["param"], "tool_choice");
}

#[tokio::test]
async fn reasoning_has_two_names_by_default() {
    let request = saying("<think>\nHm, hm.\n</think>\n\nYes.");
    let app = setup().start().await;
    for choice in [
        choice(&app, &request).await,
        streamed(&app, &request).await.0,
    ] {
        let message = &choice["message"];
        assert_eq!(message["content"], "Yes.");
        assert_eq!(message["reasoning_content"], "Hm, hm.");
        assert_eq!(message["reasoning"], "Hm, hm.");
    }
    let mut single = setup();
    single.options.reasoning_alias = ReasoningAlias::None;
    let app = single.start().await;
    for choice in [
        choice(&app, &request).await,
        streamed(&app, &request).await.0,
    ] {
        let message = &choice["message"];
        assert_eq!(message["reasoning_content"], "Hm, hm.");
        assert!(message.get("reasoning").is_none(), "{message}");
    }
}

#[tokio::test]
async fn reasoning_is_fed_back_under_either_name() {
    let app = setup().start().await;
    for name in ["reasoning_content", "reasoning"] {
        let request = json!({"messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b", name: "Hm."},
            {"role": "user", "content": "c"},
        ]});
        let prompt = choice(&app, &request).await["message"].clone();
        assert!(prompt.to_string().contains("Hm."), "{prompt}");
    }
}
