//! Third-party clients with real models.

use std::{env, path::Path, process::Stdio};

use stemma::load::{Sources, alias};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use super::{FOLDER, node, python, run, script};

const MODEL: &str = "smollm2";

/// A model that writes tool calls as bare JSON, without the markers of its template.
const CALLER: &str = "qwen2.5-coder-0.5b";

/// Starts the program; `None` if the model is not downloaded.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
async fn serve(model: &str, sessions: &Path) -> Option<(Child, String)> {
    let cache = Sources::from_environment(|name| env::var(name).ok()).downloads;
    if alias::find(model)
        .and_then(|alias| alias::cached(alias, &cache))
        .is_none()
    {
        println!("skipped: {model} is not in {}", cache.display());
        return None;
    }
    let mut server = Command::new(env!("CARGO_BIN_EXE_stemma"))
        .args(["serve", "--port=0", "--log=warn", "--lenient-tool-calls"])
        .args(["--model", model])
        .arg("--sessions")
        .arg(sessions)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a program that starts");
    let mut lines = BufReader::new(server.stdout.take().expect("its output")).lines();
    let line = lines.next_line().await.expect("a line").unwrap_or_default();
    let url = line.strip_prefix("stemma listening on ");
    let url = url.expect("a server that listens").to_owned();
    Some((server, url))
}

#[tokio::test]
async fn clients_work_with_a_real_model() {
    let sessions = tempfile::tempdir().expect("a folder");
    let Some((_server, url)) = serve(MODEL, sessions.path()).await else {
        return;
    };
    let arguments = [&*url, MODEL];
    script(python(), "openai_real.py", &arguments).await;
    script(python(), "open_responses.py", &arguments).await;
    script(node(), "node/openai.cjs", &arguments).await;
    script(node(), "node/ai_sdk.cjs", &arguments).await;
}

#[tokio::test]
async fn a_real_model_calls_a_tool_and_uses_the_result_also_after_a_restart() {
    let sessions = tempfile::tempdir().expect("a folder");
    let Some(mut python) = python() else {
        return;
    };
    let Some((mut server, url)) = serve(CALLER, sessions.path()).await else {
        return;
    };
    let name = "openai_tools_real.py";
    let command = python.arg(format!("{FOLDER}/{name}")).args([&*url, CALLER]);
    let begun = run(command).await;
    server.kill().await.expect("a server that stops");

    let Some((_server, url)) = serve(CALLER, sessions.path()).await else {
        return;
    };
    let begun: Vec<&str> = begun.split(' ').collect();
    let arguments = [&[&*url, CALLER], begun.as_slice()].concat();
    script(super::python(), name, &arguments).await;
}

#[tokio::test]
async fn openai_agents_with_a_real_model() {
    let sessions = tempfile::tempdir().expect("a folder");
    if let Some((_server, url)) = serve(CALLER, sessions.path()).await {
        script(python(), "openai_agents.py", &[&url, CALLER, "real"]).await;
    }
}

#[tokio::test]
async fn outputs_parse_into_a_nested_model_at_any_limit() {
    for model in [MODEL, CALLER] {
        let sessions = tempfile::tempdir().expect("a folder");
        if let Some((_server, url)) = serve(model, sessions.path()).await {
            script(python(), "openai_parse.py", &[&url, model, "6", "96"]).await;
        }
    }
}
