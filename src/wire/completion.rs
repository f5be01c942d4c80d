//! `POST /v1/completions`: the request, and the completion, whole or in chunks.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny},
};

use super::{
    chat::{ChatUsage, StreamOptions},
    request::TextOrList,
};

/// The request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CompletionRequest {
    pub model: Option<String>,
    pub prompt: Option<Prompts>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    pub n: Option<i64>,
    pub best_of: Option<i64>,
    pub echo: Option<bool>,
    pub suffix: Option<IgnoredAny>,
    pub logprobs: Option<i64>,

    pub max_tokens: Option<i64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub min_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub logit_bias: Option<BTreeMap<String, f64>>,
    pub seed: Option<i64>,
    pub stop: Option<TextOrList<String>>,
    pub ignore_eos: Option<bool>,
    pub user: Option<String>,
}

/// `prompt`: a text, the ids of tokens, or several of one of these.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompts {
    /// Texts.
    Texts(Vec<String>),
    /// Token ids.
    Tokens(Vec<Vec<u32>>),
}

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptsVisitor)
    }
}

struct PromptsVisitor;

/// One element of an array.
#[derive(Deserialize)]
#[serde(untagged)]
enum Element {
    Text(String),
    Token(u32),
    Tokens(Vec<u32>),
}

impl<'de> de::Visitor<'de> for PromptsVisitor {
    type Value = Prompts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, an array of strings, of token ids, or of arrays of token ids")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Prompts, E> {
        Ok(Prompts::Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Prompts, A::Error> {
        let (mut texts, mut flat, mut nested) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(element) = list.next_element()? {
            match element {
                Element::Text(text) => texts.push(text),
                Element::Token(token) => flat.push(token),
                Element::Tokens(tokens) => nested.push(tokens),
            }
        }
        match (texts.is_empty(), flat.is_empty(), nested.is_empty()) {
            (_, true, true) => Ok(Prompts::Texts(texts)),
            (true, false, true) => Ok(Prompts::Tokens(vec![flat])),
            (true, true, false) => Ok(Prompts::Tokens(nested)),
            _ => Err(de::Error::custom("expected elements of one kind")),
        }
    }
}

/// An answer that is whole, or a part of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct Completion {
    pub id: String,
    pub object: &'static str,
    pub created: i64,
    pub model: String,
    pub choices: Vec<CompletionChoice>,
    /// `null` in the chunks of a stream whose request asks for usage, but in the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<ChatUsage>>,
    pub system_fingerprint: Option<String>,
}

/// One of the answers to a request, or what is new of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CompletionChoice {
    pub index: usize,
    pub text: String,
    pub logprobs: Option<CompletionLogprobs>,
    pub finish_reason: Option<&'static str>,
}

/// How likely the tokens of a text were, one element of each list for each token.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CompletionLogprobs {
    pub tokens: Vec<String>,
    pub token_logprobs: Vec<f32>,
    pub top_logprobs: Vec<BTreeMap<String, f32>>,
    pub text_offset: Vec<usize>,
}
