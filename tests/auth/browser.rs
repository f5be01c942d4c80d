//! Web pages: the ones that may call a server on loopback, and all others.

use reqwest::Method;
use stemma::http::HttpOptions;

use super::{Entry, start};
use crate::support::{Setup, error};

const PAGE: &str = "https://chat.example";

fn setup() -> Setup {
    Setup {
        options: HttpOptions {
            hosts: Some(vec!["models.example".to_owned()]),
            cors_origins: vec![PAGE.to_owned()],
            ..HttpOptions::default()
        },
        ..Setup::default()
    }
}

#[tokio::test]
async fn names_that_are_made_to_point_here_are_refused() {
    let app = setup().start().await;
    for (host, expected) in [
        ("localhost:8080", 200),
        ("models.example", 200),
        ("evil.example", 403),
    ] {
        let request = app.client.get(format!("{}/health", app.url));
        let answer = request
            .header("host", host)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), expected, "{host}");
        if expected == 403 {
            assert_eq!(error(answer, 403).await["code"], "host_not_allowed");
        }
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let app = setup().start().await;
    let request = app.client.get(format!("{}/v1/models", app.url));
    let refused = request
        .header("origin", "https://evil.example")
        .send()
        .await;
    let refused = error(refused.expect("an answer"), 403).await;
    assert_eq!(refused["code"], "origin_not_allowed");
}

#[tokio::test]
async fn pages_that_may_call_need_no_key_to_ask_whether_they_may() {
    let ann = Entry::new("ann", "");
    let app = start(setup(), [&ann]).await;
    let url = format!("{}/v1/responses", app.url);
    let preflight = app
        .client
        .request(Method::OPTIONS, &url)
        .header("origin", PAGE);
    let preflight = preflight
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type",
        )
        .send()
        .await
        .expect("an answer");
    assert_eq!(preflight.status(), 200);
    let headers = preflight.headers();
    assert_eq!(headers["access-control-allow-origin"], PAGE);
    assert_eq!(
        headers["access-control-allow-headers"],
        "authorization,content-type"
    );
    let refused = app.client.post(&url).header("origin", PAGE).send().await;
    let refused = refused.expect("an answer");
    assert_eq!(refused.headers()["access-control-allow-origin"], PAGE);
    assert_eq!(refused.status(), 401);
}
