//! Tool results, sent by `previous_response_id` or with the whole conversation.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use stemma::session::{self, LogOptions, SessionLog, SledOptions};

use super::{CALL, clock, model, saying, setup, weather};
use crate::support::{Setup, TestApp, error};

/// Sends the result of a response's last call. Returns the next response and its continuation
/// state.
async fn send_result(
    app: &TestApp,
    response: &Value,
    result: Value,
    more: Value,
) -> (Value, String) {
    let output = response["output"].as_array().expect("a list");
    let call = &output.last().expect("a call")["call_id"];
    let mut request = json!({
        "previous_response_id": response["id"],
        "input": [{"type": "function_call_output", "call_id": call, "output": result}],
        "tools": [weather(), clock()],
    });
    for (key, value) in more.as_object().expect("an object") {
        request[key] = value.clone();
    }
    let answer = app.create(request).await;
    let status = answer.status();
    let continuation = answer.headers().get("x-stemma-continuation").cloned();
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(status, 200, "{body}");
    let continuation = continuation
        .expect("a header")
        .to_str()
        .expect("text")
        .to_owned();
    (body, continuation)
}

/// Returns the number of prompt tokens of the same conversation, sent in full.
async fn tokens_in_full(app: &TestApp, request: &Value, response: &Value, result: &Value) -> Value {
    let output = response["output"].as_array().expect("a list");
    let mut input = vec![json!({"role": "user", "content": request["input"]})];
    input.extend(output.iter().cloned());
    let call = &output.last().expect("a call")["call_id"];
    input.push(json!({"type": "function_call_output", "call_id": call, "output": result}));
    let again = app
        .created(json!({"input": input, "tools": [weather(), clock()]}))
        .await;
    assert_eq!(
        again["output_text"],
        format!("It gave {}.", result.as_str().expect("text"))
    );
    again["usage"]["input_tokens"].clone()
}

#[tokio::test]
async fn a_result_continues_the_call_warm_and_is_the_same_as_the_whole_conversation() {
    let app = setup().start().await;
    for said in [CALL.to_owned(), format!("Let me look.\n{CALL}")] {
        let request = saying(&said);
        let first = app.created(request.clone()).await;
        let (second, continuation) = send_result(&app, &first, json!("sun"), json!({})).await;
        assert_eq!(
            (second["output_text"].as_str(), &*continuation),
            (Some("It gave sun."), "warm")
        );
        let tokens = tokens_in_full(&app, &request, &first, &json!("sun")).await;
        assert_eq!(second["usage"]["input_tokens"], tokens);
    }
}

#[tokio::test]
async fn a_call_that_the_template_writes_otherwise_is_continued_with_its_own_tokens() {
    let app = setup().start().await;
    let request = saying(
        "<tool_call>{\"arguments\":{\"city\":\"Oslo\"},\"name\":\"get_weather\"}</tool_call>",
    );
    let first = app.created(request.clone()).await;
    let (second, continuation) = send_result(&app, &first, json!("sun"), json!({})).await;
    assert_eq!(
        (second["output_text"].as_str(), &*continuation),
        (Some("It gave sun."), "warm")
    );
    let tokens = tokens_in_full(&app, &request, &first, &json!("sun")).await;
    assert_ne!(second["usage"]["input_tokens"], tokens);
    let details = &second["usage"]["input_tokens_details"]["cached_tokens"];
    let said = first["usage"]["total_tokens"].as_u64().expect("a number");
    assert!(
        details.as_u64().expect("a number") + 3 > said,
        "{details} of {said}"
    );
}

#[tokio::test]
async fn a_tool_choice_that_ends_rebuilds_the_prompt() {
    let app = setup().start().await;
    let mut request = saying(CALL);
    request["tool_choice"] = "required".into();
    let first = app.created(request).await;
    let (second, continuation) = send_result(&app, &first, json!("sun"), json!({})).await;
    assert_eq!(
        (second["output_text"].as_str(), &*continuation),
        (Some("It gave sun."), "rebuilt")
    );
    let forced = json!({"tool_choice": "required"});
    let (_, continuation) = send_result(&app, &first, json!("sun"), forced).await;
    assert_eq!(continuation, "warm");
}

fn open(folder: &Path) -> SessionLog {
    let sled = SledOptions {
        cache_bytes: 16 << 20,
    };
    session::open(folder, &sled, LogOptions::default()).expect("a log")
}

#[tokio::test]
async fn a_result_continues_the_call_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let start = async || {
        let setup = Setup {
            log: open(folder.path()),
            entropy: Arc::clone(&entropy),
            ..Setup::of(model())
        };
        let log = setup.log.clone();
        (setup.start().await, log)
    };
    let stop = async |(mut app, log): (TestApp, SessionLog)| {
        app.stop();
        app.stopped().await;
        log.close().await.expect("a log closed in order");
    };
    let server = start().await;
    let first = server.0.created(saying(CALL)).await;
    stop(server).await;

    let server = start().await;
    let (second, continuation) = send_result(&server.0, &first, json!("sun"), json!({})).await;
    assert_eq!(
        (second["output_text"].as_str(), &*continuation),
        (Some("It gave sun."), "cold")
    );
    stop(server).await;

    let server = start().await;
    let app = &server.0;
    let path = format!("/v1/responses/{}", second["id"].as_str().expect("an id"));
    let read: Value = app.get(&path).await.json().await.expect("JSON");
    assert_eq!(read, second);
    let list: Value = app
        .get(&format!("{path}/input_items"))
        .await
        .json()
        .await
        .expect("JSON");
    let item = &list["data"][0];
    assert_eq!(
        (&item["type"], &item["output"]),
        (&json!("function_call_output"), &json!("sun"))
    );
    let next = json!({
        "previous_response_id": second["id"], "input": "Say: bye", "tools": [weather(), clock()],
    });
    assert_eq!(app.created(next).await["output_text"], "bye");
    stop(server).await;
}

#[tokio::test]
async fn a_result_of_no_call_is_refused() {
    let app = setup().start().await;
    let first = app.created(saying(CALL)).await;
    let output = json!({"type": "function_call_output", "call_id": "call_x", "output": "sun"});
    for previous in [json!(null), first["id"].clone()] {
        let request = json!({"input": ["x", output.clone()], "previous_response_id": previous});
        let refused = error(app.create(request).await, 400).await;
        assert_eq!(refused["code"], "invalid_type");
        let input = json!([{"role": "user", "content": "x"}, output.clone()]);
        let request = json!({"input": input, "previous_response_id": previous});
        let refused = error(app.create(request).await, 400).await;
        assert_eq!(refused["param"], "input[1].call_id");
    }
}

#[tokio::test]
async fn results_in_parts_and_an_output_with_nulls_are_taken() {
    let app = setup().start().await;
    let first = app.created(saying(CALL)).await;
    let parts = json!([
        {"type": "input_text", "text": "a"},
        {"type": "input_file", "file_id": "f"},
        {"type": "output_text", "text": "b", "annotations": null},
    ]);
    let (second, _) = send_result(&app, &first, parts, json!({})).await;
    let text = "It gave a\n{\"type\":\"input_file\",\"file_id\":\"f\"}\nb.";
    assert_eq!(second["output_text"], text);

    let mut call = first["output"][0].clone();
    for key in ["id", "status", "namespace"] {
        call[key] = Value::Null;
    }
    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "c"});
    let request = json!({"input": [call, output], "tools": [weather()]});
    assert_eq!(app.created(request).await["output_text"], "It gave c.");
}
