//! Models that a key may use.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Entry, create, created, send, start};
use crate::support::{Script, Setup, error};

#[tokio::test]
async fn a_key_uses_the_models_that_it_may() {
    let say = |name| Script::new(name, |_| "Yes.".to_owned());
    let setup = Setup {
        models: vec![say("small"), say("large")],
        ..Setup::default()
    };
    let ann = Entry::new("ann", "models = [\"small\"]");
    let bob = Entry::new("bob", "");
    let app = start(setup, [&ann, &bob]).await;
    let list = async |who: &Entry| {
        let answer = send(&app, &Method::GET, "/v1/models", Some(who.secret()), None).await;
        let list: Value = answer.json().await.expect("JSON");
        let data = list["data"].as_array().expect("a list").clone();
        data.iter()
            .map(|model| model["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&ann).await, ["small"]);
    assert_eq!(list(&bob).await, ["small", "large"]);
    created(
        &app,
        ann.secret(),
        json!({"model": "small", "input": "Hi."}),
    )
    .await;
    let large = json!({"model": "large", "input": "Hi."});
    let refused = error(create(&app, ann.secret(), &large).await, 403).await;
    assert_eq!(
        (&refused["code"], &refused["param"]),
        (&json!("model_not_allowed"), &json!("model"))
    );
    let path = "/v1/models/large";
    let refused = send(&app, &Method::GET, path, Some(ann.secret()), None).await;
    assert_eq!(error(refused, 403).await["code"], "model_not_allowed");
    let unknown = json!({"model": "none", "input": "Hi."});
    let refused = error(create(&app, ann.secret(), &unknown).await, 404).await;
    assert_eq!(refused["code"], "model_not_found");
}
