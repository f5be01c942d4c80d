//! The request of `POST /v1/responses`.
//!
//! Every field is optional, so that `null` means absent. What must be there, and which values make
//! sense, is checked where the request is translated.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, value},
};
use serde_json::{Map, Value};

/// The request of `POST /v1/responses`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CreateRequest {
    pub model: Option<String>,
    pub input: Option<TextOrList<InputItem>>,
    pub instructions: Option<String>,
    pub stream: Option<bool>,
    pub stream_options: Option<Map<String, Value>>,
    pub store: Option<bool>,
    pub metadata: Option<Map<String, Value>>,

    pub max_output_tokens: Option<i64>,
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
    pub top_logprobs: Option<i64>,

    pub tools: Option<Vec<IgnoredAny>>,
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    pub max_tool_calls: Option<i64>,
    pub text: Option<TextConfig>,
    pub reasoning: Option<ReasoningConfig>,
    pub include: Option<Vec<String>>,
    pub truncation: Option<String>,

    pub background: Option<bool>,
    pub conversation: Option<IgnoredAny>,
    pub previous_response_id: Option<String>,
    pub prompt: Option<IgnoredAny>,
    pub chat_template_kwargs: Option<IgnoredAny>,

    pub user: Option<String>,
    pub safety_identifier: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub prompt_cache_retention: Option<String>,
    pub service_tier: Option<String>,
    pub client_metadata: Option<Map<String, Value>>,
}

/// `text` of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TextConfig {
    pub format: Option<TextFormat>,
    pub verbosity: Option<String>,
}

/// `text.format` of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TextFormat {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// `reasoning` of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ReasoningConfig {
    pub effort: Option<IgnoredAny>,
}

/// One element of `input`. Which of the fields belong together, `type` says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct InputItem {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub role: Option<String>,
    pub content: Option<TextOrList<ContentPart>>,
}

/// One element of an item's `content`. Which of the fields belong together, `type` says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ContentPart {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub text: Option<String>,
    pub refusal: Option<String>,
}

/// A string, or an array in its place.
///
/// Written by hand because serde's untagged enums lose the path to what is wrong inside.
#[derive(Debug, Clone, PartialEq)]
pub enum TextOrList<T> {
    /// A string.
    Text(String),
    /// An array.
    List(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOrList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrListVisitor(PhantomData))
    }
}

struct TextOrListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for TextOrListVisitor<T> {
    type Value = TextOrList<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an array")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TextOrList::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(value::SeqAccessDeserializer::new(list)).map(TextOrList::List)
    }
}
