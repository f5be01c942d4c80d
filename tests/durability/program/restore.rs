//! A conversation with a real model after `kill -9`: restored from snapshots, with the same tokens.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use reqwest::Client;
use serde_json::{Value, json};

use super::{
    acknowledged::runtime,
    server::{self, Server},
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a response. Returns the continuation state, the number of warm tokens, and the response.
async fn ask(server: &Server, request: &Value) -> (String, u64, Value) {
    let post = Client::new().post(format!("{}/v1/responses", server.url));
    let answer = post.json(request).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let header = |name| answer.headers().get(name).map(|it| it.to_str().unwrap());
    let continuation = header("x-stemma-continuation").unwrap_or("none").to_owned();
    let warm = header("x-stemma-warm").unwrap().parse().unwrap();
    (continuation, warm, answer.json().await.unwrap())
}

fn turn(previous: Option<&Value>, input: &str) -> Value {
    json!({
        "input": input,
        "previous_response_id": previous.map(|previous| previous["id"].clone()),
        "temperature": 0,
        "max_output_tokens": 40,
        "include": ["message.output_text.logprobs"],
    })
}

/// Waits until the folder has `count` snapshots.
fn wait_for_files(folder: &Path, count: usize) {
    let begun = Instant::now();
    let whole = |path: &Path| path.extension().is_some_and(|it| it == "safetensors");
    loop {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let found = entries.filter(|entry| whole(&entry.as_ref().unwrap().path()));
        if found.count() == count {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "not {count} snapshots");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the text and the logprobs of a response.
fn output(response: &Value) -> String {
    let content = &response["output"][0]["content"][0];
    format!("{} {}", content["text"], content["logprobs"])
}

#[test]
fn a_real_conversation_is_restored_from_snapshots_after_kill_9_with_the_same_output() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("snapshots");
    let start = || server::real(dir.path()).map(Server::start);
    let server = match start() {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let story = "Tell me a very short story about a lighthouse keeper and his dog. ".repeat(6);
    let question = "Name the capital of France in one word.";
    let runtime = runtime();
    let (first, second) = runtime.block_on(async {
        let (_, _, first) = ask(&server, &turn(None, &story)).await;
        let (_, _, second) = ask(&server, &turn(Some(&first), question)).await;
        (first, second)
    });
    wait_for_files(&folder, 2);
    server.kill();

    let Ok(server) = start() else {
        panic!("the model has gone")
    };
    let (continuation, warm, restored) =
        runtime.block_on(ask(&server, &turn(Some(&second), "And of Italy?")));
    let input = restored["usage"]["input_tokens"].as_u64().unwrap();
    let forks = second["status"] == "completed";
    assert_eq!(continuation, if forks { "thawed" } else { "rebuilt" });
    assert!(warm * 2 > input, "{warm} of {input}");
    wait_for_files(&folder, 3);
    server.kill();
    let text = server::verify(dir.path());
    assert!(
        text.contains("snapshots: 3 files") && text.contains(" 0 not usable"),
        "{text}"
    );

    fs::remove_dir_all(&folder).unwrap();
    let Ok(server) = start() else {
        panic!("the model has gone")
    };
    let (continuation, warm, cold) =
        runtime.block_on(ask(&server, &turn(Some(&second), "And of Italy?")));
    assert_eq!(
        (continuation.as_str(), warm),
        (if forks { "cold" } else { "rebuilt" }, 0)
    );
    assert_eq!(output(&restored), output(&cold));
    assert_ne!(first["id"], second["id"]);
}
