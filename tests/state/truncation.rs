//! Conversations that outgrow the context.

use serde_json::{Value, json};
use stemma::engine::EngineOptions;

use crate::support::{Script, Setup, TestApp, error};

const CONTEXT: usize = 200;

async fn start() -> TestApp {
    let mut model = Script::new("small", |prompt| {
        // Says how its prompt begins.
        prompt
            .chars()
            .filter(char::is_ascii_digit)
            .take(2)
            .collect()
    })
    .executor(|executor| executor.context_length(CONTEXT));
    model.engine = EngineOptions::default();
    Setup::of(model).start().await
}

/// The n-th turn's words, which name it with two digits.
fn words(n: usize) -> String {
    format!("{:02} is what I say now.", n + 10)
}

#[tokio::test]
async fn a_chain_goes_on_for_ever_and_stays_warm() {
    let app = start().await;
    let mut previous = Value::Null;
    let mut temperatures = Vec::new();
    let mut begins = Vec::new();
    for n in 0..30 {
        let answer = app
            .create(json!({
                "input": words(n), "previous_response_id": previous, "truncation": "auto",
            }))
            .await;
        assert_eq!(answer.status(), 200, "turn {n}");
        let temperature = answer.headers().get("x-stemma-continuation");
        temperatures.extend(temperature.map(|text| text.to_str().expect("text").to_owned()));
        let response: Value = answer.json().await.expect("JSON");
        assert_eq!(response["truncation"], "auto");
        let tokens = response["usage"]["input_tokens"]
            .as_u64()
            .expect("a number");
        assert!(tokens < CONTEXT as u64, "{tokens}");
        begins.push(response["output_text"].as_str().expect("text").to_owned());
        previous = response["id"].clone();
    }
    let rebuilt = temperatures.iter().filter(|t| *t == "rebuilt").count();
    let warm = temperatures.iter().filter(|t| *t == "warm").count();
    assert!(rebuilt >= 2, "something was left out: {temperatures:?}");
    assert!(warm > 2 * rebuilt, "most turns go on: {temperatures:?}");
    // What is left out is the oldest, and more and more of it.
    assert_eq!(begins[0], "10");
    assert!(
        begins.is_sorted() && begins[29].as_str() > "25",
        "{begins:?}"
    );
}

#[tokio::test]
async fn what_does_not_fit_otherwise_is_refused() {
    let app = start().await;
    let turns = (0..30).flat_map(|n| {
        let user = json!({"role": "user", "content": words(n)});
        [user, json!({"role": "assistant", "content": "Yes."})]
    });
    let items: Vec<Value> = std::iter::once(json!({"role": "system", "content": "77"}))
        .chain(turns)
        .chain([json!({"role": "user", "content": "99 at last."})])
        .collect();
    let request = |truncation: &str| json!({"input": items, "truncation": truncation});
    let refused = error(app.create(request("disabled")).await, 400).await;
    assert_eq!(refused["code"], "context_length_exceeded");
    let response = app.created(request("auto")).await;
    let tokens = response["usage"]["input_tokens"]
        .as_u64()
        .expect("a number");
    assert!(
        (100..=150).contains(&tokens),
        "three quarters at most: {tokens}"
    );
    assert_eq!(response["output_text"], "77", "system messages stay");
    // A single message cannot be shortened.
    let long = json!({"input": "word ".repeat(500), "truncation": "auto"});
    let refused = error(app.create(long).await, 400).await;
    assert_eq!(refused["code"], "context_length_exceeded");
}
