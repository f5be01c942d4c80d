//! Calls in responses, whole and streamed.

use serde_json::{Value, json};

use super::{CALL, anonymous, kinds, saying, setup, weather};
use crate::support::error;

/// The whole response and its stream, which must say the same.
async fn both(request: Value) -> (Value, Vec<Value>) {
    let app = setup().start().await;
    let whole = app.created(request.clone()).await;
    let events = app.stream(request).await.all().await;
    let last = events.last().expect("an event")["response"].clone();
    assert_eq!(anonymous(last), anonymous(whole.clone()));
    (whole, events)
}

/// The names of a stream's events, runs of deltas as one.
fn names(events: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().expect("a name"))
        .collect();
    names.dedup();
    names
}

#[tokio::test]
async fn a_call_is_an_item_with_its_arguments_as_they_come() {
    let (response, events) = both(saying(CALL)).await;
    let item = &response["output"][0];
    assert_eq!(kinds(&response), ["function_call"]);
    assert_eq!(
        (&item["name"], &item["status"]),
        (&json!("get_weather"), &json!("completed"))
    );
    assert_eq!(item["arguments"], "{\"city\": \"Paris\"}");
    assert!(
        item["call_id"]
            .as_str()
            .is_some_and(|id| id.starts_with("call_")),
        "{item}"
    );
    assert_eq!(
        (&response["status"], &response["output_text"]),
        (&json!("completed"), &json!(""))
    );
    assert_eq!(response["tools"][0]["parameters"], weather()["parameters"]);
    assert_eq!(
        names(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let deltas: Vec<&str> = events
        .iter()
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(deltas.concat(), item["arguments"].as_str().expect("text"));
    assert!(deltas.len() > 3, "{deltas:?}");
    let added = events
        .iter()
        .find(|event| event["type"] == "response.output_item.added");
    let added = &added.expect("an item")["item"];
    assert_eq!(
        (&added["arguments"], &added["name"]),
        (&json!(""), &json!("get_weather"))
    );
}

#[tokio::test]
async fn text_and_several_calls_keep_their_order() {
    let said =
        format!("Let me look.\n{CALL}\n<tool_call>\n{{\"name\": \"get_time\"}}\n</tool_call>");
    let (response, _) = both(saying(&said)).await;
    assert_eq!(
        kinds(&response),
        ["message", "function_call", "function_call"]
    );
    assert_eq!(response["output_text"], "Let me look.");
    let [_, first, second] = response["output"].as_array().expect("a list").as_slice() else {
        panic!("{response}")
    };
    assert_ne!(first["call_id"], second["call_id"]);
    assert_eq!(
        (&second["name"], &second["arguments"]),
        (&json!("get_time"), &json!("{}"))
    );
}

#[tokio::test]
async fn calls_beyond_the_most_allowed_do_not_come_out() {
    let said = [CALL; 3].join("\n");
    for (rule, value, expected) in [
        ("parallel_tool_calls", json!(false), 1),
        ("max_tool_calls", json!(2), 2),
        ("max_tool_calls", json!(9), 3),
        ("parallel_tool_calls", json!(true), 3),
    ] {
        let mut request = saying(&said);
        request[rule] = value.clone();
        let (response, _) = both(request).await;
        assert_eq!(
            kinds(&response),
            vec!["function_call"; expected],
            "{rule}: {value}"
        );
        assert_eq!(
            (&response["status"], &response[rule]),
            (&json!("completed"), &value)
        );
    }
}

#[tokio::test]
async fn a_call_that_is_cut_anywhere_is_incomplete_and_has_what_came() {
    let app = setup().start().await;
    let whole = app.created(saying(CALL)).await;
    let arguments = whole["output"][0]["arguments"].as_str().expect("text");
    let tokens = whole["usage"]["output_tokens"].as_u64().expect("a number");
    let mut cut_calls = 0;
    for most in 1..tokens {
        let mut request = saying(CALL);
        request["max_output_tokens"] = most.into();
        let response = app.created(request).await;
        assert_eq!(response["status"], "incomplete");
        let item = &response["output"][0];
        if item["type"] == "function_call" {
            let came = item["arguments"].as_str().expect("text");
            assert!(arguments.starts_with(came), "{most}: {came}");
            cut_calls += usize::from(item["status"] == "incomplete");
            assert!(came == arguments || item["status"] == "incomplete");
        }
    }
    assert!(cut_calls > 2, "{cut_calls}");
}

#[tokio::test]
async fn what_only_looks_like_a_call_is_text() {
    let app = setup().start().await;
    let without_tools = app.created(json!({"input": format!("Say: {CALL}")})).await;
    assert_eq!(without_tools["output_text"], CALL);
    let mut forbidden = saying(CALL);
    forbidden["tool_choice"] = "none".into();
    let forbidden = app.created(forbidden).await;
    assert_eq!(
        (&forbidden["output_text"], &forbidden["tool_choice"]),
        (&json!(CALL), &json!("none"))
    );
    let json = "Like {\"name\": \"get_weather\", \"arguments\": {}}?";
    assert_eq!(app.created(saying(json)).await["output_text"], json);
}

#[tokio::test]
async fn functions_of_a_namespace_and_custom_tools_are_called_by_what_they_are() {
    let tools = json!([
        {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "find"}]},
        {"type": "custom", "name": "shell", "format": {"type": "grammar", "syntax": "regex", "definition": "(?s)l.*"}},
    ]);
    let said = "<tool_call>\n{\"name\": \"crm.find\", \"arguments\": {\"q\": 1}}\n</tool_call>\n\
                <tool_call>\n{\"name\": \"shell\", \"arguments\": {\"input\": \"ls \\\"a\\\"\\n\"}}\n</tool_call>";
    let (response, events) = both(json!({"input": format!("Say: {said}"), "tools": tools})).await;
    let output = &response["output"];
    assert_eq!(kinds(&response), ["function_call", "custom_tool_call"]);
    assert_eq!(
        (&output[0]["namespace"], &output[0]["name"]),
        (&json!("crm"), &json!("find"))
    );
    assert_eq!(
        (&output[1]["name"], &output[1]["input"]),
        (&json!("shell"), &json!("ls \"a\"\n"))
    );
    let names = names(&events);
    let start = names
        .iter()
        .position(|name| name.contains("custom_tool_call_input"));
    assert_eq!(
        names[start.expect("events of the call")..],
        [
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let shown = response["tools"].as_array().expect("a list");
    assert_eq!(shown[0]["tools"][0]["name"], "find");
    assert_eq!(shown[1]["format"], tools[1]["format"]);
}

#[tokio::test]
async fn tools_that_are_not_there_are_refused_or_left_out() {
    let app = setup().start().await;
    let mut request = saying("Hi.");
    request["tools"] =
        json!([{"type": "web_search"}, weather(), {"type": "mcp", "server_label": "x"}]);
    let refused = error(app.create(request.clone()).await, 400).await;
    assert_eq!(
        (&refused["code"], &refused["param"]),
        (&json!("unsupported_tool"), &json!("tools[0].type"))
    );

    let mut lenient = setup();
    lenient.options.unsupported_tools = stemma::translate::inbound::UnsupportedTools::Skip;
    let app = lenient.start().await;
    for stream in [false, true] {
        request["stream"] = stream.into();
        let answer = app.create(request.clone()).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["x-stemma-skipped-tools"], "web_search,mcp");
    }
    request["stream"] = false.into();
    let response = app.created(request).await;
    assert_eq!(response["tools"].as_array().map(Vec::len), Some(1));
    let answer = app.create(saying("Hi.")).await;
    assert!(!answer.headers().contains_key("x-stemma-skipped-tools"));
}
