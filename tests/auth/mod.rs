//! Authentication, and isolation between keys.

mod browser;
mod command;
mod limits;
mod models;
mod ownership;
mod policy;
mod routes;
mod tls;

use std::sync::Arc;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use stemma::{
    auth::{self, Authenticator, KeyHash, KeyId, Policy, Secret},
    clock::SystemClock,
};

use crate::support::{Setup, TestApp};

/// One key of a test's policy.
struct Entry {
    id: &'static str,
    secret: Secret,
    /// Further lines of its entry.
    rest: String,
}

impl Entry {
    fn new(id: &'static str, rest: &str) -> Self {
        Self {
            id,
            secret: Secret::generate(&KeyId::new(id).expect("an id")),
            rest: rest.to_owned(),
        }
    }

    fn secret(&self) -> &str {
        self.secret.expose()
    }
}

fn hash(secret: &Secret) -> String {
    let hash = KeyHash::of(secret).expect("a hash");
    hash.as_str().to_owned()
}

/// A policy of these keys, with lines at the top.
fn policy<'a>(top: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Policy {
    let entries = entries.into_iter().map(|entry| {
        let (id, hash) = (entry.id, hash(&entry.secret));
        format!(
            "[[key]]\nid = \"{id}\"\nname = \"{id}\"\nhash = \"{hash}\"\n{}\n",
            entry.rest
        )
    });
    let text = format!("{top}\n{}", entries.collect::<String>());
    auth::parse(&text).expect("a policy")
}

fn gate(policy: Policy) -> Arc<Authenticator> {
    Arc::new(Authenticator::policy(policy, Arc::new(SystemClock)).expect("a gate"))
}

/// A server under a policy of these keys.
async fn start<'a>(setup: Setup, entries: impl IntoIterator<Item = &'a Entry>) -> TestApp {
    let gate = gate(policy("", entries));
    Setup {
        authenticator: gate,
        ..setup
    }
    .start()
    .await
}

/// Sends a request with a key, or without one.
async fn send(
    app: &TestApp,
    method: &Method,
    path: &str,
    secret: Option<&str>,
    body: Option<&Value>,
) -> Response {
    let mut request = app
        .client
        .request(method.clone(), format!("{}{path}", app.url));
    if let Some(secret) = secret {
        request = request.bearer_auth(secret);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    request.send().await.expect("an answer")
}

/// Asks for a response with a key.
async fn create(app: &TestApp, secret: &str, body: &Value) -> Response {
    send(
        app,
        &Method::POST,
        "/v1/responses",
        Some(secret),
        Some(body),
    )
    .await
}

/// Asks for a response with a key, which must come.
async fn created(app: &TestApp, secret: &str, body: Value) -> Value {
    let answer = create(app, secret, &body).await;
    let status = answer.status();
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(status, 200, "{body}");
    body
}

fn path_of(response: &Value) -> String {
    format!("/v1/responses/{}", response["id"].as_str().expect("an id"))
}

/// Returns all requests on a response, deletion last.
fn uses_of(response: &Value) -> Vec<(Method, String, Option<Value>)> {
    let next = json!({"input": "x", "previous_response_id": response["id"]});
    let path = path_of(response);
    vec![
        (Method::GET, path.clone(), None),
        (Method::GET, format!("{path}/input_items"), None),
        (Method::POST, format!("{path}/cancel"), None),
        (Method::POST, "/v1/responses".to_owned(), Some(next)),
        (Method::DELETE, path, None),
    ]
}
