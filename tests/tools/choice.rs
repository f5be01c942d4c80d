//! `tool_choice`: what a model is shown and told.

use std::sync::mpsc;

use serde_json::{Value, json};

use super::{CALL, TEMPLATE, clock, kinds, saying, setup, weather};
use crate::support::{Script, Setup, error};

/// The prompt that a request comes to.
async fn prompt(mut request: Value) -> String {
    let (sender, prompts) = mpsc::sync_channel(1);
    let mut model = Script::with_markers("shown", move |prompt| {
        _ = sender.try_send(prompt.to_owned());
        "Hi.".to_owned()
    });
    model.template = Some(TEMPLATE);
    let app = Setup::of(model).start().await;
    request["tool_choice"] = match request["tool_choice"].take() {
        Value::Null => "auto".into(),
        choice => choice,
    };
    app.created(request).await;
    // Without text that could be a call or reasoning.
    let prompt = prompts.recv().expect("a prompt");
    prompt
        .replace("<|", "[")
        .replace("|>", "]")
        .replace('<', "[")
        .replace('>', "]")
}

fn asking(choice: &Value, more: &Value) -> Value {
    let mut request = json!({
        "input": "Weather?", "tools": [weather(), clock()], "tool_choice": choice,
    });
    for (key, value) in more.as_object().expect("an object") {
        request[key] = value.clone();
    }
    request
}

#[tokio::test]
async fn tools_reach_the_template_in_the_nested_form() {
    insta::assert_snapshot!(prompt(asking(&json!("auto"), &json!({}))).await);
}

#[tokio::test]
async fn who_must_call_is_told_so_and_sees_what_may_be_called() {
    let required = "You must call one or more of the available functions to answer.";
    let named = "You must call the 'get_time' function to answer.";
    let function = json!({"type": "function", "name": "get_time"});
    let nested = json!({"type": "function", "function": {"name": "get_time"}});
    let allowed = |mode: &str| {
        let tools = [json!({"type": "function", "name": "get_time"})];
        json!({"type": "allowed_tools", "mode": mode, "tools": tools})
    };
    for (choice, told, shown) in [
        (allowed("auto"), None, 1),
        (allowed("required"), Some(required), 1),
        (json!("auto"), None, 2),
        (json!("none"), None, 2),
        (json!("required"), Some(required), 2),
        (function, Some(named), 1),
        (nested, Some(named), 1),
    ] {
        let prompt = prompt(asking(&choice, &json!({}))).await;
        assert_eq!(
            prompt.matches("\"type\": \"function\"").count(),
            shown,
            "{choice}"
        );
        let user = match told {
            Some(told) => format!("user\nWeather?\n\n{told}[im_end]"),
            None => "user\nWeather?[im_end]".to_owned(),
        };
        assert!(prompt.contains(&user), "{choice}: {prompt}");
    }
    let instructed = prompt(asking(
        &json!("required"),
        &json!({"instructions": "Be brief."}),
    ))
    .await;
    assert!(instructed.contains(&format!("system\nBe brief.\n\n{required}[im_end]")));
    assert!(
        instructed.contains("user\nWeather?[im_end]"),
        "{instructed}"
    );
}

#[tokio::test]
async fn a_choice_is_shown_as_it_was_made() {
    let app = setup().start().await;
    let allowed = json!({
        "type": "allowed_tools", "mode": "auto",
        "tools": [{"type": "function", "name": "get_weather"}],
    });
    for (choice, shown) in [
        (allowed.clone(), allowed.clone()),
        (
            json!({"type": "allowed_tools", "allowed_tools": {
                "mode": "auto", "tools": [{"type": "function", "function": {"name": "get_weather"}}],
            }}),
            allowed,
        ),
        (json!(null), json!("auto")),
        (json!("required"), json!("required")),
        (
            json!({"type": "function", "function": {"name": "get_weather"}}),
            json!({"type": "function", "name": "get_weather"}),
        ),
    ] {
        let mut request = saying(CALL);
        request["tool_choice"] = choice;
        let response = app.created(request).await;
        assert_eq!(response["tool_choice"], shown);
        assert_eq!(response["tools"].as_array().map(Vec::len), Some(2));
        assert_eq!(kinds(&response), ["function_call"]);
    }
}

#[tokio::test]
async fn a_template_that_shows_no_tools_has_none() {
    let app = Setup::default().start().await;
    let request = json!({"input": "Hi.", "tools": [weather()]});
    let refused = error(app.create(request.clone()).await, 400).await;
    assert_eq!(
        (&refused["code"], &refused["param"]),
        (&json!("unsupported_model"), &json!("tools"))
    );
    let mut unused = request;
    unused["tool_choice"] = "none".into();
    assert_eq!(app.created(unused).await["output_text"], "Hello there.");
}

#[tokio::test]
async fn control_tokens_in_what_describes_a_tool_are_text() {
    let app = setup().start().await;
    let tokens = async |text: &str| {
        let tool = json!({
            "type": "function", "name": "f", "description": text,
            "parameters": {"type": "object", "properties": {"a": {"description": text}}},
        });
        let request = json!({"input": "Say: x", "tools": [tool]});
        let response = app.created(request).await;
        response["usage"]["input_tokens"]
            .as_u64()
            .expect("a number")
    };
    // One token each would be the control token itself.
    assert!(tokens("<|im_end|>").await > tokens("x").await + 6);
}
