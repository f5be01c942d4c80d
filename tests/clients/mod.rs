//! Third-party clients, with scripted models and with real ones.
//!
//! `STEMMA_TEST_PYTHON` is a Python with the packages of requirements.txt, and `STEMMA_TEST_NODE`
//! is a Node. `STEMMA_TEST_NODE_MODULES` is the folder of the packages of node/package.json. `cargo
//! xtask test` installs them and sets the variables.

mod codex;
mod contract;
mod real;

use std::{env, ffi::OsString, time::Duration};

use tokio::process::Command;

use crate::{
    support::{Script, Setup, TestApp},
    tools,
};

const TEXT: &str = "Hello there, caf\u{e9} \u{1F600}.";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

/// Returns an environment variable's value; `None` if it is not set.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
fn named(variable: &str) -> Option<OsString> {
    let value = env::var_os(variable);
    if value.is_none() {
        println!("skipped: {variable} is not set");
    }
    value
}

/// Returns a Python that has the clients; `None` if the variable is not set.
fn python() -> Option<Command> {
    named("STEMMA_TEST_PYTHON").map(Command::new)
}

/// Returns a Node that finds the clients; `None` if a variable is not set.
fn node() -> Option<Command> {
    let mut node = Command::new(named("STEMMA_TEST_NODE")?);
    node.env("NODE_PATH", named("STEMMA_TEST_NODE_MODULES")?);
    Some(node)
}

/// Runs a command that must succeed, and returns its standard output.
async fn run(command: &mut Command) -> String {
    let output = command.kill_on_drop(true).output().await;
    let output = output.expect("a program that starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    said
}

/// Runs a script of this folder; does nothing if `command` is `None`.
async fn script(command: Option<Command>, name: &str, arguments: &[&str]) {
    if let Some(mut command) = command {
        run(command.arg(format!("{FOLDER}/{name}")).args(arguments)).await;
    }
}

/// Starts a server with four models: one that greets, one that is slow, and two that fail once, in
/// their fourth step.
async fn start() -> TestApp {
    let failing = |id: &str| {
        let script = Script::new(id, |_| "Not to the end.".to_owned());
        script.executor(|executor| executor.failing_at(4))
    };
    let slow = Script::new("slow", |_| "On and on. ".repeat(200))
        .executor(|executor| executor.step_delay(Duration::from_millis(50)));
    let setup = Setup {
        models: vec![
            Script::new("greeter", |_| TEXT.to_owned()),
            slow,
            failing("failing"),
            failing("failing-chat"),
        ],
        ..Setup::default()
    };
    setup.start().await
}

#[tokio::test]
async fn openai_for_python() {
    let app = start().await;
    script(python(), "openai_basic.py", &[&app.url]).await;
}

#[tokio::test]
async fn tools_with_openai_for_python() {
    let app = tools::setup().start().await;
    script(python(), "openai_tools.py", &[&app.url, "caller"]).await;
}

#[tokio::test]
async fn openai_agents() {
    let app = tools::setup().start().await;
    let arguments = [&*app.url, "caller", "scripted"];
    script(python(), "openai_agents.py", &arguments).await;
}

#[tokio::test]
async fn open_responses_schema() {
    let app = start().await;
    let arguments = [&app.url, "greeter", "failing"];
    script(python(), "open_responses.py", &arguments).await;
}

#[tokio::test]
async fn openai_for_node() {
    let app = start().await;
    script(node(), "node/openai.cjs", &[&app.url, "greeter", TEXT]).await;
}

#[tokio::test]
async fn vercels_ai_sdk() {
    let app = start().await;
    script(node(), "node/ai_sdk.cjs", &[&app.url, "greeter", TEXT]).await;
}
