//! A client of OpenAI's interfaces, streaming, that notes when what came.

use std::{
    io::{BufRead as _, BufReader},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use ureq::{Agent, Body, http::Response};

use super::figures::Figures;

/// Longer than any answer that is measured takes.
const PATIENCE: Duration = Duration::from_secs(900);

/// A server's address.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: Agent,
    base: String,
}

/// What a streamed answer was, and when it came.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Of a response.
    pub(super) id: String,
    pub(super) text: String,
    /// Whether the model ended it by itself.
    pub(super) completed: bool,
    /// What the server says of the prompt: how it came from what it continues.
    pub(super) temperature: Option<String>,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) output_tokens: u64,
    /// From sending the request until each piece of text.
    pub(super) times: Vec<Duration>,
    /// When the request was sent.
    pub(super) sent: Option<Instant>,
}

impl Answer {
    /// Milliseconds from sending the request until the first text.
    pub(super) fn first_ms(&self) -> Result<f64> {
        let first = self.times.first().context("an answer has no text")?;
        Ok(first.as_secs_f64() * 1e3)
    }

    /// Tokens of the conversation with this answer.
    pub(super) fn tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }

    fn add(&mut self, text: &str) {
        if !text.is_empty() {
            let sent = self.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
            self.times.push(sent);
            self.text.push_str(text);
        }
    }

    /// Takes an event of `/v1/responses`.
    fn event(&mut self, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => self.add(event["delta"].as_str().unwrap_or_default()),
            "response.created" => {
                self.id = event["response"]["id"].as_str().unwrap_or("").into();
            }
            "response.completed" | "response.incomplete" => {
                let response = &event["response"];
                let usage = &response["usage"];
                self.completed = response["status"] == "completed";
                self.prompt_tokens = usage["input_tokens"].as_u64().unwrap_or(0);
                self.output_tokens = usage["output_tokens"].as_u64().unwrap_or(0);
                let cached = &usage["input_tokens_details"]["cached_tokens"];
                self.cached_tokens = cached.as_u64().unwrap_or(0);
            }
            _ => {}
        }
    }

    /// Takes a chunk of `/v1/chat/completions` or `/v1/completions`.
    fn chunk(&mut self, chunk: &Value) {
        let choice = &chunk["choices"][0];
        let text = choice["delta"]["content"]
            .as_str()
            .or(choice["text"].as_str());
        self.add(text.unwrap_or_default());
        self.completed |= choice["finish_reason"] == "stop";
        let usage = &chunk["usage"];
        if let Some(tokens) = usage["prompt_tokens"].as_u64() {
            self.prompt_tokens = tokens;
            self.output_tokens = usage["completion_tokens"].as_u64().unwrap_or(0);
            let cached = &usage["prompt_tokens_details"]["cached_tokens"];
            self.cached_tokens = cached.as_u64().unwrap_or(0);
        }
    }
}

impl Client {
    pub(super) fn new(port: u16) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            // A connection for each request: some servers close theirs while the next is on its way.
            .max_idle_connections(0);
        Self {
            agent: config.build().new_agent(),
            base: format!("http://127.0.0.1:{port}"),
        }
    }

    /// Whether `GET` of a path is answered with 200.
    pub(super) fn is_there(&self, path: &str) -> bool {
        let url = format!("{}{path}", self.base);
        let answer = self.agent.get(url).call();
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// Posts a request that is to be streamed. Anything but 200 is an error that says what came.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Response<Body>> {
        let url = format!("{}{path}", self.base);
        let request = self.agent.post(&url);
        let request = request.header("content-type", "application/json");
        let sent = request.send(body.to_string().as_str());
        let mut answer = sent.with_context(|| format!("POST {url}"))?;
        let status = answer.status();
        if status != 200 {
            let said = answer.body_mut().read_to_string().unwrap_or_default();
            bail!("POST {url} gave {status}: {said}");
        }
        Ok(answer)
    }

    /// An answer of `/v1/responses`.
    pub(super) fn response(&self, body: &Value) -> Result<Answer> {
        self.streamed("/v1/responses", body, &Answer::event, usize::MAX)
    }

    /// An answer of `/v1/chat/completions`.
    pub(super) fn chat(&self, body: &Value) -> Result<Answer> {
        self.streamed("/v1/chat/completions", body, &Answer::chunk, usize::MAX)
    }

    /// As [`response`](Self::response), but hangs up after so many pieces of text.
    pub(super) fn response_begun(&self, body: &Value, pieces: usize) -> Result<Answer> {
        self.streamed("/v1/responses", body, &Answer::event, pieces)
    }

    fn streamed(
        &self,
        path: &str,
        body: &Value,
        take: &dyn Fn(&mut Answer, &Value),
        pieces_max: usize,
    ) -> Result<Answer> {
        let mut answer = Answer {
            sent: Some(Instant::now()),
            ..Answer::default()
        };
        let response = self.post(path, body)?;
        let temperature = response.headers().get("x-stemma-continuation");
        let temperature = temperature.and_then(|value| value.to_str().ok());
        answer.temperature = temperature.map(str::to_owned);
        let mut lines = BufReader::new(response.into_body().into_reader());
        let mut line = String::new();
        while answer.times.len() < pieces_max && lines.read_line(&mut line)? > 0 {
            if let Some(data) = line.strip_prefix("data: ")
                && let Ok(event) = serde_json::from_str::<Value>(data)
            {
                if event["error"].is_object() || event["type"] == "response.failed" {
                    bail!("POST {path} failed within the stream: {data}");
                }
                take(&mut answer, &event);
            }
            line.clear();
        }
        Ok(answer)
    }

    /// Deletes a stored response; whether it was there.
    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let url = format!("{}/v1/responses/{id}", self.base);
        let answer = self.agent.delete(&url).call();
        let status = answer.with_context(|| format!("DELETE {url}"))?.status();
        Ok(status == 200)
    }

    /// The counters and gauges of `/metrics` that have no labels but the model.
    pub(super) fn metrics(&self) -> Result<Figures> {
        let url = format!("{}/metrics", self.base);
        let mut answer = self.agent.get(&url).call()?;
        let text = answer.body_mut().read_to_string()?;
        Ok(text.lines().filter_map(sample).collect())
    }
}

/// A line of OpenMetrics: the name without its labels, and the value.
fn sample(line: &str) -> Option<(String, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.rsplit_once(' ')?;
    let name = name.split('{').next()?;
    Some((name.to_owned(), value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_is_read_from_its_events() {
        let mut answer = Answer::default();
        let usage = json!({
            "input_tokens": 9,
            "input_tokens_details": { "cached_tokens": 4 },
            "output_tokens": 2,
        });
        let events = [
            json!({ "type": "response.created", "response": { "id": "resp_1" } }),
            json!({ "type": "response.output_text.delta", "delta": "Yes" }),
            json!({ "type": "response.output_text.delta", "delta": "." }),
            json!({
                "type": "response.completed",
                "response": { "status": "completed", "usage": usage },
            }),
        ];
        events.iter().for_each(|event| answer.event(event));
        assert_eq!((&*answer.id, &*answer.text), ("resp_1", "Yes."));
        assert!(answer.completed);
        assert_eq!((answer.tokens(), answer.cached_tokens), (11, 4));
        assert_eq!(answer.times.len(), 2);
    }

    #[test]
    fn a_chat_completion_is_read_from_its_chunks() {
        let mut answer = Answer::default();
        for chunk in [
            json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }] }),
            json!({ "choices": [{ "delta": { "content": "Yes." }, "finish_reason": null }] }),
            json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 2 } }),
        ] {
            answer.chunk(&chunk);
        }
        assert_eq!((&*answer.text, answer.times.len()), ("Yes.", 1));
        assert!(answer.completed);
        assert_eq!(answer.tokens(), 11);
    }

    #[test]
    fn metrics_are_read_without_labels() {
        let line = "stemma_prefilled_tokens_total{model=\"smollm2\"} 12";
        let read = sample(line);
        assert_eq!(read, Some(("stemma_prefilled_tokens_total".into(), 12.0)));
        assert_eq!(sample("# HELP stemma_steps Steps 1"), None);
        assert_eq!(sample("# EOF"), None);
    }
}
