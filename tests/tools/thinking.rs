//! Reasoning in responses, and the template arguments for it.

use serde_json::{Map, Value, json};

use super::{kinds, model, setup};
use crate::support::{Script, Setup, error};

const REASONING: &str = "Say: <think>\nHm, let me think.\n</think>\n\nYes.";

#[tokio::test]
async fn reasoning_is_an_item_before_the_message() {
    let app = setup().start().await;
    let response = app.created(json!({"input": REASONING})).await;
    assert_eq!(kinds(&response), ["reasoning", "message"]);
    assert_eq!(response["output_text"], "Yes.");
    let item = &response["output"][0];
    let content = json!([{"type": "reasoning_text", "text": "Hm, let me think."}]);
    assert_eq!((&item["content"], &item["summary"]), (&content, &json!([])));
    assert!(item.get("encrypted_content").is_none());
    let tokens = |path: &str| {
        response
            .pointer(path)
            .and_then(Value::as_u64)
            .expect("a number")
    };
    let reasoning = tokens("/usage/output_tokens_details/reasoning_tokens");
    let all = tokens("/usage/output_tokens");
    assert!(reasoning >= 5 && reasoning < all, "{reasoning} of {all}");
}

#[tokio::test]
async fn reasoning_streams_as_its_own_deltas_and_never_as_text() {
    let app = setup().start().await;
    let events = app.stream(json!({"input": REASONING})).await.all().await;
    let joined = |name: &str| {
        let deltas = events.iter().filter(|event| event["type"] == name);
        deltas
            .filter_map(|event| event["delta"].as_str())
            .collect::<String>()
    };
    assert_eq!(joined("response.reasoning_text.delta"), "Hm, let me think.");
    assert_eq!(joined("response.output_text.delta"), "Yes.");
    let kinds = kinds(&events.last().expect("an event")["response"]).join(" ");
    assert_eq!(kinds, "reasoning message");
}

#[tokio::test]
async fn a_prompt_that_opens_reasoning_lets_the_answer_start_inside_it() {
    let app = setup().start().await;
    let request = json!({
        "input": "Say: Hm.\n</think>\n\nYes.", "reasoning": {"effort": "low"},
    });
    let response = app.created(request).await;
    assert_eq!(kinds(&response), ["reasoning", "message"]);
    assert_eq!(response["output_text"], "Yes.");
    assert_eq!(response["reasoning"]["effort"], "low");
}

#[tokio::test]
async fn reasoning_is_continued_and_may_be_resent() {
    let app = setup().start().await;
    let first = app.created(json!({"input": REASONING})).await;
    let next = json!({"input": "Repeat.", "previous_response_id": first["id"]});
    let answer = app.create(next).await;
    assert_eq!(answer.headers()["x-stemma-continuation"], "warm");
    let continued: Value = answer.json().await.expect("JSON");
    let shown = "assistant\n[think]\nHm, let me think.\n[/think]\n\nYes.[im_end]";
    assert!(
        continued["output_text"]
            .as_str()
            .is_some_and(|text| text.contains(shown))
    );

    let mut input = vec![json!({"role": "user", "content": REASONING})];
    input.extend(first["output"].as_array().expect("a list").iter().cloned());
    input.push(json!({"role": "user", "content": "Repeat."}));
    let explicit = app.created(json!({"input": input})).await;
    assert_eq!(explicit["output_text"], continued["output_text"]);
    assert_eq!(
        explicit["usage"]["input_tokens"],
        continued["usage"]["input_tokens"]
    );
}

/// A model whose template says what it is told, and this server's arguments for it.
fn told(args: Value) -> Setup {
    let mut model: Script = model();
    model.template = Some(
        "{{ [enable_thinking, reasoning_effort, mood] | tojson }}\
         {% for m in messages %}{{ m.content }}{% endfor %}",
    );
    model.template_args = match args {
        Value::Object(args) => args,
        _ => Map::new(),
    };
    Setup::of(model)
}

#[tokio::test]
async fn a_template_is_told_by_the_effort_the_request_and_the_server_in_this_order() {
    let app = told(json!({"mood": "s", "enable_thinking": "s", "reasoning_effort": "s"}))
        .start()
        .await;
    for (request, expected) in [
        (json!({}), r#"["s", "s", "s"]"#),
        (
            json!({"chat_template_kwargs": {"mood": "r", "reasoning_effort": "r"}}),
            r#"["s", "r", "r"]"#,
        ),
        (
            json!({"reasoning": {"effort": "high"}}),
            r#"[true, "high", "s"]"#,
        ),
        (
            json!({"reasoning": {"effort": " None"}, "chat_template_kwargs": {"enable_thinking": true}}),
            r#"[false, "s", "s"]"#,
        ),
    ] {
        let mut request = request;
        request["input"] = "x".into();
        let response = app.created(request).await;
        assert_eq!(response["output_text"], format!("{expected}x"));
    }
}

#[tokio::test]
async fn what_a_request_may_not_set_is_refused() {
    let app = setup().start().await;
    for (name, value) in [
        ("messages", json!([])),
        ("control token sentinels", json!(1)),
    ] {
        let request = json!({"input": "x", "chat_template_kwargs": {name: value}});
        let refused = error(app.create(request).await, 400).await;
        assert_eq!(refused["param"], format!("chat_template_kwargs.{name}"));
    }
}

#[tokio::test]
async fn earlier_reasoning_is_dropped_if_the_server_or_the_request_says_so() {
    let reasoning = async |server: Value, request: Value| {
        let mut model = model();
        model.template_args = server.as_object().cloned().expect("an object");
        let app = Setup::of(model).start().await;
        let first = app.created(json!({"input": REASONING})).await;
        let next = json!({
            "input": "Repeat.", "previous_response_id": first["id"], "chat_template_kwargs": request,
        });
        let text = app.created(next).await["output_text"].clone();
        text.as_str()
            .expect("text")
            .contains("assistant\n[think]\nHm")
    };
    let (on, off) = (
        json!({"preserve_thinking": true}),
        json!({"preserve_thinking": false}),
    );
    assert!(reasoning(json!({}), json!({})).await);
    assert!(!reasoning(off.clone(), json!({})).await);
    assert!(reasoning(off.clone(), on).await);
    assert!(!reasoning(json!({}), off).await);
}
