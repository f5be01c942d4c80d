//! A streaming client of OpenAI's API that records the times of all text deltas.

use std::{
    io::{BufRead as _, BufReader},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use ureq::{Agent, Body, http::Response};

use super::figures::Figures;

/// Timeout of a request; longer than any measured request takes.
const TIMEOUT: Duration = Duration::from_secs(900);

/// A client of one server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: Agent,
    base: String,
}

/// A streamed response or chat completion, and the times of its deltas.
#[derive(Debug, Default)]
pub(super) struct Completion {
    /// The response's id; empty for a chat completion.
    pub(super) id: String,
    pub(super) text: String,
    /// True if the model ended the output itself, not a token limit.
    pub(super) completed: bool,
    /// The continuation state, from the header `x-stemma-continuation`; `None` for other servers.
    pub(super) continuation: Option<String>,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) output_tokens: u64,
    /// Time from sending the request until each text delta.
    pub(super) times: Vec<Duration>,
    /// The time at which the request was sent.
    pub(super) sent: Option<Instant>,
}

impl Completion {
    /// Returns the milliseconds from sending the request until the first text delta.
    pub(super) fn first_ms(&self) -> Result<f64> {
        let first = self.times.first().context("the output has no text")?;
        Ok(first.as_secs_f64() * 1e3)
    }

    /// Returns the tokens of prompt and output.
    pub(super) fn tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }

    fn add(&mut self, text: &str) {
        if !text.is_empty() {
            let after = self.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
            self.times.push(after);
            self.text.push_str(text);
        }
    }

    /// Adds an event of `/v1/responses`.
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

    /// Adds a chunk of `/v1/chat/completions` or `/v1/completions`.
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
            .timeout_global(Some(TIMEOUT))
            // One connection per request, because some servers close an idle connection just as the
            // next request arrives.
            .max_idle_connections(0);
        Self {
            agent: config.build().new_agent(),
            base: format!("http://127.0.0.1:{port}"),
        }
    }

    /// True if the server answers `GET` of the path with 200.
    pub(super) fn is_there(&self, path: &str) -> bool {
        let url = format!("{}{path}", self.base);
        let response = self.agent.get(url).call();
        response.is_ok_and(|response| response.status() == 200)
    }

    /// Posts a request. A status other than 200 is an error with the response's body.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Response<Body>> {
        let url = format!("{}{path}", self.base);
        let request = self.agent.post(&url);
        let request = request.header("content-type", "application/json");
        let sent = request.send(body.to_string().as_str());
        let mut response = sent.with_context(|| format!("POST {url}"))?;
        let status = response.status();
        if status != 200 {
            let body = response.body_mut().read_to_string().unwrap_or_default();
            bail!("POST {url} gave {status}: {body}");
        }
        Ok(response)
    }

    /// Streams a response of `/v1/responses`.
    pub(super) fn response(&self, body: &Value) -> Result<Completion> {
        self.streamed("/v1/responses", body, &Completion::event, usize::MAX)
    }

    /// Streams a chat completion of `/v1/chat/completions`.
    pub(super) fn chat(&self, body: &Value) -> Result<Completion> {
        self.streamed("/v1/chat/completions", body, &Completion::chunk, usize::MAX)
    }

    /// Streams a response of `/v1/responses`, but disconnects after `deltas` text deltas.
    pub(super) fn response_cancelled(&self, body: &Value, deltas: usize) -> Result<Completion> {
        self.streamed("/v1/responses", body, &Completion::event, deltas)
    }

    fn streamed(
        &self,
        path: &str,
        body: &Value,
        add: &dyn Fn(&mut Completion, &Value),
        deltas_max: usize,
    ) -> Result<Completion> {
        let mut completion = Completion {
            sent: Some(Instant::now()),
            ..Completion::default()
        };
        let response = self.post(path, body)?;
        let continuation = response.headers().get("x-stemma-continuation");
        let continuation = continuation.and_then(|value| value.to_str().ok());
        completion.continuation = continuation.map(str::to_owned);
        let mut lines = BufReader::new(response.into_body().into_reader());
        let mut line = String::new();
        while completion.times.len() < deltas_max && lines.read_line(&mut line)? > 0 {
            if let Some(data) = line.strip_prefix("data: ")
                && let Ok(event) = serde_json::from_str::<Value>(data)
            {
                if event["error"].is_object() || event["type"] == "response.failed" {
                    bail!("POST {path} failed within the stream: {data}");
                }
                add(&mut completion, &event);
            }
            line.clear();
        }
        Ok(completion)
    }

    /// Deletes a stored response. Returns true if the response existed.
    pub(super) fn delete(&self, id: &str) -> Result<bool> {
        let url = format!("{}/v1/responses/{id}", self.base);
        let response = self.agent.delete(&url).call();
        let status = response.with_context(|| format!("DELETE {url}"))?.status();
        Ok(status == 200)
    }

    /// Reads the counters and gauges of `/metrics`, without their labels.
    pub(super) fn metrics(&self) -> Result<Figures> {
        let url = format!("{}/metrics", self.base);
        let mut response = self.agent.get(&url).call()?;
        let text = response.body_mut().read_to_string()?;
        Ok(text.lines().filter_map(sample).collect())
    }
}

/// Parses a line of OpenMetrics: the name without its labels, and the value. `None` for a comment.
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
    fn events_add_up_to_a_response() {
        let mut completion = Completion::default();
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
        events.iter().for_each(|event| completion.event(event));
        assert_eq!((&*completion.id, &*completion.text), ("resp_1", "Yes."));
        assert!(completion.completed);
        assert_eq!((completion.tokens(), completion.cached_tokens), (11, 4));
        assert_eq!(completion.times.len(), 2);
    }

    #[test]
    fn chunks_add_up_to_a_chat_completion() {
        let mut completion = Completion::default();
        for chunk in [
            json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }] }),
            json!({ "choices": [{ "delta": { "content": "Yes." }, "finish_reason": null }] }),
            json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 2 } }),
        ] {
            completion.chunk(&chunk);
        }
        assert_eq!((&*completion.text, completion.times.len()), ("Yes.", 1));
        assert!(completion.completed);
        assert_eq!(completion.tokens(), 11);
    }

    #[test]
    fn metrics_are_parsed_without_labels() {
        let line = "stemma_prefilled_tokens_total{model=\"smollm2\"} 12";
        let read = sample(line);
        assert_eq!(read, Some(("stemma_prefilled_tokens_total".into(), 12.0)));
        assert_eq!(sample("# HELP stemma_steps Steps 1"), None);
        assert_eq!(sample("# EOF"), None);
    }
}
