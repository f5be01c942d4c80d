//! State that outlives an answer: stored responses, continuations, restarts, and a failing store.

mod bounds;
mod chain;
mod failing;
mod resent;
mod snapshots;
mod stored;
mod truncation;

use std::{path::Path, sync::Arc};

use serde_json::Value;
use stemma::{
    engine::EngineOptions,
    session::{self, LogError, LogOptions, SessionLog, SledOptions},
};

use crate::support::{Entropy, Script, Setup, TestApp, error};

/// A model that answers with the prompt it is given, with the prefix cache on.
fn parrot(id: &str) -> Script {
    let mut model = Script::new(id, |prompt| prompt.replace("<|", "<").replace("|>", ">"));
    model.engine = EngineOptions::default();
    model
}

fn open(folder: &Path) -> Result<SessionLog, LogError> {
    open_with(folder, LogOptions::default())
}

fn open_with(folder: &Path, options: LogOptions) -> Result<SessionLog, LogError> {
    let sled = SledOptions {
        cache_bytes: 16 << 20,
    };
    session::open(folder, &sled, options)
}

/// A server of this model over a folder, and its log. Servers that follow each other share the
/// entropy, or else they would give the same ids.
async fn serve(folder: &Path, model: Script, entropy: &Arc<Entropy>) -> (TestApp, SessionLog) {
    serve_log(open(folder).expect("a log"), model, entropy).await
}

async fn serve_log(
    log: SessionLog,
    model: Script,
    entropy: &Arc<Entropy>,
) -> (TestApp, SessionLog) {
    let setup = Setup {
        log: log.clone(),
        entropy: entropy.clone(),
        ..Setup::of(model)
    };
    (setup.start().await, log)
}

async fn stop((mut app, log): (TestApp, SessionLog)) {
    app.stop();
    app.stopped().await;
    log.close().await.expect("a log closed in order");
}

fn path_of(response: &Value) -> String {
    format!("/v1/responses/{}", response["id"].as_str().expect("an id"))
}

/// Checks that a response can be neither read nor continued.
async fn assert_unknown(app: &TestApp, response: &Value) {
    let path = path_of(response);
    for path in [path.clone(), format!("{path}/input_items")] {
        assert_eq!(error(app.get(&path).await, 404).await["code"], "not_found");
    }
    assert_eq!(
        error(app.delete(&path).await, 404).await["code"],
        "not_found"
    );
    let next = serde_json::json!({"input": "x", "previous_response_id": response["id"]});
    let refused = error(app.create(next).await, 400).await;
    assert_eq!(refused["code"], "previous_response_not_found");
    assert_eq!(refused["param"], "previous_response_id");
}
