//! Clients that keep no state here and send their whole conversation every time.

use std::sync::Arc;

use serde_json::{Value, json};
use stemma::session::{
    LogOptions, SessionId, SessionLog,
    admin::verify::verify,
    format::record::{SessionHeader, SessionState, load, open_record},
    keys::{Key, KeyRange, Space},
    store::{Direct, Storage as _, memory::MemoryStorage},
};

use super::{parrot, path_of};
use crate::support::{Setup, TestApp};

/// A server whose storage can be looked into.
async fn serve() -> (TestApp, SessionLog, Arc<MemoryStorage>) {
    let storage = Arc::new(MemoryStorage::default());
    let log = SessionLog::start(storage.clone(), LogOptions::default()).expect("a log");
    let setup = Setup {
        log: log.clone(),
        ..Setup::of(parrot("m"))
    };
    (setup.start().await, log, storage)
}

fn session_of(response: &Value) -> SessionId {
    let id = response["id"].as_str().expect("an id");
    id["resp_".len()..].parse().expect("an id")
}

fn head(storage: &MemoryStorage, response: &Value) -> SessionHeader {
    let head = load(&Direct(storage), &Key::header(session_of(response)));
    head.expect("readable").expect("a session")
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(response: &Value) -> Value {
    json!({"role": "assistant", "content": response["output_text"]})
}

#[tokio::test]
async fn a_conversation_sent_again_is_logged_as_a_fork_of_itself() {
    for store in [true, false] {
        let (app, _, storage) = serve().await;
        let mut input = vec![user("One.")];
        let mut previous: Option<Value> = None;
        for text in ["Two.", "Three.", "Four."] {
            let answer = app.create(json!({"input": input, "store": store})).await;
            assert_eq!(answer.headers().get("x-stemma-continuation"), None);
            let response: Value = answer.json().await.expect("JSON");
            let head = head(&storage, &response);
            assert_eq!(head.continues, None);
            let parent = head.fork.map(|fork| fork.parent);
            assert_eq!(parent, previous.as_ref().map(session_of));
            // Its own tokens are the new ones only.
            let total = |response: &Value| response["usage"]["total_tokens"].as_u64();
            let before = previous.as_ref().map_or(Some(0), total);
            assert_eq!(
                Some(head.tokens),
                total(&response).zip(before).map(|(a, b)| a - b)
            );
            input.extend([assistant(&response), user(text)]);
            previous = Some(response);
        }
        assert_eq!(
            verify(&Direct(&*storage)).expect("readable").findings,
            [""; 0]
        );
    }
}

#[tokio::test]
async fn a_chat_sent_again_is_logged_as_a_fork_of_itself() {
    let (app, _, storage) = serve().await;
    let mut messages = vec![user("One.")];
    for text in ["Two.", "Three.", "Four."] {
        let request = json!({"model": "m", "messages": messages});
        let answer = app.post("/v1/chat/completions", &request).await;
        let answer: Value = answer.json().await.expect("JSON");
        let said = &answer["choices"][0]["message"]["content"];
        messages.extend([json!({"role": "assistant", "content": said}), user(text)]);
    }
    let heads = storage.scan(&KeyRange::space(Space::Header), 9);
    let heads = heads.expect("readable").into_iter();
    let forks = heads.map(|(key, value)| {
        let head: SessionHeader = open_record(&key, &value).expect("readable");
        head.fork.is_some()
    });
    let (forks, roots): (Vec<_>, Vec<_>) = forks.partition(|is_fork| *is_fork);
    assert_eq!((forks.len(), roots.len()), (2, 1));
}

#[tokio::test]
async fn what_is_resent_may_have_been_deleted() {
    let (app, log, storage) = serve().await;
    let first = app.created(json!({"input": [user("One.")]})).await;
    let input = json!([user("One."), assistant(&first), user("Two.")]);
    let second = app.created(json!({"input": input})).await;
    assert_eq!(app.delete(&path_of(&first)).await.status(), 200);
    log.wait_for_gc().await.expect("settled");
    // The fork keeps what it shares.
    assert_eq!(head(&storage, &first).state, SessionState::Trunk);
    assert_eq!(app.delete(&path_of(&second)).await.status(), 200);
    log.wait_for_gc().await.expect("settled");
    let third = app.created(json!({"input": input})).await;
    assert_eq!(third["output_text"], second["output_text"]);
    assert_eq!(head(&storage, &third).fork, None);
    assert_eq!(
        verify(&Direct(&*storage)).expect("readable").findings,
        [""; 0]
    );
}
