//! Requests that are rejected: error objects, before any stream begins.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};

use crate::support::{Entropy, Script, Setup, error};

#[tokio::test]
async fn a_refused_stream_is_plain_json() {
    let app = Setup::default().start().await;
    let refused = app
        .create(json!({"input": "x", "temperature": 3, "stream": true}))
        .await;
    insta::assert_json_snapshot!(error(refused, 400).await);
}

#[tokio::test]
async fn unsupported_fields_are_refused_by_name() {
    let app = Setup::default().start().await;
    for request in [
        json!({"input": "x", "background": true}),
        json!({"input": "x", "prompt": {"id": "p"}}),
        json!({"input": "x", "conversation": "conv_1"}),
    ] {
        let refused = error(app.create(request.clone()).await, 400).await;
        assert_eq!(refused["code"], "unsupported_parameter");
        let param = refused["param"].as_str().expect("a parameter");
        assert!(request.get(param).is_some(), "{refused}");
    }
}

#[tokio::test]
async fn wrong_types_are_named_by_their_path() {
    let app = Setup::default().start().await;
    let ok = json!({"role": "user", "content": "x"});
    let bad = json!({"role": "user", "content": [{"type": 5}]});
    let refused = error(app.create(json!({"input": [ok, ok, bad]})).await, 400).await;
    assert_eq!(refused["param"], "input[2].content[0].type");
    assert_eq!(refused["code"], "invalid_type");
}

#[tokio::test]
async fn a_prompt_beyond_the_context_is_refused_with_both_numbers() {
    let model = Script::new("scripted", |_| "x".to_owned());
    let model = model.executor(|executor| executor.context_length(64));
    let app = Setup::of(model).start().await;
    let message = async |input: String| {
        let refused = error(app.create(json!({"input": input})).await, 400).await;
        assert_eq!(refused["code"], "context_length_exceeded");
        assert_eq!(refused["param"], "input");
        refused["message"].as_str().expect("text").to_owned()
    };
    let exact = message("q".repeat(80)).await;
    assert!(
        exact.contains("has 9") && exact.contains("holds 64"),
        "{exact}"
    );
    // A prompt that cannot fit by its length in bytes is rejected before tokenization.
    let estimated = message("q".repeat(100_000)).await;
    assert!(
        estimated.contains("at least") && estimated.contains("holds 64"),
        "{estimated}"
    );
}

#[tokio::test]
async fn a_prompt_fits_if_one_output_token_fits() {
    let tokens = |response: &Value| {
        response["usage"]["input_tokens"]
            .as_u64()
            .expect("a number")
    };
    let app = Setup::default().start().await;
    let prompt = tokens(&app.created(json!({"input": "Hi"})).await) as usize;
    for (context, status) in [(prompt + 1, 200), (prompt, 400)] {
        let model = Script::new("scripted", |_| "xy".to_owned());
        let model = model.executor(|executor| executor.context_length(context));
        let app = Setup::of(model).start().await;
        assert_eq!(app.create(json!({"input": "Hi"})).await.status(), status);
    }
}

#[tokio::test]
async fn a_model_without_a_template_serves_no_responses() {
    let mut model = Script::new("base", |_| "x".to_owned());
    model.template = None;
    let app = Setup::of(model).start().await;
    let refused = error(app.create(json!({"input": "x"})).await, 400).await;
    assert_eq!(refused["code"], "unsupported_model");
    assert!(
        refused["message"]
            .as_str()
            .expect("text")
            .contains("no chat template")
    );
}

#[tokio::test]
async fn a_template_may_refuse_a_conversation() {
    let app = Setup::default().start().await;
    let refused = error(app.create(json!({"input": "refuse me"})).await, 400).await;
    assert_eq!(refused["code"], "template_refused");
    assert!(
        refused["message"]
            .as_str()
            .expect("text")
            .contains("no such talk")
    );
}

#[tokio::test]
async fn a_broken_template_is_the_servers_fault_and_stays_in_the_log() {
    let mut model = Script::new("scripted", |_| "x".to_owned());
    model.template = Some("{{ messages[0].content.no_such_method() }}");
    let app = Setup::of(model).start().await;
    let refused = error(app.create(json!({"input": "x"})).await, 500).await;
    assert_eq!(refused["type"], "server_error");
    assert!(!refused.to_string().contains("no_such_method"));
}

#[tokio::test]
async fn a_panic_is_an_error_object_without_internals() {
    let entropy = Arc::new(Entropy::default());
    let setup = Setup {
        entropy: Arc::clone(&entropy),
        ..Setup::default()
    };
    let app = setup.start().await;
    entropy.panics.store(true, Ordering::SeqCst);
    let refused = error(app.create(json!({"input": "x"})).await, 500).await;
    assert_eq!(refused["code"], "server_error");
    assert!(!refused.to_string().contains("a test's panic"));
    assert_eq!(
        app.created(json!({"input": "x"})).await["status"],
        "completed"
    );
}

#[tokio::test]
async fn empty_input_is_refused_unless_there_are_instructions() {
    let app = Setup::default().start().await;
    let refused = error(app.create(json!({"input": "  \n"})).await, 400).await;
    assert_eq!(refused["type"], "invalid_request_error");
    assert_eq!(refused["code"], "empty_input");
    let request = json!({"input": "", "instructions": "Say something."});
    assert_eq!(app.created(request).await["status"], "completed");
}
