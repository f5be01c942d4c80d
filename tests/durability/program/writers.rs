//! Clients that create, stream, continue and delete responses until their server is gone.

use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::{Client, Response};
use serde_json::{Value, json};

use super::acknowledged::{Acknowledged, Turn};

/// The number of concurrent clients.
const CLIENTS: u64 = 16;

/// The server is gone, or its answer was cut.
#[derive(Debug)]
pub(super) struct Gone;

impl From<reqwest::Error> for Gone {
    fn from(_: reqwest::Error) -> Self {
        Self
    }
}

/// The requests of the clients.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) url: String,
    pub(super) seed: u64,
    /// True if the model is scripted, so that its output is known.
    pub(super) scripted: bool,
}

/// Writes until the server is gone. Records every acknowledged write in `acknowledged`.
pub(super) async fn write(load: &Load, acknowledged: &Arc<Mutex<Acknowledged>>) {
    let client = Client::new();
    let writers = (0..CLIENTS).map(|number| {
        let writer = Writer {
            client: client.clone(),
            load: load.clone(),
            acknowledged: Arc::clone(acknowledged),
            rng: StdRng::seed_from_u64(load.seed ^ (number << 56)),
            mine: Vec::new(),
        };
        tokio::spawn(writer.run(number))
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

struct Writer {
    client: Client,
    load: Load,
    acknowledged: Arc<Mutex<Acknowledged>>,
    rng: StdRng,
    /// The ids of this client's responses, with the number of messages before each.
    mine: Vec<(String, usize)>,
}

impl Writer {
    async fn run(mut self, number: u64) {
        for turn in 0.. {
            let input = format!("client {number}, turn {turn}");
            if self.turn(&input).await.is_err() {
                return;
            }
            if self.rng.random_ratio(1, 6) && self.delete().await.is_err() {
                return;
            }
        }
    }

    async fn turn(&mut self, input: &str) -> Result<(), Gone> {
        let previous = self.mine.last().cloned();
        let previous = previous.filter(|_| self.rng.random_ratio(2, 3));
        let messages = previous.as_ref().map_or(0, |(_, messages)| *messages) + 1;
        let stream: bool = self.rng.random();
        let mut request = json!({"input": input, "stream": stream});
        if !self.load.scripted {
            request["max_output_tokens"] = 4.into();
        }
        if let Some((id, _)) = previous {
            request["previous_response_id"] = id.into();
        }
        let url = format!("{}/v1/responses", self.load.url);
        let answer = self.client.post(url).json(&request).send().await?;
        assert_eq!(answer.status(), 200);
        let response = match stream {
            true => self.terminal(answer).await?,
            false => answer.json().await?,
        };
        if self.load.scripted {
            assert_eq!(response["status"], "completed", "{response}");
            assert_eq!(response["output_text"], output_of(messages, input));
        }
        let id = response["id"].as_str().unwrap().to_owned();
        let turn = Turn {
            response,
            messages: messages + 1,
        };
        self.acknowledged
            .lock()
            .unwrap()
            .stored
            .insert(id.clone(), turn);
        self.mine.push((id, messages + 1));
        Ok(())
    }

    /// Reads a stream up to its terminal event. The event counts even if the connection breaks
    /// afterwards.
    async fn terminal(&self, mut answer: Response) -> Result<Value, Gone> {
        let mut text = String::new();
        while let Some(chunk) = answer.chunk().await? {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((frame, rest)) = text.split_once("\n\n") {
                let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
                let event = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
                text = rest.to_owned();
                let Some(mut event) = event else { continue };
                match event["type"].as_str().unwrap() {
                    "response.created" => {
                        let id = event["response"]["id"].as_str().unwrap().to_owned();
                        self.acknowledged.lock().unwrap().begun.insert(id);
                    }
                    "response.completed" | "response.incomplete" => {
                        return Ok(event["response"].take());
                    }
                    "error" => panic!("{event}"),
                    _ => {}
                }
            }
        }
        Err(Gone)
    }

    async fn delete(&mut self) -> Result<(), Gone> {
        let at = self.rng.random_range(0..self.mine.len());
        let (id, _) = self.mine.swap_remove(at);
        self.acknowledged
            .lock()
            .unwrap()
            .deleting
            .insert(id.clone());
        let url = format!("{}/v1/responses/{id}", self.load.url);
        let answer = self.client.delete(url).send().await?;
        assert_eq!(answer.status(), 200);
        let answer: Value = answer.json().await?;
        assert_eq!(answer["deleted"], true);
        let mut acknowledged = self.acknowledged.lock().unwrap();
        acknowledged.deleting.remove(&id);
        acknowledged.deleted.insert(id);
        Ok(())
    }
}

/// Returns the scripted model's output for message number `messages`.
pub(super) fn output_of(messages: usize, input: &str) -> String {
    format!("Message {messages} was: {input}")
}
