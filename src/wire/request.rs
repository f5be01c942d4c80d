//! The request of `POST /v1/responses`.
//!
//! Every field is optional, so that `null` means absent. What must be there, and which values make
//! sense, is checked where the request is translated.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny, value},
};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{response::ToolChoice, tool::ToolDeclaration, values};

/// The request of `POST /v1/responses`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct CreateRequest {
    /// An id of `/v1/models`. May be absent when one model is loaded, or with
    /// `previous_response_id`, which then decides.
    pub model: Option<String>,
    /// A message of the user, or items.
    pub input: Option<TextOrList<InputItem>>,
    /// A system message that leads this request; not inherited by what continues it.
    pub instructions: Option<String>,
    /// True if the answer comes as server-sent events.
    #[schema(default = false)]
    pub stream: Option<bool>,
    /// No effect.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<Map<String, Value>>,
    /// True if the response can be read and continued later.
    #[schema(default = true)]
    pub store: Option<bool>,
    /// At most 16 pairs, keys up to 64 characters, values up to 512; shown again.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub metadata: Option<Map<String, Value>>,

    /// Most tokens of the answer; by default what the context holds, or the server's `--max-tokens`.
    #[schema(minimum = 1)]
    pub max_output_tokens: Option<i64>,
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
    /// Extension of the Responses API: token id → what is added to its logit, -100 to 100.
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// With the same seed, prompt and settings a model draws the same.
    pub seed: Option<i64>,
    /// Texts that end the answer and do not appear in it: one, or up to 4 of at most 256 characters.
    pub stop: Option<TextOrList<String>>,
    /// Extension: the model's own end tokens do not end the answer.
    pub ignore_eos: Option<bool>,
    /// Number of top log probabilities for each token; no effect without
    /// `message.output_text.logprobs` in `include`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<i64>,

    /// Tools that the model may call.
    pub tools: Option<Vec<ToolDeclaration>>,
    /// Tool choice.
    #[schema(value_type = Option<ToolChoice>)]
    pub tool_choice: Option<Value>,
    /// True if the answer may hold several calls.
    #[schema(default = true)]
    pub parallel_tool_calls: Option<bool>,
    /// Most calls of the answer.
    #[schema(minimum = 1)]
    pub max_tool_calls: Option<i64>,
    /// The form of the answer.
    pub text: Option<TextConfig>,
    /// `summary` is accepted and has no effect.
    pub reasoning: Option<ReasoningConfig>,
    /// More to be told.
    #[schema(value_type = Option<Vec<values::Include>>)]
    pub include: Option<Vec<String>>,
    /// Handling of a conversation that exceeds the context.
    #[schema(value_type = Option<values::Truncation>)]
    pub truncation: Option<String>,

    /// `false` only.
    #[schema(default = false)]
    pub background: Option<bool>,
    /// Not supported.
    #[schema(ignore)]
    pub conversation: Option<IgnoredAny>,
    /// The stored response whose conversation goes before `input`.
    pub previous_response_id: Option<String>,
    /// Not supported.
    #[schema(ignore)]
    pub prompt: Option<IgnoredAny>,
    /// Extension: further variables for the chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<Map<String, Value>>,

    /// Shown again, no effect.
    pub user: Option<String>,
    /// Shown again, no effect.
    pub safety_identifier: Option<String>,
    /// Groups requests whose prefix cache entries are evicted together; echoed.
    pub prompt_cache_key: Option<String>,
    /// `24h` keeps what the model has read of this on disk for a day, even if it is not stored.
    pub prompt_cache_retention: Option<String>,
    /// No effect; the response says `default`.
    pub service_tier: Option<String>,
    /// No effect.
    #[schema(value_type = Option<Object>)]
    pub client_metadata: Option<Map<String, Value>>,
}

/// `text` of a request.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestText)]
pub struct TextConfig {
    /// The form of the answer.
    pub format: Option<TextFormat>,
    /// Shown again, no effect.
    #[schema(value_type = Option<values::Verbosity>)]
    pub verbosity: Option<String>,
}

/// `text.format` of a request, and chat's `response_format`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestTextFormat)]
pub struct TextFormat {
    /// A schema needs a name and the schema, here or in `json_schema`.
    #[serde(rename = "type")]
    #[schema(value_type = values::TextFormatType)]
    pub kind: Option<String>,
    /// Of a schema: what the client calls it.
    #[schema(max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    pub name: Option<String>,
    /// Of a schema: what it is for.
    pub description: Option<String>,
    /// The JSON Schema.
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Map<String, Value>>,
    /// Shown again; a schema is kept to in any case.
    pub strict: Option<bool>,
    /// Chat's way to write a schema; both APIs take both.
    pub json_schema: Option<JsonSchemaFormat>,
}

/// `json_schema` of a format.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestJsonSchema)]
pub struct JsonSchemaFormat {
    /// Name that the client chose.
    #[schema(value_type = String, max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    pub name: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// The JSON Schema.
    #[schema(value_type = Object)]
    pub schema: Option<Map<String, Value>>,
    /// Shown again; a schema is kept to in any case.
    pub strict: Option<bool>,
}

/// `reasoning` of a request.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestReasoning)]
pub struct ReasoningConfig {
    /// Reasoning effort.
    pub effort: Option<String>,
}

/// One element of `input`. Which of the fields belong together, `type` says.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct InputItem {
    /// Type of the item; may be left out of messages.
    #[serde(rename = "type")]
    #[schema(value_type = Option<values::InputItemType>)]
    pub kind: Option<String>,
    /// Of a message: who says it. `developer` is the same as `system`.
    #[schema(value_type = Option<values::Role>)]
    pub role: Option<String>,
    /// Content of a message or of reasoning.
    pub content: Option<TextOrList<ContentPart>>,
    /// Summary of reasoning without content.
    pub summary: Option<Vec<ContentPart>>,
    /// Of a call, or of what it gave.
    pub call_id: Option<String>,
    /// Of a call: what is called.
    pub name: Option<String>,
    /// Of a call: the namespace of what is called.
    pub namespace: Option<String>,
    /// Of a function's call: JSON text.
    #[schema(value_type = Option<String>)]
    pub arguments: Option<Value>,
    /// Of a custom tool's call.
    pub input: Option<String>,
    /// Output of a call.
    #[schema(value_type = Option<TextOrList<ContentPart>>)]
    pub output: Option<Value>,
}

/// One element of an item's `content`. Which of the fields belong together, `type` says.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct ContentPart {
    /// Type of the part.
    #[serde(rename = "type")]
    #[schema(value_type = values::PartType)]
    pub kind: Option<String>,
    /// Of a text.
    pub text: Option<String>,
    /// Of a refusal.
    pub refusal: Option<String>,
    /// Of an image, which no model takes.
    #[schema(ignore)]
    pub image_url: Option<Value>,
    /// Of an image, which no model takes.
    #[schema(ignore)]
    pub file_id: Option<String>,
}

/// A string, or an array in its place.
///
/// Read by hand because serde's untagged enums lose the path to what is wrong inside.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(description = "A string, or an array in its place.")]
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
