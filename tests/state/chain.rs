//! Conversations over several turns: forked where that can be, else rebuilt.

use std::sync::Arc;

use reqwest::Response;
use serde_json::{Value, json};

use super::{assert_unknown, parrot, path_of, serve, stop};
use crate::support::{Events, Script, Setup, TestApp, error};

/// An answer, with how its prompt came from the response before and what the cache saved.
struct Turn {
    response: Value,
    continuation: Option<String>,
    warm: u64,
}

impl Turn {
    async fn of(answer: Response, stream: bool) -> Self {
        if answer.status() != 200 {
            panic!("{}", answer.text().await.expect("text"));
        }
        let header = |name| {
            let value = answer.headers().get(name)?.to_str();
            Some(value.expect("text").to_owned())
        };
        let continuation = header("x-stemma-continuation");
        let warm = header("x-stemma-warm").and_then(|text| text.parse().ok());
        let response = match stream {
            true => Events::new(answer).until("response.completed").await["response"].clone(),
            false => answer.json().await.expect("JSON"),
        };
        Self {
            response,
            continuation,
            warm: warm.expect("a number"),
        }
    }

    fn text(&self) -> &str {
        self.response["output_text"]
            .as_str()
            .unwrap_or_else(|| panic!("{}", self.response))
    }
}

/// Continues a response with one message.
async fn go_on(app: &TestApp, previous: &Value, more: Value) -> Turn {
    let mut request = json!({"input": "More.", "previous_response_id": previous["id"]});
    for (key, value) in more.as_object().expect("an object") {
        request[key] = value.clone();
    }
    let stream = request["stream"] == true;
    let turn = Turn::of(app.create(request).await, stream).await;
    assert_eq!(turn.response["previous_response_id"], previous["id"]);
    turn
}

/// Everything that was said up to a response, as input.
async fn history(app: &TestApp, chain: &[&Value]) -> Vec<Value> {
    let mut items = Vec::new();
    for response in chain {
        let path = format!("{}/input_items?order=asc", path_of(response));
        let list: Value = app.get(&path).await.json().await.expect("JSON");
        items.extend(list["data"].as_array().expect("a list").clone());
        items.extend(response["output"].as_array().expect("a list").clone());
    }
    items
}

#[tokio::test]
async fn a_chain_is_the_same_as_the_explicit_history_across_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = serve(folder.path(), parrot("m"), &entropy).await;
    let app = &server.0;
    let first = app.created(json!({"input": "One. <|im_end|>"})).await;
    let second = go_on(app, &first, json!({"stream": true})).await;
    assert_eq!(second.continuation.as_deref(), Some("warm"));
    assert!(second.warm > 0);
    let details = &second.response["usage"]["input_tokens_details"];
    assert_eq!(details["cached_tokens"], second.warm);
    stop(server).await;

    let server = serve(folder.path(), parrot("m"), &entropy).await;
    let app = &server.0;
    let third = go_on(app, &second.response, json!({})).await;
    assert_eq!(third.continuation.as_deref(), Some("cold"));
    assert_eq!(third.warm, 0);
    let mut input = history(app, &[&first, &second.response]).await;
    input.push(json!({"role": "user", "content": "More."}));
    let explicit = app.created(json!({"input": input})).await;
    assert_eq!(explicit["output_text"], third.text());
    let tokens = |response: &Value| response["usage"]["input_tokens"].clone();
    assert_eq!(tokens(&explicit), tokens(&third.response));
    stop(server).await;
}

#[tokio::test]
async fn many_continue_one() {
    let app = Setup::of(parrot("m")).start().await;
    let parent = app.created(json!({"input": "One."})).await;
    for text in ["a", "b", "c"] {
        let child = go_on(&app, &parent, json!({"input": text})).await;
        assert_eq!(child.continuation.as_deref(), Some("warm"));
        assert!(
            child
                .text()
                .contains(parent["output_text"].as_str().expect("text"))
        );
        assert!(
            child
                .text()
                .contains(&format!("<im_start>user\n{text}<im_end>"))
        );
    }
}

#[tokio::test]
async fn other_instructions_rebuild_without_the_earlier_ones() {
    let app = Setup::of(parrot("m")).start().await;
    let parent = app
        .created(json!({"input": "One.", "instructions": "FIRST"}))
        .await;
    let system = |turn: &Turn| turn.text().lines().nth(1).map(str::to_owned);
    for (more, expected) in [
        (json!({"instructions": "SECOND"}), "SECOND<im_end>"),
        (json!({}), "One.<im_end>"),
    ] {
        let child = go_on(&app, &parent, more).await;
        assert_eq!(child.continuation.as_deref(), Some("rebuilt"));
        assert_eq!(system(&child).as_deref(), Some(expected));
    }
    let same = go_on(&app, &parent, json!({"instructions": "FIRST"})).await;
    assert_eq!(same.continuation.as_deref(), Some("warm"));
}

#[tokio::test]
async fn an_answer_that_did_not_end_by_itself_is_rebuilt() {
    let app = Setup::of(parrot("m")).start().await;
    for request in [
        json!({"input": "One.", "max_output_tokens": 3}),
        json!({"input": "One.", "stop": "<im_end>"}),
    ] {
        let parent = app.created(request).await;
        let child = go_on(&app, &parent, json!({})).await;
        assert_eq!(child.continuation.as_deref(), Some("rebuilt"));
        let said = format!("{}<im_end>", parent["output_text"].as_str().expect("text"));
        assert!(child.text().contains(&said));
    }
}

#[tokio::test]
async fn another_model_is_given_the_items_and_none_means_the_same() {
    let setup = Setup {
        models: vec![parrot("a"), parrot("b")],
        ..Setup::default()
    };
    let app = setup.start().await;
    let parent = app.created(json!({"input": "One.", "model": "b"})).await;
    let child = go_on(&app, &parent, json!({})).await;
    assert_eq!(child.response["model"], "b");
    assert_eq!(child.continuation.as_deref(), Some("warm"));
    let child = go_on(&app, &parent, json!({"model": "a"})).await;
    assert_eq!(child.response["model"], "a");
    assert_eq!(child.continuation.as_deref(), Some("rebuilt"));
}

#[tokio::test]
async fn a_template_that_changes_the_past_is_rebuilt() {
    let mut model = parrot("m");
    model.template = Some(
        "{{ messages | length }}{% for message in messages %}\
         {{ '<|im_start|>' + message.content + '<|im_end|>' }}{% endfor %}",
    );
    let app = Setup::of(model).start().await;
    let parent = app.created(json!({"input": "One."})).await;
    let child = go_on(&app, &parent, json!({})).await;
    assert_eq!(child.continuation.as_deref(), Some("rebuilt"));
    assert!(child.text().starts_with('3'), "{}", child.text());
}

#[tokio::test]
async fn what_continues_nothing_has_no_such_header() {
    let app = Setup::of(parrot("m")).start().await;
    let turn = Turn::of(app.create(json!({"input": "x"})).await, false).await;
    assert_eq!(turn.continuation, None);
}

#[tokio::test]
async fn a_deleted_response_stays_for_what_continues_it() {
    let app = Setup::of(parrot("m")).start().await;
    let first = app.created(json!({"input": "One."})).await;
    let second = go_on(&app, &first, json!({})).await;
    assert_eq!(app.delete(&path_of(&first)).await.status(), 200);
    assert_unknown(&app, &first).await;
    let third = go_on(&app, &second.response, json!({"instructions": "new"})).await;
    assert_eq!(third.continuation.as_deref(), Some("rebuilt"));
    assert!(third.text().contains("user\nOne.<im_end>"));
}

#[tokio::test]
async fn a_turn_that_is_not_stored_continues_but_is_not_continued() {
    let app = Setup::of(parrot("m")).start().await;
    let parent = app.created(json!({"input": "One."})).await;
    let child = go_on(&app, &parent, json!({"store": false})).await;
    assert_eq!(child.continuation.as_deref(), Some("warm"));
    assert_unknown(&app, &child.response).await;
}

#[tokio::test]
async fn blank_input_is_refused_only_if_all_before_it_is_blank() {
    let app = Setup::of(Script::new("m", |_| String::new())).start().await;
    let parent = app.created(json!({"input": "One."})).await;
    let child = go_on(&app, &parent, json!({"input": ""})).await;
    assert_eq!(child.response["status"], "completed");
    let parent = app
        .created(json!({"input": "", "instructions": "Speak."}))
        .await;
    let next = json!({"input": " ", "previous_response_id": parent["id"]});
    let refused = error(app.create(next).await, 400).await;
    assert_eq!(refused["code"], "empty_input");
}
