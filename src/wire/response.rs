//! The response object and what it is made of. All keys are always there.

use serde::Serialize;
use serde_json::{Map, Value};

/// The response object of the Responses API.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct Response {
    pub id: String,
    pub object: &'static str,
    pub created_at: i64,
    pub completed_at: Option<i64>,
    pub status: &'static str,
    pub error: Option<ResponseError>,
    pub incomplete_details: Option<IncompleteDetails>,
    pub model: String,
    pub instructions: Option<String>,
    pub previous_response_id: Option<String>,
    pub output: Vec<OutputItem>,
    pub output_text: String,
    pub tools: Vec<FunctionTool>,
    pub tool_choice: &'static str,
    pub parallel_tool_calls: bool,
    pub max_tool_calls: Option<u64>,
    pub truncation: &'static str,
    pub text: TextConfig,
    pub reasoning: ReasoningConfig,
    pub temperature: f64,
    pub top_p: f64,
    pub presence_penalty: f64,
    pub frequency_penalty: f64,
    pub top_logprobs: u8,
    pub max_output_tokens: Option<u64>,
    pub store: bool,
    pub background: bool,
    pub service_tier: &'static str,
    pub metadata: Map<String, Value>,
    pub safety_identifier: Option<String>,
    pub prompt_cache_key: Option<String>,
    pub user: Option<String>,
    pub usage: Option<Usage>,
}

/// Why a response failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ResponseError {
    pub code: &'static str,
    pub message: String,
}

/// Why a response is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct IncompleteDetails {
    pub reason: &'static str,
}

/// A function that was offered to the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct FunctionTool {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub name: String,
    pub description: Option<String>,
    pub parameters: Option<Map<String, Value>>,
    pub strict: Option<bool>,
}

/// The form the answer was asked in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TextConfig {
    pub format: TextFormat,
    pub verbosity: Option<&'static str>,
}

/// `text.format`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TextFormat {
    #[serde(rename = "type")]
    pub kind: &'static str,
}

/// How much thinking was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ReasoningConfig {
    pub effort: Option<String>,
    pub summary: Option<String>,
}

/// One item of `output`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum OutputItem {
    Message {
        id: String,
        status: &'static str,
        role: &'static str,
        content: Vec<OutputPart>,
    },
    Reasoning {
        id: String,
        status: &'static str,
        summary: [(); 0],
        content: Vec<OutputPart>,
    },
    FunctionCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: String,
        arguments: String,
    },
}

/// How likely a token was, and the likeliest in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TokenLogprob {
    pub token: String,
    /// Left out of the events of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
    pub top_logprobs: Vec<TopLogprob>,
}

/// How likely a token was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TopLogprob {
    pub token: String,
    /// Left out of the events of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
}

/// One part of an output item's `content`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum OutputPart {
    OutputText {
        text: String,
        annotations: [(); 0],
        logprobs: Vec<TokenLogprob>,
    },
    ReasoningText {
        text: String,
    },
}

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct Usage {
    pub input_tokens: u64,
    pub input_tokens_details: InputTokensDetails,
    pub output_tokens: u64,
    pub output_tokens_details: OutputTokensDetails,
    pub total_tokens: u64,
}

/// What became of the prompt's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct InputTokensDetails {
    pub cached_tokens: u64,
    pub cache_write_tokens: u64,
}

/// What the answer's tokens were spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct OutputTokensDetails {
    pub reasoning_tokens: u64,
}

/// The answer to `POST /v1/responses/input_tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct InputTokens {
    pub object: &'static str,
    pub input_tokens: usize,
}
