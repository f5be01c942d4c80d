//! The clients and a real model, as users have them.

use std::{env, process::Stdio};

use stemma::load::{Sources, alias};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use super::{node, python, script};

const MODEL: &str = "smollm2";

/// Starts the program; nothing where the cache folder has no model.
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
async fn serve(sessions: &std::path::Path) -> Option<(Child, String)> {
    let cache = Sources::from_environment(|name| env::var(name).ok()).cache;
    if alias::find(MODEL)
        .and_then(|alias| alias::cached(alias, &cache))
        .is_none()
    {
        println!("skipped: {MODEL} is not in {}", cache.display());
        return None;
    }
    let mut server = Command::new(env!("CARGO_BIN_EXE_stemma"))
        .args(["serve", "--port=0", "--log=warn", "--model", MODEL])
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
async fn clients_talk_with_a_real_model() {
    let sessions = tempfile::tempdir().expect("a folder");
    let Some((_server, url)) = serve(sessions.path()).await else {
        return;
    };
    let arguments = [&*url, MODEL];
    script(python(), "openai_real.py", &arguments).await;
    script(python(), "open_responses.py", &arguments).await;
    script(node(), "node/openai.cjs", &arguments).await;
    script(node(), "node/ai_sdk.cjs", &arguments).await;
}
