//! `POST /v1/completions`: the request, and the completion, whole or in chunks.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, RefOr, Schema, schema::AnyOf},
};

use super::{
    chat::{ChatUsage, StreamOptions},
    request::TextOrList,
};

/// The request.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct CompletionRequest {
    /// An id of `/v1/models`; may be absent when one model is loaded.
    pub model: Option<String>,
    /// The prompt. An empty string starts with the model's BOS token.
    pub prompt: Option<Prompts>,
    /// True if the answer comes as server-sent events, with `data: [DONE]` at their end.
    #[schema(default = false)]
    pub stream: Option<bool>,
    /// Of a stream only.
    pub stream_options: Option<StreamOptions>,
    /// Number of choices for each prompt; at most 16 for all prompts together.
    #[schema(minimum = 1, maximum = 16, default = 1)]
    pub n: Option<i64>,
    /// The same as `n` only.
    pub best_of: Option<i64>,
    /// True if the answers begin with their prompts; prompts that are texts only.
    #[schema(default = false)]
    pub echo: Option<bool>,
    /// Not supported.
    #[schema(ignore)]
    pub suffix: Option<IgnoredAny>,
    /// Number of top log probabilities for each token; not together with `echo`.
    #[schema(minimum = 0, maximum = 20)]
    pub logprobs: Option<i64>,

    /// Most tokens of each answer.
    #[schema(minimum = 1, default = 16)]
    pub max_tokens: Option<i64>,
    /// 0 always takes the likeliest token.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Only the likeliest tokens that have this probability together are drawn from.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// Extension: only this many of the likeliest tokens are drawn from; 0 and -1 keep all.
    #[schema(minimum = -1, maximum = 4_294_967_295_i64)]
    pub top_k: Option<i64>,
    /// Extension: tokens less likely than this times the likeliest are not drawn.
    #[schema(minimum = 0, maximum = 1)]
    pub min_p: Option<f64>,
    /// Extension: divides the logits of tokens that were there already; 1 changes nothing.
    #[schema(minimum = 0.1, maximum = 10)]
    pub repetition_penalty: Option<f64>,
    /// Subtracted from the logits of tokens that the answer has already.
    #[schema(minimum = -2, maximum = 2)]
    pub presence_penalty: Option<f64>,
    /// Subtracted from a token's logit as often as the answer has it.
    #[schema(minimum = -2, maximum = 2)]
    pub frequency_penalty: Option<f64>,
    /// Token id → what is added to its logit, -100 to 100.
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// With the same seed, prompt and settings a model draws the same.
    pub seed: Option<i64>,
    /// Texts that end the answer and do not appear in it: one, or up to 4 of at most 256 characters.
    pub stop: Option<TextOrList<String>>,
    /// Extension: the model's own end tokens do not end the answer.
    pub ignore_eos: Option<bool>,
    /// No effect.
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

/// Written by hand, as JSON has twice the forms.
impl PartialSchema for Prompts {
    fn schema() -> RefOr<Schema> {
        let list = |of: RefOr<Schema>| RefOr::T(ArrayBuilder::new().items(of).into());
        let forms = [
            String::schema(),
            list(String::schema()),
            list(u32::schema()),
            list(list(u32::schema())),
        ];
        let mut any = AnyOf::new();
        any.items = forms.into();
        RefOr::T(any.into())
    }
}

impl ToSchema for Prompts {}

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
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
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
    #[schema(value_type = Option<ChatUsage>)]
    pub usage: Option<Option<ChatUsage>>,
    #[schema(required)]
    pub system_fingerprint: Option<String>,
}

/// One of the answers to a request, or what is new of it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CompletionChoice {
    pub index: usize,
    pub text: String,
    #[schema(required)]
    pub logprobs: Option<CompletionLogprobs>,
    #[schema(required)]
    pub finish_reason: Option<&'static str>,
}

/// Log probabilities of a text's tokens, one list element for each token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
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
