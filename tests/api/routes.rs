//! Routes: existing paths, their methods, and unknown paths.

use serde_json::{Value, json};

use crate::support::{Script, Setup, error};

#[tokio::test]
async fn routes_exist_with_and_without_v1() {
    let app = Setup::answering("Hi.").start().await;
    let request =
        json!({"input": [{"role": "user", "content": "Say this is a test!"}], "temperature": 0.7});
    for path in ["/v1/responses", "/responses"] {
        let post = app.client.post(format!("{}{path}", app.url)).json(&request);
        let answer: Value = post
            .send()
            .await
            .expect("an answer")
            .json()
            .await
            .expect("JSON");
        assert_eq!(answer["output_text"], "Hi.", "{path}");
    }
    for path in [
        "/v1/models",
        "/models",
        "/v1/models/scripted",
        "/models/scripted",
    ] {
        assert_eq!(app.get(path).await.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn models_are_listed_and_found_by_ids_with_slashes() {
    let setup = Setup {
        models: vec![
            Script::new("a", |_| String::new()),
            Script::new("org/b", |_| String::new()),
        ],
        ..Setup::default()
    };
    let app = setup.start().await;
    let list: Value = app.get("/v1/models").await.json().await.expect("JSON");
    insta::assert_json_snapshot!(list);
    for path in ["/v1/models/org/b", "/v1/models/org%2Fb"] {
        let model: Value = app.get(path).await.json().await.expect("JSON");
        assert_eq!(model, list["data"][1], "{path}");
    }
    let missing = error(app.get("/v1/models/c").await, 404).await;
    assert_eq!(missing["code"], "model_not_found");
    error(app.get("/v1/models/%ff").await, 400).await;
}

#[tokio::test]
async fn health_is_open() {
    let app = Setup::default().start().await;
    let health: Value = app.get("/health").await.json().await.expect("JSON");
    assert_eq!(health, json!({"status": "ok"}));
}

#[tokio::test]
async fn unknown_routes_are_error_objects() {
    let app = Setup::default().start().await;
    for path in [
        "/",
        "/v1",
        "/v1/frobnicate",
        "/v2/responses",
        "/v1/responses/resp_1/frobnicate",
    ] {
        let refused = error(app.get(path).await, 404).await;
        assert_eq!(refused["code"], "not_found", "{path}");
        assert!(
            refused["message"].as_str().expect("text").contains(path),
            "{path}"
        );
    }
    let answer = app.get("/v1/responses").await;
    assert_eq!(answer.headers()["allow"], "POST");
    let refused = error(answer, 405).await;
    assert_eq!(refused["code"], "method_not_allowed");
    let delete = app.client.delete(format!("{}/health", app.url));
    error(delete.send().await.expect("an answer"), 405).await;
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let app = Setup::default().start().await;
    let id = app.get("/health").await.headers()["x-request-id"].clone();
    let hex = id
        .to_str()
        .expect("text")
        .strip_prefix("req_")
        .expect("a prefix");
    assert_eq!(hex.len(), 32);
    let with_id = async |id: &str| {
        let get = app.client.get(format!("{}/health", app.url));
        let answer = get
            .header("x-request-id", id)
            .send()
            .await
            .expect("an answer");
        answer.headers()["x-request-id"]
            .to_str()
            .expect("text")
            .to_owned()
    };
    assert_eq!(with_id("mine-1").await, "mine-1");
    for unfit in ["with space", "", &"x".repeat(129)] {
        assert!(with_id(unfit).await.starts_with("req_"), "{unfit:?}");
    }
}
