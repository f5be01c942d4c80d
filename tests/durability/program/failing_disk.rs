//! Failing syncs, failing writes and a full disk under the whole server.

use std::{fs, path::Path, process::Command, thread, time::Duration};

use rand::RngExt;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    acknowledged::{Acknowledged, Turn, runtime},
    server::{self, Server},
};
use crate::durability::{full_disk::SmallDisk, preload, seeded};

/// Longer than the server waits before it retries a full disk.
const RETRY: Duration = Duration::from_millis(1_100);

/// A client with one request at a time.
struct SequentialClient {
    runtime: Runtime,
    client: Client,
    url: String,
    acknowledged: Acknowledged,
}

impl SequentialClient {
    fn of(server: &Server) -> Self {
        Self {
            runtime: runtime(),
            client: Client::new(),
            url: server.url.clone(),
            acknowledged: Acknowledged::default(),
        }
    }

    /// Creates a response. Returns false if the server answers `storage_unavailable`.
    fn create(&mut self, input: &str) -> bool {
        let request = self.client.post(format!("{}/v1/responses", self.url));
        let request = request.json(&json!({"input": input}));
        let (status, body) = self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            (answer.status(), answer.json::<Value>().await.unwrap())
        });
        if status != 200 {
            assert_unavailable(status.as_u16(), &body);
            return false;
        }
        let id = body["id"].as_str().unwrap().to_owned();
        let turn = Turn {
            response: body,
            messages: 2,
        };
        self.acknowledged.stored.insert(id, turn);
        true
    }

    /// Requests a stream; the server must refuse it with a JSON error.
    fn assert_stream_is_refused(&self) {
        let request = self.client.post(format!("{}/v1/responses", self.url));
        let request = request.json(&json!({"input": "x", "stream": true}));
        self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            assert_unavailable(status, &answer.json().await.unwrap());
        });
    }

    /// Checks every response received so far.
    fn read_all(&self) {
        self.runtime.block_on(async {
            for (id, turn) in self.acknowledged.readable() {
                let url = format!("{}/v1/responses/{id}", self.url);
                let answer = self.client.get(url).send().await.unwrap();
                let status = answer.status();
                let body: Value = answer.json().await.unwrap();
                assert_eq!((status.as_u16(), &body), (200, &turn.response));
            }
        });
    }
}

fn assert_unavailable(status: u16, body: &Value) {
    assert_eq!(status, 503, "{body}");
    assert_eq!(body["error"]["code"], "storage_unavailable", "{body}");
    assert_eq!(body["error"]["type"], "server_error");
    assert!(body["error"]["message"].is_string());
}

fn failing(sessions: &Path, library: &Path, order: &str) -> Command {
    let mut command = server::scripted(sessions);
    command.env("LD_PRELOAD", library).env("STEMMA_FAIL", order);
    command
}

#[test]
fn a_failed_sync_ends_writes_until_a_restart() {
    let tools = tempfile::tempdir().unwrap();
    let library = match preload::build(tools.path()) {
        Ok(library) => library,
        Err(why) => return println!("skipped: {why}"),
    };
    for order in ["fdatasync:5:40:1", "pwrite:5:60:1"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(failing(dir.path(), &library, order));
        let mut client = SequentialClient::of(&server);
        let tried = (0..200)
            .take_while(|n| client.create(&format!("{n}")))
            .count();
        assert!((1..200).contains(&tried), "{order}: {tried} were answered");
        for _ in 0..3 {
            assert!(!client.create("x"), "{order}: written after a failed sync");
        }
        client.assert_stream_is_refused();
        client.read_all();
        server.kill();
        let server = Server::start(server::scripted(dir.path()));
        client
            .acknowledged
            .assert_contains_all(&server, true, order);
        server.kill();
        server::verify(dir.path());
    }
}

#[test]
fn writes_resume_by_themselves_when_a_full_disk_has_space_again() {
    let disk = match SmallDisk::mount(32) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut rng = seeded();
    let ballast = disk.path().join("ballast");
    // The free space before the server's own files determines which write fails.
    let ballast_len = rng.random_range(12 << 20..16 << 20);
    fs::write(&ballast, vec![1; ballast_len]).unwrap();
    let sessions = disk.path().join("sessions");
    let server = Server::start(server::scripted(&sessions));
    let mut client = SequentialClient::of(&server);
    let mut input = || -> String {
        let letters = (0..8_000).map(|_| char::from(rng.random_range(b'a'..=b'z')));
        letters.collect()
    };
    assert!(
        (0..2_000).any(|_| !client.create(&input())),
        "the disk did not fill"
    );
    // The disk reserve, which the server has freed, would suffice for a small response. So fill it
    // too.
    let filler = disk.fill();
    assert!(!client.create("x"), "the disk was not full");
    thread::sleep(RETRY);
    assert!(!client.create("x"), "written to a full disk");
    client.assert_stream_is_refused();
    client.read_all();
    fs::remove_file(&filler).unwrap();
    fs::remove_file(&ballast).unwrap();
    let resumed = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(100));
        client.create("again")
    });
    assert!(resumed, "writes did not resume");
    assert!(client.create("and again"));
    client.read_all();
    server.kill();
    let server = Server::start(server::scripted(&sessions));
    client
        .acknowledged
        .assert_contains_all(&server, true, "after a full disk");
    server.kill();
    server::verify(&sessions);
}
