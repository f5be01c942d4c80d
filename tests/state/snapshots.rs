//! Conversations that are warm again after a restart, and what deletion takes with it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use stemma::{
    cache::snapshot::{SnapshotOptions, Snapshots},
    clock::SystemClock,
    session::SessionLog,
};

use super::{open, parrot, path_of, stop};
use crate::support::{Entropy, Setup, TIMEOUT, TestApp};

/// A server over a folder, with snapshots.
struct Server {
    app: TestApp,
    log: SessionLog,
    snapshots: Snapshots,
}

fn folder_of(folder: &Path) -> PathBuf {
    folder.join("snapshots")
}

impl Server {
    async fn start(folder: &Path, entropy: &Arc<Entropy>) -> Self {
        let snapshots = Snapshots::open(SnapshotOptions {
            folder: folder_of(folder),
            bytes_max: 1 << 30,
            age_ms_max: None,
            free_bytes_min: 0,
            reads_always: true,
            clock: Arc::new(SystemClock),
        });
        let snapshots = snapshots.expect("threads");
        let mut model = parrot("m");
        model.snapshots = Some(snapshots.clone());
        let log = open(folder).expect("a log");
        let setup = Setup {
            log: log.clone(),
            entropy: entropy.clone(),
            snapshots: Some(snapshots.clone()),
            ..Setup::of(model)
        };
        Self {
            app: setup.start().await,
            log,
            snapshots,
        }
    }

    /// Waits until what was said is on disk, and stops.
    async fn stop(self) {
        stop((self.app, self.log)).await;
        self.snapshots.close();
    }

    /// Continues a response: how that got its prompt, how many tokens it need not read, and what it
    /// answers.
    async fn go_on(&self, previous: &Value) -> (String, u64, Value) {
        let request = json!({"input": "More.", "previous_response_id": previous["id"]});
        let answer = self.app.create(request).await;
        assert_eq!(answer.status(), 200);
        let header = |name: &str| {
            let value = answer.headers().get(name).expect(name).to_str();
            value.expect("text").to_owned()
        };
        let continuation = header("x-stemma-continuation");
        let warm: u64 = header("x-stemma-warm").parse().expect("a number");
        let response: Value = answer.json().await.expect("JSON");
        let details = &response["usage"]["input_tokens_details"];
        assert_eq!(details["cached_tokens"], warm);
        (continuation, warm, response)
    }

    /// Waits until there are `files` files.
    async fn wait_for(&self, files: u64) {
        let reached = async {
            while self.snapshots.stats().files != files {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(reached.is_ok(), "{:?}, not {files}", self.snapshots.stats());
    }
}

/// The names of the files, without the leading zeros of ids.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder_of(folder)).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

fn name_of(response: &Value, ending: &str) -> String {
    let id = response["id"].as_str().expect("an id");
    format!("{}{ending}", id.trim_start_matches("resp_"))
}

#[tokio::test]
async fn a_chain_is_restored_after_a_restart_and_answers_as_a_cold_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = Server::start(folder.path(), &entropy).await;
    let said = "One long sentence to begin with, so that there is something to read again.";
    let first = server.app.created(json!({"input": said})).await;
    let (continuation, _, second) = server.go_on(&first).await;
    assert_eq!(continuation, "warm");
    server.stop().await;

    let server = Server::start(folder.path(), &entropy).await;
    let (continuation, thawed, third) = server.go_on(&second).await;
    assert_eq!(continuation, "thawed");
    let input = third["usage"]["input_tokens"].as_u64().expect("a number");
    assert!(thawed > 20 && input - thawed < 60, "{thawed} of {input}");
    let (continuation, _, _) = server.go_on(&second).await;
    assert_eq!(continuation, "warm", "it is in memory now");
    let metrics = server.app.get("/metrics").await.text().await.expect("text");
    let line = "stemma_continuations_total{state=\"thawed\",reason=\"\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    for name in [
        "snapshot_bytes",
        "snapshot_reads_total",
        "snapshot_read_seconds_total",
    ] {
        assert!(
            metrics.contains(&format!("stemma_{name}")),
            "{name}: {metrics}"
        );
    }
    server.stop().await;

    fs::remove_dir_all(folder_of(folder.path())).expect("a folder that goes");
    let server = Server::start(folder.path(), &entropy).await;
    let (continuation, warm, cold) = server.go_on(&second).await;
    assert_eq!((continuation.as_str(), warm), ("cold", 0));
    assert_eq!(cold["output_text"], third["output_text"]);
    server.stop().await;
}

#[tokio::test]
async fn chat_and_explicit_history_are_restored_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = Server::start(folder.path(), &entropy).await;
    let said = "Something to say that is long enough to be kept for later.";
    let first = server.app.created(json!({"input": said})).await;
    server.stop().await;

    let server = Server::start(folder.path(), &entropy).await;
    let messages = json!([
        {"role": "user", "content": said},
        {"role": "assistant", "content": first["output_text"]},
        {"role": "user", "content": "And?"},
    ]);
    let request = json!({"messages": messages});
    let answer = server.app.post("/v1/chat/completions", &request).await;
    let body: Value = answer.json().await.expect("JSON");
    let cached = body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert!(cached > Some(20), "{body}");
    assert_eq!(server.snapshots.stats().reads, 1);
    server.stop().await;
}

#[tokio::test]
async fn deletion_takes_the_bytes_when_nothing_needs_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = Server::start(folder.path(), &entropy).await;
    let said = "One long sentence to begin with, so that there is something to read again.";
    let parent = server.app.created(json!({"input": said})).await;
    let (_, _, child) = server.go_on(&parent).await;
    server.wait_for(2).await;
    let deleted = server.app.delete(&path_of(&parent)).await;
    assert_eq!(deleted.status(), 200);
    let kept = [
        name_of(&parent, ".trunk.safetensors"),
        name_of(&child, ".safetensors"),
    ];
    assert_eq!(
        names(folder.path()),
        kept,
        "the child needs its parent's part"
    );
    server.stop().await;

    let server = Server::start(folder.path(), &entropy).await;
    let (continuation, _, grandchild) = server.go_on(&child).await;
    assert_eq!(continuation, "thawed");
    server.wait_for(3).await;
    for response in [&child, &grandchild] {
        let deleted = server.app.delete(&path_of(response)).await;
        assert_eq!(deleted.status(), 200);
    }
    assert_eq!(names(folder.path()), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn a_turn_that_is_not_stored_has_one_only_if_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = Server::start(folder.path(), &entropy).await;
    let said = "Something to say that is long enough to be kept for later.";
    let mut request = json!({"input": said, "store": false});
    server.app.created(request.clone()).await;
    request["prompt_cache_retention"] = "in_memory".into();
    server.app.created(request.clone()).await;
    request["prompt_cache_retention"] = "24h".into();
    request["input"] = format!("{said} For a day.").into();
    let kept = server.app.created(request).await;
    server.wait_for(1).await;
    assert_eq!(names(folder.path()), [name_of(&kept, ".safetensors")]);
    server.stop().await;
    assert_eq!(names(folder.path()).len(), 1, "the two others had none");
}

#[tokio::test]
async fn what_the_log_drops_by_itself_goes_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let entropy = Arc::default();
    let server = Server::start(folder.path(), &entropy).await;
    let said = "One long sentence to begin with, so that there is something to read again.";
    let parent = server.app.created(json!({"input": said})).await;
    let other = server
        .app
        .created(json!({"input": format!("{said} Or not.")}))
        .await;
    server.wait_for(2).await;
    let log = server.log.clone();
    server.app.delete(&path_of(&other)).await;
    server.stop().await;
    drop(log);
    // As if the process had ended between the log and the folder.
    let orphan = folder_of(folder.path()).join(name_of(&parent, ".safetensors"));
    let bytes = fs::read(&orphan).expect("a snapshot");
    let server = Server::start(folder.path(), &entropy).await;
    server.app.delete(&path_of(&parent)).await;
    server.stop().await;
    fs::write(&orphan, bytes).expect("a snapshot");

    let server = Server::start(folder.path(), &entropy).await;
    let service = server.app.service.clone();
    let swept = tokio::task::spawn_blocking(move || service.sweep_snapshots());
    swept.await.expect("no panic");
    assert_eq!(names(folder.path()), [""; 0]);
    server.stop().await;
}
