//! Clients that others wrote, against a scripted server.
//!
//! `STEMMA_TEST_PYTHON` names a Python with the packages of tests/clients/requirements.txt;
//! `cargo xtask test` makes one and sets it.

use std::env;

use tokio::process::Command;

use crate::support::{Script, Setup};

/// A model that fails once, in its fourth step.
fn failing(id: &str) -> Script {
    Script::new(id, |_| "Not to the end.".to_owned()).executor(|executor| executor.failing_at(4))
}

#[tokio::test]
async fn openai_for_python() {
    let Some(python) = env::var_os("STEMMA_TEST_PYTHON") else {
        println!("skipped: STEMMA_TEST_PYTHON names no Python with the client's package");
        return;
    };
    let setup = Setup {
        models: vec![
            Script::new("greeter", |_| {
                "Hello there, caf\u{e9} \u{1F600}.".to_owned()
            }),
            failing("failing"),
            failing("failing-chat"),
        ],
        ..Setup::default()
    };
    let app = setup.start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/openai_basic.py");
    let run = Command::new(python).arg(script).arg(&app.url).output();
    let output = run.await.expect("a Python that starts");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
