//! Responses that are kept: read, listed, deleted.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{assert_unknown, parrot, path_of, serve, stop};
use crate::support::{Script, Setup, error};

#[tokio::test]
async fn what_was_answered_is_what_is_read() {
    let app = Setup::of(parrot("m")).start().await;
    let whole = app
        .created(json!({"input": "One.", "metadata": {"a": "b"}}))
        .await;
    let cut = app
        .created(json!({"input": "Two.", "max_output_tokens": 3}))
        .await;
    assert_eq!(cut["status"], "incomplete");
    let events = app
        .stream(json!({"input": "Three.", "user": "u"}))
        .await
        .all()
        .await;
    let streamed = events.last().expect("an event")["response"].clone();
    for response in [whole, cut, streamed] {
        for path in [path_of(&response), path_of(&response).replace("/v1", "")] {
            let read = app.get(&path).await;
            assert_eq!(read.status(), 200);
            assert_eq!(read.headers()["content-type"], "application/json");
            let text = read.text().await.expect("text");
            assert_eq!(text, response.to_string());
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn other_users_cannot_read_the_log() {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    fn assert_private(path: &Path) {
        let data = fs::metadata(path).expect("metadata");
        let mode = data.permissions().mode() & 0o777;
        let expected = if data.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}", path.display());
        for entry in data
            .is_dir()
            .then(|| fs::read_dir(path))
            .into_iter()
            .flatten()
            .flatten()
        {
            assert_private(&entry.expect("an entry").path());
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let entropy = Arc::default();
    for _ in 0..2 {
        let server = serve(folder.path(), parrot("m"), &entropy).await;
        server.0.created(json!({"input": "Hi."})).await;
        assert_private(folder.path());
        stop(server).await;
        let db = folder.path().join("store/log/db");
        fs::set_permissions(&db, fs::Permissions::from_mode(0o644)).expect("permissions");
    }
}

#[tokio::test]
async fn a_restart_keeps_what_was_stored_and_what_was_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = serve(folder.path(), parrot("m"), &entropy).await;
    let kept = server.0.created(json!({"input": "Keep."})).await;
    let gone = server.0.created(json!({"input": "Drop."})).await;
    let deleted = server.0.delete(&path_of(&gone)).await;
    let deleted: Value = deleted.json().await.expect("JSON");
    let expected = json!({"id": gone["id"], "object": "response", "deleted": true});
    assert_eq!(deleted, expected);
    assert_unknown(&server.0, &gone).await;
    stop(server).await;

    let server = serve(folder.path(), parrot("m"), &entropy).await;
    let read: Value = server
        .0
        .get(&path_of(&kept))
        .await
        .json()
        .await
        .expect("JSON");
    assert_eq!(read, kept);
    assert_unknown(&server.0, &gone).await;
    stop(server).await;
}

#[tokio::test]
async fn what_is_not_to_be_stored_is_answered_and_not_found() {
    let app = Setup::of(parrot("m")).start().await;
    let response = app.created(json!({"input": "x", "store": false})).await;
    assert_eq!(response["store"], false);
    assert_eq!(response["status"], "completed");
    assert_unknown(&app, &response).await;
    let never = json!({"id": format!("resp_{}", "ab".repeat(16))});
    assert_unknown(&app, &never).await;
    assert_unknown(&app, &json!({"id": "resp_1"})).await;
}

#[tokio::test]
async fn the_response_of_a_client_that_has_gone_is_not_kept() {
    let model = Script::new("m", |_| "x".repeat(3000))
        .executor(|executor| executor.step_delay(Duration::from_millis(5)));
    let app = Setup::of(model).start().await;
    let mut stream = app.stream(json!({"input": "x"})).await;
    let created = stream.until("response.created").await;
    stream.until("response.output_text.delta").await;
    drop(stream);
    app.wait_for_sequences(0).await;
    assert_unknown(&app, &created["response"]).await;
}

#[tokio::test]
async fn input_items_are_those_of_the_request_itself() {
    let app = Setup::of(parrot("m")).start().await;
    let said = |text: &str| json!({"role": "user", "content": text});
    let first = app
        .created(json!({"input": [said("a"), said("b"), said("c")], "instructions": "i"}))
        .await;
    let next = json!({"input": "d", "previous_response_id": first["id"]});
    let second = app.created(next).await;
    let list = async |response: &Value, query: &str| -> Value {
        let path = format!("{}/input_items?{query}", path_of(response));
        app.get(&path).await.json().await.expect("JSON")
    };
    let texts = |list: &Value| -> Vec<String> {
        let items = list["data"].as_array().expect("a list").iter();
        let text = |item: &Value| item["content"][0]["text"].as_str().map(str::to_owned);
        items.map(|item| text(item).expect("text")).collect()
    };
    let all = list(&first, "").await;
    assert_eq!(texts(&all), ["c", "b", "a"]);
    assert_eq!(all["object"], "list");
    assert_eq!(all["has_more"], false);
    assert_eq!(all["data"][0]["type"], "message");
    assert_eq!(all["first_id"], all["data"][0]["id"]);
    assert_eq!(list(&first, "").await, all, "ids stay");
    let page = list(&first, "order=asc&limit=2").await;
    assert_eq!(texts(&page), ["a", "b"]);
    assert_eq!(page["has_more"], true);
    let after = page["last_id"].as_str().expect("an id");
    let rest = list(&first, &format!("order=asc&after={after}")).await;
    assert_eq!(texts(&rest), ["c"]);
    assert_eq!(texts(&list(&second, "").await), ["d"]);
}

#[tokio::test]
async fn queries_that_make_no_sense_are_refused() {
    let app = Setup::of(parrot("m")).start().await;
    let response = app.created(json!({"input": "x"})).await;
    let path = path_of(&response);
    for (query, param) in [
        ("/input_items?limit=0", "limit"),
        ("/input_items?order=up", "order"),
        ("/input_items?after=msg_1", "after"),
        ("?stream=true", "stream"),
    ] {
        let refused = error(app.get(&format!("{path}{query}")).await, 400).await;
        assert_eq!(refused["param"], param);
    }
}
