//! `POST /v1/chat/completions`: the request, the completion and the chunks of a stream.
//!
//! As in `request`, every field is optional, so that `null` means absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::request::{ContentPart, TextOrList};

/// The request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatRequest {
    pub model: Option<String>,
    pub messages: Option<Vec<ChatMessage>>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    pub n: Option<i64>,

    pub max_completion_tokens: Option<i64>,
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
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<i64>,

    pub tools: Option<Vec<IgnoredAny>>,
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    pub functions: Option<Vec<IgnoredAny>>,
    pub function_call: Option<Value>,
    pub response_format: Option<ResponseFormat>,
    pub reasoning_effort: Option<IgnoredAny>,
    pub chat_template_kwargs: Option<IgnoredAny>,
    pub verbosity: Option<String>,
    pub modalities: Option<Vec<String>>,
    pub audio: Option<IgnoredAny>,
    pub prediction: Option<IgnoredAny>,
    pub web_search_options: Option<IgnoredAny>,

    pub store: Option<bool>,
    pub metadata: Option<Map<String, Value>>,
    pub user: Option<String>,
    pub safety_identifier: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub prompt_cache_retention: Option<String>,
    pub service_tier: Option<String>,
}

/// `stream_options` of a request.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct StreamOptions {
    pub include_usage: Option<bool>,
    pub include_obfuscation: Option<bool>,
}

/// `response_format` of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ResponseFormat {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// One element of `messages`. Which of the fields belong together, `role` says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(expecting = "an object")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatMessage {
    pub role: Option<String>,
    pub content: Option<TextOrList<ContentPart>>,
    pub refusal: Option<String>,
    pub tool_calls: Option<Vec<IgnoredAny>>,
    pub function_call: Option<IgnoredAny>,
}

/// An answer that is whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub system_fingerprint: Option<String>,
}

/// One of the answers to a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatChoice {
    pub index: usize,
    pub message: AssistantMessage,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: &'static str,
}

/// How likely the tokens of a message were.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatLogprobs {
    pub content: Vec<ChatTokenLogprob>,
    pub refusal: Option<()>,
}

/// How likely a token was, and the likeliest in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatTokenLogprob {
    pub token: String,
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
    pub top_logprobs: Vec<ChatTopLogprob>,
}

/// How likely a token was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChatTopLogprob {
    pub token: String,
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
}

/// What the model says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct AssistantMessage {
    pub role: &'static str,
    pub content: String,
    pub refusal: Option<String>,
    pub annotations: [(); 0],
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub usage: Option<Option<ChatUsage>>,
    pub service_tier: &'static str,
    pub system_fingerprint: Option<String>,
}

/// What is new of one answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ChunkChoice {
    pub index: usize,
    pub delta: Delta,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<&'static str>,
}

/// What is added to a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Token counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct PromptTokensDetails {
    pub cached_tokens: u64,
    pub audio_tokens: u64,
}

/// Token counts of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
