//! Every route for every kind of caller.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Entry, created, hash, path_of, send, start};
use crate::support::Setup;

const EXPIRED: &str = "expires = 2020-01-01T00:00:00Z";

struct Route {
    method: Method,
    path: String,
    body: Option<Value>,
    /// Statuses for the owner, another key, and an administrator.
    owner: u16,
    other: u16,
    admin: u16,
}

/// All routes, with a response `path`.
fn routes(response: &Value) -> Vec<Route> {
    let path = path_of(response);
    let route = |method, path: &str, body, [owner, other, admin]: [u16; 3]| Route {
        method,
        path: path.to_owned(),
        body,
        owner,
        other,
        admin,
    };
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let next = json!({"input": "x", "previous_response_id": response["id"]});
    let new = Some(json!({"input": "x"}));
    let chat = Some(json!({"messages": [{"role": "user", "content": "x"}]}));
    vec![
        route(get.clone(), "/health", None, [200, 200, 200]),
        route(get.clone(), "/openapi.json", None, [200, 200, 200]),
        route(get.clone(), "/v1/models", None, [200, 200, 200]),
        route(get.clone(), "/v1/models/scripted", None, [200, 200, 200]),
        route(post.clone(), "/v1/responses", new.clone(), [200, 200, 200]),
        route(post.clone(), "/v1/responses", Some(next), [200, 400, 400]),
        route(
            post.clone(),
            "/v1/responses/input_tokens",
            new.clone(),
            [200, 200, 200],
        ),
        route(post.clone(), "/v1/chat/completions", chat, [200, 200, 200]),
        route(
            post.clone(),
            "/v1/completions",
            Some(json!({"prompt": "x"})),
            [200, 200, 200],
        ),
        route(
            post.clone(),
            &format!("{path}/cancel"),
            None,
            [400, 404, 400],
        ),
        route(get.clone(), &path, None, [200, 404, 200]),
        route(
            get.clone(),
            &format!("{path}/input_items"),
            None,
            [200, 404, 200],
        ),
        route(
            get.clone(),
            "/v1/admin/responses?owner=ann",
            None,
            [403, 403, 200],
        ),
        route(get, "/metrics", None, [403, 403, 200]),
        route(delete, &path, None, [200, 404, 200]),
    ]
}

#[tokio::test]
async fn every_route_knows_who_asks() {
    let old = Entry::new("ann", "");
    let rotated = format!(
        "previous_hash = \"{}\"\nprevious_until = 2999-01-01T00:00:00Z",
        hash(&old.secret)
    );
    let ann = Entry::new("ann", &rotated);
    let bob = Entry::new("bob", "");
    let admin = Entry::new("root", "admin = true");
    let expired = Entry::new("late", EXPIRED);
    let disabled = Entry::new("gone", "disabled = true");
    let entries = [&ann, &bob, &admin, &expired, &disabled];
    let app = start(Setup::default(), entries).await;
    let wrong = Entry::new("ann", "");
    let unknown = Entry::new("nobody", "");

    type Expected = fn(&Route) -> u16;
    let refused: Expected = |route| match route.path.as_str() {
        "/health" | "/openapi.json" => 200,
        _ => 401,
    };
    let callers: [(&str, Option<&str>, Expected); 11] = [
        ("no key", None, refused),
        ("no secret", Some("x"), refused),
        ("a wrong secret", Some(wrong.secret()), refused),
        ("a wrong secret, again", Some(wrong.secret()), refused),
        ("an unknown key", Some(unknown.secret()), refused),
        ("an expired key", Some(expired.secret()), refused),
        ("a disabled key", Some(disabled.secret()), refused),
        ("another key", Some(bob.secret()), |route| route.other),
        ("the owner", Some(ann.secret()), |route| route.owner),
        ("the owner's old secret", Some(old.secret()), |route| {
            route.owner
        }),
        ("an administrator", Some(admin.secret()), |route| {
            route.admin
        }),
    ];
    for (who, secret, expected) in callers {
        let response = created(&app, ann.secret(), json!({"input": "Hi."})).await;
        for route in routes(&response) {
            for path in [route.path.replacen("/v1", "", 1), route.path.clone()] {
                // What is deleted once is gone.
                if route.method == Method::DELETE && path != route.path {
                    continue;
                }
                let answer = send(&app, &route.method, &path, secret, route.body.as_ref()).await;
                let what = format!("{who}: {} {path}", route.method);
                let status = answer.status().as_u16();
                assert_eq!(status, expected(&route), "{what}");
                let challenge = answer.headers().get("www-authenticate");
                assert_eq!(challenge.is_some(), status == 401, "{what}");
                if status == 401 {
                    let body: Value = answer.json().await.expect("JSON");
                    assert_eq!(body["error"]["code"], "invalid_api_key", "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_key_may_come_in_either_header() {
    let ann = Entry::new("ann", "");
    let app = start(Setup::default(), [&ann]).await;
    let url = format!("{}/v1/models", app.url);
    let secret = ann.secret();
    for (name, value, expected) in [
        ("authorization", format!("Bearer {secret}"), 200),
        ("authorization", format!("bearer {secret}"), 200),
        ("authorization", format!("BEARER   {secret} "), 200),
        ("x-api-key", secret.to_owned(), 200),
        ("authorization", secret.to_owned(), 401),
        ("authorization", format!("Basic {secret}"), 401),
        ("authorization", "Bearer".to_owned(), 401),
        ("x-api-key", format!("Bearer {secret}"), 401),
    ] {
        let answer = app.client.get(&url).header(name, &value).send().await;
        let status = answer.expect("an answer").status();
        assert_eq!(status, expected, "{name}: {value}");
    }
    let twice = app.client.get(&url).bearer_auth(secret);
    let twice = twice.bearer_auth(secret).send().await;
    assert_eq!(twice.expect("an answer").status(), 401);
}

#[tokio::test]
async fn a_body_is_not_read_for_those_who_may_not_come_in() {
    let ann = Entry::new("ann", "");
    let app = start(Setup::default(), [&ann]).await;
    let request = app.client.post(format!("{}/v1/responses", app.url));
    // Neither its type nor its compression nor its size is looked at.
    let request = request.header("content-encoding", "br");
    let answer = request.body(vec![0; 1 << 16]).send().await;
    assert_eq!(answer.expect("an answer").status(), 401);
}
