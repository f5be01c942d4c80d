//! Conversations with each server. stemma continues a stored response; the other servers get the whole
//! conversation with every request.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    client::{Client, Completion},
    servers::Side,
};

/// A novel, quoted in prompts.
const NOVEL: &str = include_str!("../../../tests/data/text/eighty-days.txt");

/// Longest filling message, in words of the novel.
const FILL_WORDS: u64 = 150;
/// Tokens of a filling message beside its words: markup, the request and the output.
const FILL_TOKENS: u64 = 40;
/// Upper estimate of the tokens of 100 words of the novel.
const TOKENS_OF_100_WORDS: u64 = 140;
/// `max_tokens` of a short output, and of an output that must end with an EOS token.
const SHORT_TOKENS_MAX: u64 = 4;
const WHOLE_TOKENS_MAX: u64 = 96;
/// Limit of consecutive turns whose output was cut off.
const RETRIES_MAX: usize = 12;

/// Consecutive passages of the novel; starts over at its end.
#[derive(Debug)]
pub(super) struct Passages {
    words: Vec<&'static str>,
    at: usize,
}

impl Passages {
    /// Starts at a word that `start` selects.
    pub(super) fn from(start: usize) -> Self {
        let words: Vec<_> = NOVEL.split_whitespace().collect();
        let at = start * 997 % words.len();
        Self { words, at }
    }

    /// Returns the next `count` words.
    pub(super) fn next(&mut self, count: u64) -> String {
        let words = self.words.iter().cycle().skip(self.at);
        let passage: Vec<&str> = words.take(count as usize).copied().collect();
        self.at = (self.at + passage.len()) % self.words.len();
        passage.join(" ")
    }

    /// Returns the next words, about `count` tokens at most.
    pub(super) fn tokens(&mut self, count: u64) -> String {
        self.next(count * 100 / TOKENS_OF_100_WORDS)
    }
}

/// A conversation with one server.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    pub(super) client: &'a Client,
    side: Side,
    /// The last completed response, which stemma continues.
    pub(super) previous: Option<String>,
    /// The whole conversation, for the other servers.
    messages: Vec<Value>,
    /// Tokens of the conversation.
    pub(super) tokens: u64,
    turns: usize,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(client: &'a Client, side: Side) -> Self {
        Self {
            client,
            side,
            previous: None,
            messages: Vec::new(),
            tokens: 0,
            turns: 0,
        }
    }

    /// Runs a turn. With stemma, later turns do not continue a turn that was cut off.
    pub(super) fn run_turn(&mut self, text: &str, tokens_max: u64) -> Result<Completion> {
        let completion = match self.side {
            Side::Stemma => {
                let body = turn(self.previous.as_deref(), text, tokens_max);
                self.client.response(&body)?
            }
            Side::LlamaCpp | Side::MlxLm => {
                self.messages
                    .push(json!({ "role": "user", "content": text }));
                let completion = self.client.chat(&json!({
                    "messages": self.messages,
                    "temperature": 0,
                    "max_tokens": tokens_max,
                    "stream": true,
                    "stream_options": { "include_usage": true },
                }))?;
                let message = json!({ "role": "assistant", "content": completion.text });
                self.messages.push(message);
                completion
            }
        };
        if self.side != Side::Stemma || completion.completed {
            self.previous = Some(completion.id.clone());
            self.tokens = completion.tokens();
        }
        Ok(completion)
    }

    /// Runs turns until the conversation has about `size` tokens.
    pub(super) fn fill(&mut self, passages: &mut Passages, size: u64) -> Result<()> {
        let mut retries = 0;
        while self.tokens + 2 * FILL_TOKENS < size {
            let room = size - self.tokens - FILL_TOKENS;
            // If the model does not end its output, it may after a prompt of another length.
            let words = FILL_WORDS.min(room * 100 / TOKENS_OF_100_WORDS) / (1 + retries as u64 / 2);
            let text = format!("{}\n\nSay only: OK.", passages.next(words));
            let tokens_max = match self.side {
                Side::Stemma => WHOLE_TOKENS_MAX,
                Side::LlamaCpp | Side::MlxLm => SHORT_TOKENS_MAX,
            };
            let before = self.tokens;
            self.run_turn(&text, tokens_max)?;
            retries = match self.tokens > before {
                true => 0,
                false => retries + 1,
            };
            ensure!(retries < RETRIES_MAX, "the model ends none of its outputs");
        }
        Ok(())
    }

    /// Runs a short turn.
    pub(super) fn ask(&mut self) -> Result<Completion> {
        self.turns += 1;
        let (one, other) = (self.turns * 7 % 50, self.turns * 3 % 40);
        let text = format!("What is {one} plus {other}? Say only the number.");
        self.run_turn(&text, WHOLE_TOKENS_MAX)
    }
}

/// Returns a request of `/v1/responses`.
pub(super) fn turn(previous: Option<&str>, text: &str, tokens_max: u64) -> Value {
    let mut body = json!({
        "input": text,
        "temperature": 0,
        "max_output_tokens": tokens_max,
        "stream": true,
    });
    if let Some(previous) = previous {
        body["previous_response_id"] = previous.into();
    }
    body
}

/// Checks the continuation state that the server reported.
pub(super) fn expect(completion: &Completion, state: &str) -> Result<()> {
    match completion.continuation.as_deref() {
        Some(reported) if reported == state => Ok(()),
        reported => bail!("a turn should have been {state}, but was {reported:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_start_over_at_the_end() {
        let mut passages = Passages::from(0);
        assert_eq!(passages.next(3), "Mr. Phileas Fogg");
        assert_eq!(passages.next(2), "lived, in");
        passages.at = passages.words.len() - 1;
        assert!(passages.next(4).ends_with("Mr. Phileas Fogg"));
        let (one, other) = (Passages::from(1).next(5), Passages::from(2).next(5));
        assert_ne!(one, other);
    }

    #[test]
    fn only_a_continuation_names_a_previous_response() {
        assert!(turn(None, "Hi", 4).get("previous_response_id").is_none());
        assert_eq!(
            turn(Some("resp_1"), "Hi", 4)["previous_response_id"],
            "resp_1"
        );
    }
}
