//! `POST /v1/chat/completions`: the request, the completion and the chunks of a stream.
//!
//! As in `request`, every field is optional, so that `null` means absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    request::{ContentPart, TextFormat, TextOrList},
    response::ToolChoice,
    tool::ToolDeclaration,
    values,
};

/// The request.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct ChatRequest {
    /// An id of `/v1/models`; may be absent when one model is loaded.
    pub model: Option<String>,
    /// The conversation.
    #[schema(value_type = Vec<ChatMessage>, min_items = 1)]
    pub messages: Option<Vec<ChatMessage>>,
    /// True if the answer comes as server-sent events, with `data: [DONE]` at their end.
    #[schema(default = false)]
    pub stream: Option<bool>,
    /// Of a stream only.
    pub stream_options: Option<StreamOptions>,
    /// Number of choices.
    #[schema(minimum = 1, maximum = 16, default = 1)]
    pub n: Option<i64>,

    /// Most tokens of each answer; by default what the context holds, or the server's `--max-tokens`.
    #[schema(minimum = 1)]
    pub max_completion_tokens: Option<i64>,
    /// The same, where `max_completion_tokens` is absent.
    #[schema(minimum = 1)]
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
    /// True if the choices tell how likely their tokens were.
    #[schema(default = false)]
    pub logprobs: Option<bool>,
    /// Number of top log probabilities for each token; needs `logprobs`.
    #[schema(minimum = 0, maximum = 20)]
    pub top_logprobs: Option<i64>,

    /// Tools, in the layout of either API.
    pub tools: Option<Vec<ToolDeclaration>>,
    /// Tool choice.
    #[schema(value_type = Option<ToolChoice>)]
    pub tool_choice: Option<Value>,
    /// True if the answer may hold several calls.
    pub parallel_tool_calls: Option<bool>,
    /// Extension: most calls of the answer.
    #[schema(minimum = 1)]
    pub max_tool_calls: Option<i64>,
    /// Empty only.
    #[schema(value_type = Option<Vec<Object>>, max_items = 0)]
    pub functions: Option<Vec<IgnoredAny>>,
    /// Not supported.
    #[schema(ignore)]
    pub function_call: Option<Value>,
    /// The form of the answer; see the guide for which schemas can be enforced.
    pub response_format: Option<TextFormat>,
    /// Reasoning effort.
    pub reasoning_effort: Option<String>,
    /// Extension: further variables for the chat template.
    #[schema(value_type = Option<Object>)]
    pub chat_template_kwargs: Option<Map<String, Value>>,
    /// No effect.
    #[schema(value_type = Option<values::Verbosity>)]
    pub verbosity: Option<String>,
    /// Text only.
    #[schema(value_type = Option<Vec<values::Modality>>)]
    pub modalities: Option<Vec<String>>,
    /// Not supported.
    #[schema(ignore)]
    pub audio: Option<IgnoredAny>,
    /// Not supported.
    #[schema(ignore)]
    pub prediction: Option<IgnoredAny>,
    /// Not supported.
    #[schema(ignore)]
    pub web_search_options: Option<IgnoredAny>,

    /// No effect: completions cannot be retrieved.
    pub store: Option<bool>,
    /// At most 16 pairs, keys up to 64 characters, values up to 512; no effect.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub metadata: Option<Map<String, Value>>,
    /// No effect.
    pub user: Option<String>,
    /// No effect.
    pub safety_identifier: Option<String>,
    /// Groups requests whose prefix cache entries are evicted together.
    pub prompt_cache_key: Option<String>,
    /// `24h` keeps what the model has read of this on disk for a day, even if it is not stored.
    pub prompt_cache_retention: Option<String>,
    /// No effect.
    pub service_tier: Option<String>,
}

/// `stream_options` of a request.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct StreamOptions {
    /// True if a last chunk tells token counts.
    #[schema(default = false)]
    pub include_usage: Option<bool>,
    /// No effect.
    pub include_obfuscation: Option<bool>,
}

/// One element of `messages`. Which of the fields belong together, `role` says.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct ChatMessage {
    /// Author of the message. `developer` is the same as `system`.
    #[schema(value_type = values::ChatRole)]
    pub role: Option<String>,
    /// Content of the message.
    pub content: Option<TextOrList<ContentPart>>,
    /// Of an assistant without content: what it said instead.
    pub refusal: Option<String>,
    /// Reasoning of an assistant message.
    pub reasoning_content: Option<String>,
    /// The same under another name.
    pub reasoning: Option<String>,
    /// Of an assistant: what it called.
    pub tool_calls: Option<Vec<ChatToolCall>>,
    /// Of a tool: the call that this answers.
    pub tool_call_id: Option<String>,
    /// Not supported.
    #[schema(ignore)]
    pub function_call: Option<IgnoredAny>,
}

/// One element of a message's `tool_calls`. Which of the fields is there, `type` says.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatToolCall {
    pub id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub function: Option<CalledFunction>,
    pub custom: Option<CalledCustom>,
}

/// `function` of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CalledFunction {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub arguments: Option<String>,
}

/// `custom` of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CalledCustom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub input: Option<String>,
}

/// An answer that is whole.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatCompletion {
    pub id: String,
    pub object: &'static str,
    pub created: i64,
    pub model: String,
    pub choices: Vec<ChatChoice>,
    pub usage: ChatUsage,
    pub service_tier: &'static str,
    #[schema(required)]
    pub system_fingerprint: Option<String>,
}

/// One of the answers to a request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatChoice {
    pub index: usize,
    pub message: AssistantMessage,
    #[schema(required)]
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: &'static str,
}

/// Log probabilities of a message's tokens.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatLogprobs {
    pub content: Vec<ChatTokenLogprob>,
    #[schema(value_type = Option<Object>, required)]
    pub refusal: Option<()>,
}

/// Log probability of a token, and the top ones at its position.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatTokenLogprob {
    pub token: String,
    #[schema(value_type = Option<Vec<i32>>, required)]
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
    pub top_logprobs: Vec<ChatTopLogprob>,
}

/// Log probability of a token.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatTopLogprob {
    pub token: String,
    #[schema(value_type = Option<Vec<i32>>, required)]
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
}

/// The assistant's message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct AssistantMessage {
    pub role: &'static str,
    #[schema(required)]
    pub content: Option<String>,
    #[schema(required)]
    pub refusal: Option<String>,
    #[schema(value_type = Vec<Object>)]
    pub annotations: [(); 0],
    #[serde(flatten)]
    pub reasoning: ReasoningText,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// Reasoning text, under two names that clients know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the fields are documented in docs/api.md")]
// The schema's name in /openapi.json is part of the contract.
#[schema(as = Thoughts)]
pub struct ReasoningText {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// A call, or in a stream what is new of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ToolCall {
    /// In a stream only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<CalledFunction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<CalledCustom>,
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatChunk {
    pub id: String,
    pub object: &'static str,
    pub created: i64,
    pub model: String,
    pub choices: Vec<ChunkChoice>,
    /// There, and `null` but in the last chunk, only if the request asks for usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ChatUsage>)]
    pub usage: Option<Option<ChatUsage>>,
    pub service_tier: &'static str,
    #[schema(required)]
    pub system_fingerprint: Option<String>,
}

/// Delta of one choice.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChunkChoice {
    pub index: usize,
    pub delta: Delta,
    #[schema(required)]
    pub logprobs: Option<ChatLogprobs>,
    #[schema(required)]
    pub finish_reason: Option<&'static str>,
}

/// Delta of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(flatten)]
    pub reasoning: ReasoningText,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// Token counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    pub prompt_tokens_details: PromptTokensDetails,
    pub completion_tokens_details: CompletionTokensDetails,
}

/// Token counts of a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct PromptTokensDetails {
    pub cached_tokens: u64,
    pub audio_tokens: u64,
}

/// Token counts of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct CompletionTokensDetails {
    pub reasoning_tokens: u64,
    pub audio_tokens: u64,
    pub accepted_prediction_tokens: u64,
    pub rejected_prediction_tokens: u64,
}
