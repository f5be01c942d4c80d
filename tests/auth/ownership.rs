//! Responses of another key look like missing ones.

use std::{path::Path, sync::Arc};

use reqwest::Method;
use serde_json::{Value, json};
use stemma::{
    auth::{Authenticator, Secret},
    engine::EngineOptions,
    session::{self, LogOptions, SessionLog, SledOptions},
};

use super::{Entry, created, gate, path_of, policy, send, start, uses_of};
use crate::support::{Entropy, Script, Setup, TestApp};

/// A server over a folder.
async fn serve(
    folder: &Path,
    gate: Arc<Authenticator>,
    entropy: &Arc<Entropy>,
) -> (TestApp, SessionLog) {
    let sled = SledOptions {
        cache_bytes: 16 << 20,
    };
    let log = session::open(folder, &sled, LogOptions::default()).expect("a log");
    let setup = Setup {
        authenticator: gate,
        entropy: Arc::clone(entropy),
        log: log.clone(),
        ..Setup::default()
    };
    (setup.start().await, log)
}

async fn stop((mut app, log): (TestApp, SessionLog)) {
    app.stop();
    app.stopped().await;
    log.close().await.expect("a log closed in order");
}

/// Status and body of what every use of a response answers to a key.
async fn answers(app: &TestApp, secret: Option<&str>, response: &Value) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for (method, path, body) in uses_of(response) {
        let answer = send(app, &method, &path, secret, body.as_ref()).await;
        let status = answer.status().as_u16();
        answers.push((status, answer.text().await.expect("text")));
    }
    answers
}

fn statuses(answers: &[(u16, String)]) -> Vec<u16> {
    answers.iter().map(|(status, _)| *status).collect()
}

#[tokio::test]
async fn anothers_response_is_unknown_also_after_restarts_and_rotation() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let (ann, bob) = (Entry::new("ann", ""), Entry::new("bob", ""));
    let unknown = json!({"id": format!("resp_{}", "7".repeat(32))});

    let server = serve(folder.path(), gate(policy("", [&ann, &bob])), &entropy).await;
    let response = created(&server.0, ann.secret(), json!({"input": "Secret."})).await;
    let expected = answers(&server.0, Some(bob.secret()), &unknown).await;
    assert_eq!(statuses(&expected), [404, 404, 404, 400, 404]);
    assert_eq!(
        answers(&server.0, Some(bob.secret()), &response).await,
        expected
    );
    stop(server).await;

    let (new_ann, new_bob) = (Entry::new("ann", ""), Entry::new("bob", ""));
    let server = serve(
        folder.path(),
        gate(policy("", [&new_ann, &new_bob])),
        &entropy,
    )
    .await;
    let found = answers(&server.0, Some(new_bob.secret()), &response).await;
    assert_eq!(found, expected);
    let refused = answers(&server.0, Some(ann.secret()), &response).await;
    assert_eq!(statuses(&refused), [401; 5]);
    let own = answers(&server.0, Some(new_ann.secret()), &response).await;
    assert_eq!(statuses(&own), [200, 200, 400, 200, 200]);
    stop(server).await;
}

#[tokio::test]
async fn what_a_policy_kept_apart_is_shared_without_it_only_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let ann = Entry::new("ann", "");
    let server = serve(folder.path(), gate(policy("", [&ann])), &entropy).await;
    let owned = created(&server.0, ann.secret(), json!({"input": "Owned."})).await;
    stop(server).await;

    let server = serve(
        folder.path(),
        Arc::new(Authenticator::open(false)),
        &entropy,
    )
    .await;
    let hidden = answers(&server.0, None, &owned).await;
    assert_eq!(statuses(&hidden), [404, 404, 404, 400, 404]);
    stop(server).await;

    let key = Secret::new("shared".to_owned());
    let server = serve(
        folder.path(),
        Arc::new(Authenticator::keys(&[key], true)),
        &entropy,
    )
    .await;
    let next = json!({"input": "Go on.", "previous_response_id": owned["id"]});
    let next = created(&server.0, "shared", next).await;
    stop(server).await;

    // What continues an owned response belongs to its owner.
    let server = serve(folder.path(), gate(policy("", [&ann])), &entropy).await;
    let found = answers(&server.0, Some(ann.secret()), &next).await;
    assert_eq!(statuses(&found), [200, 200, 400, 200, 200]);
    stop(server).await;
}

#[tokio::test]
async fn responses_without_an_owner_are_the_administrators() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = serve(
        folder.path(),
        Arc::new(Authenticator::open(false)),
        &entropy,
    )
    .await;
    let free = server.0.created(json!({"input": "Free."})).await;
    stop(server).await;

    let (ann, root) = (Entry::new("ann", ""), Entry::new("root", "admin = true"));
    let server = serve(folder.path(), gate(policy("", [&ann, &root])), &entropy).await;
    let hidden = answers(&server.0, Some(ann.secret()), &free).await;
    assert_eq!(statuses(&hidden), [404, 404, 404, 400, 404]);
    let found = answers(&server.0, Some(root.secret()), &free).await;
    assert_eq!(statuses(&found), [200, 200, 400, 400, 200]);
    stop(server).await;
}

#[tokio::test]
async fn administrators_list_by_owner() {
    let (ann, bob) = (Entry::new("ann", ""), Entry::new("bob", ""));
    let root = Entry::new("root", "admin = true");
    let app = start(Setup::default(), [&ann, &bob, &root]).await;
    let mut newest_first = Vec::new();
    for n in 0..5 {
        let response = created(&app, ann.secret(), json!({"input": format!("{n}")})).await;
        newest_first.insert(0, response["id"].clone());
    }
    created(&app, bob.secret(), json!({"input": "Other."})).await;
    let list = async |query: &str| {
        let path = format!("/v1/admin/responses?{query}");
        let answer = send(&app, &Method::GET, &path, Some(root.secret()), None).await;
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.expect("JSON"))
    };
    let ids = |page: &Value| -> Vec<Value> {
        let data = page["data"].as_array().expect("a list");
        data.iter().map(|entry| entry["id"].clone()).collect()
    };
    let (_, first) = list("owner=ann&limit=3").await;
    assert_eq!(ids(&first), newest_first[..3]);
    assert_eq!(
        (&first["has_more"], &first["data"][0]["owner"]),
        (&json!(true), &json!("ann"))
    );
    let last = first["last_id"].as_str().expect("an id");
    let (_, rest) = list(&format!("owner=ann&limit=3&after={last}")).await;
    assert_eq!(
        (ids(&rest), &rest["has_more"]),
        (newest_first[3..].to_vec(), &json!(false))
    );
    assert_eq!(ids(&list("owner=bob").await.1).len(), 1);
    assert_eq!(ids(&list("").await.1).len(), 0);
    for query in [
        "owner=bob&after=x",
        &format!("owner=bob&after={last}"),
        "limit=0",
        "order=asc",
    ] {
        let (status, body) = list(query).await;
        assert_eq!(status, 400, "{query}: {body}");
    }
}

#[tokio::test]
async fn how_soon_an_answer_begins_tells_nothing_of_others() {
    for (top, expected) in [("", 0), ("share_prefix_cache = true", 1)] {
        let (ann, bob) = (Entry::new("ann", ""), Entry::new("bob", ""));
        let mut model = Script::new("scripted", |_| "Yes.".to_owned());
        model.engine = EngineOptions::default();
        let setup = Setup {
            authenticator: gate(policy(top, [&ann, &bob])),
            ..Setup::of(model)
        };
        let app = setup.start().await;
        let cached = async |who: &Entry| {
            let response = created(&app, who.secret(), json!({"input": "The same words."})).await;
            let details = &response["usage"]["input_tokens_details"];
            details["cached_tokens"].as_u64().expect("a number").min(1)
        };
        assert_eq!(cached(&ann).await, 0);
        assert_eq!(cached(&ann).await, 1, "one's own words are known");
        assert_eq!(cached(&bob).await, expected, "{top}");
    }
}

#[tokio::test]
async fn all_who_have_one_of_several_keys_are_the_same() {
    let keys = ["one", "other"].map(|key| Secret::new(key.to_owned()));
    let setup = Setup {
        authenticator: Arc::new(Authenticator::keys(&keys, false)),
        ..Setup::default()
    };
    let app = setup.start().await;
    let response = created(&app, "one", json!({"input": "Hi."})).await;
    let path = path_of(&response);
    let read = async |key| send(&app, &Method::GET, &path, key, None).await.status();
    assert_eq!(read(Some("other")).await, 200);
    assert_eq!(read(Some("onf")).await, 401);
    assert_eq!(read(None).await, 401);
    let admin = send(&app, &Method::GET, "/v1/admin/responses", Some("one"), None).await;
    assert_eq!(admin.status(), 200);
}
