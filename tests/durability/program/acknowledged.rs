//! The responses and deletions that clients saw acknowledged, and their check against a server.

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
    writers::{self, Load, output_of},
};

/// The maximum time for a few responses of a real model.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A response that was received completely.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) response: Value,
    /// The number of messages in its conversation, its own included.
    pub(super) messages: usize,
}

/// The moment at which the server is killed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    After(Duration),
    /// Kills once this number of responses was received in total.
    Stored(usize),
}

/// The acknowledged writes of all clients.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// Responses with a received answer or terminal event, by id.
    pub(super) stored: BTreeMap<String, Turn>,
    /// The ids of streams that began.
    pub(super) begun: BTreeSet<String>,
    pub(super) deleted: BTreeSet<String>,
    /// Deletions without a confirmation.
    pub(super) deleting: BTreeSet<String>,
}

impl Acknowledged {
    /// Lets clients write until a moment, then kills the server. Adds what they received.
    pub(super) fn write_and_kill(&mut self, server: Server, load: &Load, until: Until) {
        let acknowledged = Arc::new(Mutex::new(std::mem::take(self)));
        let runtime = runtime();
        let writing = {
            let (load, acknowledged) = (load.clone(), Arc::clone(&acknowledged));
            runtime.spawn(async move { writers::write(&load, &acknowledged).await })
        };
        match until {
            Until::After(time) => thread::sleep(time),
            Until::Stored(count) => {
                let begun = Instant::now();
                while acknowledged.lock().unwrap().stored.len() < count {
                    assert!(begun.elapsed() < TIMEOUT, "no {count} answers in time");
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        server.kill();
        runtime.block_on(writing).unwrap();
        *self = std::mem::take(&mut *acknowledged.lock().unwrap());
    }

    /// Returns the responses that must be readable.
    pub(super) fn readable(&self) -> impl Iterator<Item = (&String, &Turn)> {
        let gone = |id: &String| self.deleted.contains(id) || self.deleting.contains(id);
        self.stored.iter().filter(move |(id, _)| !gone(id))
    }

    /// Checks that a server has every acknowledged write and nothing incomplete, and that it can
    /// continue a response.
    pub(super) fn assert_contains_all(&self, server: &Server, scripted: bool, what: &str) {
        runtime().block_on(async {
            let client = Client::new();
            let get = async |id: &str| -> Response {
                let url = format!("{}/v1/responses/{id}", server.url);
                client.get(url).send().await.unwrap()
            };
            stream::iter(self.readable())
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
            // A stream without a received end is stored completely or not at all.
            let unfinished = self
                .begun
                .iter()
                .filter(|id| !self.stored.contains_key(*id));
            for id in unfinished {
                let read = get(id).await;
                if read.status() != 404 {
                    let read: Value = read.json().await.unwrap();
                    assert_eq!(read["id"], **id, "{what}");
                    assert!(!read["usage"].is_null(), "{what}: {read}");
                }
            }
            if let Some((id, turn)) = self.readable().last() {
                continue_response(&client, server, id, turn, scripted).await;
            }
        });
    }
}

/// Continues a response with the whole conversation.
async fn continue_response(
    client: &Client,
    server: &Server,
    id: &str,
    turn: &Turn,
    scripted: bool,
) {
    let request = json!({"input": "Go on.", "previous_response_id": id, "max_output_tokens": 60});
    let url = format!("{}/v1/responses", server.url);
    let answer = client.post(url).json(&request).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let continuation = answer.headers()["x-stemma-continuation"].clone();
    let response: Value = answer.json().await.unwrap();
    assert_eq!(response["previous_response_id"], id);
    if scripted {
        // Its snapshot may have been written before the kill.
        let forked = continuation == "cold" || continuation == "thawed";
        assert!(forked, "{continuation:?}");
        assert_eq!(
            response["output_text"],
            output_of(turn.messages + 1, "Go on.")
        );
    }
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
