//! What clients were told, and whether a server still says the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use reqwest::{Client, Response};
use serde_json::{Value, json};

use super::{
    server::Server,
    writers::{self, Load, said},
};

/// How long a real model may take for a few answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// A response that was received in full.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) response: Value,
    /// Messages of its conversation, its own answer included.
    pub(super) messages: usize,
}

/// When a server is killed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    After(Duration),
    /// When so many responses were received in all.
    Stored(usize),
}

/// What clients were told so far.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Responses whose answer or terminal event came, by id.
    pub(super) stored: BTreeMap<String, Turn>,
    /// Ids of streams that began.
    pub(super) begun: BTreeSet<String>,
    pub(super) deleted: BTreeSet<String>,
    /// Deletions that nobody confirmed.
    pub(super) deleting: BTreeSet<String>,
}

impl Heard {
    /// Lets clients write until a moment and kills the server under them. Adds to what was heard.
    pub(super) fn write_and_kill(&mut self, server: Server, load: &Load, until: Until) {
        let heard = Arc::new(Mutex::new(std::mem::take(self)));
        let runtime = runtime();
        let writing = {
            let (load, heard) = (load.clone(), Arc::clone(&heard));
            runtime.spawn(async move { writers::write(&load, &heard).await })
        };
        match until {
            Until::After(time) => thread::sleep(time),
            Until::Stored(count) => {
                let begun = Instant::now();
                while heard.lock().unwrap().stored.len() < count {
                    assert!(begun.elapsed() < PATIENCE, "no {count} answers in time");
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        server.kill();
        runtime.block_on(writing).unwrap();
        *self = std::mem::take(&mut *heard.lock().unwrap());
    }

    /// Responses that must be readable.
    pub(super) fn kept(&self) -> impl Iterator<Item = (&String, &Turn)> {
        let gone = |id: &String| self.deleted.contains(id) || self.deleting.contains(id);
        self.stored.iter().filter(move |(id, _)| !gone(id))
    }

    /// Checks that a server holds all that was heard and nothing half-written, and goes on from there.
    pub(super) fn assert_held(&self, server: &Server, scripted: bool, what: &str) {
        runtime().block_on(async {
            let client = Client::new();
            let get = async |id: &str| -> Response {
                let url = format!("{}/v1/responses/{id}", server.url);
                client.get(url).send().await.unwrap()
            };
            stream::iter(self.kept())
                .for_each_concurrent(8, async |(id, turn)| {
                    let read = get(id).await;
                    assert_eq!(read.status(), 200, "{what}: {id}");
                    let read: Value = read.json().await.unwrap();
                    assert_eq!(read, turn.response, "{what}: {id}");
                })
                .await;
            for id in &self.deleted {
                assert_eq!(get(id).await.status(), 404, "{what}: {id} was deleted");
            }
            // What nobody was told the end of is there whole or not at all.
            let unsure = self
                .begun
                .iter()
                .filter(|id| !self.stored.contains_key(*id));
            for id in unsure {
                let read = get(id).await;
                if read.status() != 404 {
                    let read: Value = read.json().await.unwrap();
                    assert_eq!(read["id"], **id, "{what}");
                    assert!(!read["usage"].is_null(), "{what}: {read}");
                }
            }
            if let Some((id, turn)) = self.kept().last() {
                go_on(&client, server, id, turn, scripted).await;
            }
        });
    }
}

/// Continues a response, with all that was said before it.
async fn go_on(client: &Client, server: &Server, id: &str, turn: &Turn, scripted: bool) {
    let request = json!({"input": "Go on.", "previous_response_id": id, "max_output_tokens": 60});
    let url = format!("{}/v1/responses", server.url);
    let answer = client.post(url).json(&request).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let continuation = answer.headers()["x-stemma-continuation"].clone();
    let response: Value = answer.json().await.unwrap();
    assert_eq!(response["previous_response_id"], id);
    if scripted {
        // Its snapshot may have been written before the end.
        let forked = continuation == "cold" || continuation == "thawed";
        assert!(forked, "{continuation:?}");
        assert_eq!(response["output_text"], said(turn.messages + 1, "Go on."));
    }
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
