//! Conversations, as the users of each server hold them: ours by the response that is continued, the
//! others by sending everything again.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    client::{Answer, Client},
    servers::Side,
};

/// The novel of the tests, for prompts to quote.
const NOVEL: &str = include_str!("../../../tests/data/text/eighty-days.txt");

/// Words of a message that fills a conversation.
const FILL_WORDS: u64 = 150;
/// Tokens that such a message has about it, with its answer.
const FILL_TOKENS: u64 = 40;
/// Tokens that so many words of the novel have, more often less.
const TOKENS_OF_100_WORDS: u64 = 140;
/// Longest answers: short, and that of a turn which must end by itself.
const SHORT_TOKENS_MAX: u64 = 4;
const WHOLE_TOKENS_MAX: u64 = 96;
/// Turns that may be asked again because their answer did not end.
const RETRIES_MAX: usize = 12;

/// Passages of the novel, one after the other, from the beginning again at its end.
#[derive(Debug)]
pub(super) struct Passages {
    words: Vec<&'static str>,
    at: usize,
}

impl Passages {
    /// Begins at a place that the number chooses.
    pub(super) fn from(start: usize) -> Self {
        let words: Vec<_> = NOVEL.split_whitespace().collect();
        let at = start * 997 % words.len();
        Self { words, at }
    }

    /// The next so many words.
    pub(super) fn next(&mut self, count: u64) -> String {
        let words = self.words.iter().cycle().skip(self.at);
        let passage: Vec<&str> = words.take(count as usize).copied().collect();
        self.at = (self.at + passage.len()) % self.words.len();
        passage.join(" ")
    }

    /// About so many tokens, at most.
    pub(super) fn tokens(&mut self, count: u64) -> String {
        self.next(count * 100 / TOKENS_OF_100_WORDS)
    }
}

/// A conversation with one server.
#[derive(Debug)]
pub(super) struct Talk<'a> {
    pub(super) client: &'a Client,
    side: Side,
    /// The response that ours continues.
    pub(super) previous: Option<String>,
    /// Everything said, for the others.
    messages: Vec<Value>,
    /// Tokens of all that.
    pub(super) tokens: u64,
    turns: usize,
}

impl<'a> Talk<'a> {
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

    /// Says something and hears the answer. One of ours that the model did not end is heard, but not
    /// continued.
    pub(super) fn say(&mut self, text: &str, tokens_max: u64) -> Result<Answer> {
        let answer = match self.side {
            Side::Stemma => {
                let body = turn(self.previous.as_deref(), text, tokens_max);
                self.client.response(&body)?
            }
            Side::LlamaCpp | Side::MlxLm => {
                self.messages
                    .push(json!({ "role": "user", "content": text }));
                let answer = self.client.chat(&json!({
                    "messages": self.messages,
                    "temperature": 0,
                    "max_tokens": tokens_max,
                    "stream": true,
                    "stream_options": { "include_usage": true },
                }))?;
                let said = json!({ "role": "assistant", "content": answer.text });
                self.messages.push(said);
                answer
            }
        };
        if self.side != Side::Stemma || answer.completed {
            self.previous = Some(answer.id.clone());
            self.tokens = answer.tokens();
        }
        Ok(answer)
    }

    /// Talks until the conversation has about so many tokens.
    pub(super) fn fill(&mut self, passages: &mut Passages, size: u64) -> Result<()> {
        let mut retries = 0;
        while self.tokens + 2 * FILL_TOKENS < size {
            let room = size - self.tokens - FILL_TOKENS;
            // What the model does not end at one length it may at another.
            let words = FILL_WORDS.min(room * 100 / TOKENS_OF_100_WORDS) / (1 + retries as u64 / 2);
            let text = format!("{}\n\nSay only: OK.", passages.next(words));
            let tokens_max = match self.side {
                Side::Stemma => WHOLE_TOKENS_MAX,
                Side::LlamaCpp | Side::MlxLm => SHORT_TOKENS_MAX,
            };
            let before = self.tokens;
            self.say(&text, tokens_max)?;
            retries = match self.tokens > before {
                true => 0,
                false => retries + 1,
            };
            ensure!(retries < RETRIES_MAX, "the model ends none of its answers");
        }
        Ok(())
    }

    /// Asks something short, whose answer goes into the conversation.
    pub(super) fn ask(&mut self) -> Result<Answer> {
        self.turns += 1;
        let (one, other) = (self.turns * 7 % 50, self.turns * 3 % 40);
        let text = format!("What is {one} plus {other}? Say only the number.");
        self.say(&text, WHOLE_TOKENS_MAX)
    }
}

/// A turn of ours.
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

/// Makes sure that a continuation was what it is measured as.
pub(super) fn expect(answer: &Answer, temperature: &str) -> Result<()> {
    match answer.temperature.as_deref() {
        Some(said) if said == temperature => Ok(()),
        said => bail!("a turn should have been {temperature}, but was {said:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_go_on_and_begin_again() {
        let mut passages = Passages::from(0);
        assert_eq!(passages.next(3), "Mr. Phileas Fogg");
        assert_eq!(passages.next(2), "lived, in");
        passages.at = passages.words.len() - 1;
        assert!(passages.next(4).ends_with("Mr. Phileas Fogg"));
        let (one, other) = (Passages::from(1).next(5), Passages::from(2).next(5));
        assert_ne!(one, other);
    }

    #[test]
    fn only_a_continuation_names_what_it_continues() {
        assert!(turn(None, "Hi", 4).get("previous_response_id").is_none());
        assert_eq!(
            turn(Some("resp_1"), "Hi", 4)["previous_response_id"],
            "resp_1"
        );
    }
}
