//! The response object and what it is made of. All keys are always there.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::values;

/// The response object of the Responses API.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Response {
    /// Begins with `resp_`.
    pub id: String,
    /// Always `response`.
    pub object: &'static str,
    /// When it began, in seconds since 1970.
    pub created_at: i64,
    /// When it was completed, in seconds since 1970.
    #[schema(required)]
    pub completed_at: Option<i64>,
    /// Status of the response.
    #[schema(value_type = values::Status)]
    pub status: &'static str,
    /// Reason of a failure.
    #[schema(required)]
    pub error: Option<ResponseError>,
    /// Reason why the response is incomplete.
    #[schema(required)]
    pub incomplete_details: Option<IncompleteDetails>,
    /// Id of the model.
    pub model: String,
    /// The request's own.
    #[schema(required)]
    pub instructions: Option<String>,
    /// Id of the continued response.
    #[schema(required)]
    pub previous_response_id: Option<String>,
    /// The items of the answer, as they were generated.
    pub output: Vec<OutputItem>,
    /// The texts of all messages in `output`, joined.
    pub output_text: String,
    /// Declared tools.
    pub tools: Vec<Tool>,
    /// Tool choice in effect.
    pub tool_choice: ToolChoice,
    /// True if the model might call several tools at once.
    pub parallel_tool_calls: bool,
    /// Most calls.
    #[schema(required)]
    pub max_tool_calls: Option<u64>,
    /// Handling of a conversation that exceeds the context.
    pub truncation: &'static str,
    /// The form the answer was asked in.
    pub text: TextConfig,
    /// Requested reasoning.
    pub reasoning: ReasoningConfig,
    /// In effect.
    pub temperature: f64,
    /// In effect.
    pub top_p: f64,
    /// In effect.
    pub presence_penalty: f64,
    /// In effect.
    pub frequency_penalty: f64,
    /// In effect.
    pub top_logprobs: u8,
    /// As asked for.
    #[schema(required)]
    pub max_output_tokens: Option<u64>,
    /// True if it is kept.
    pub store: bool,
    /// Always `false`.
    pub background: bool,
    /// Always `default`.
    pub service_tier: &'static str,
    /// The request's own.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// The request's own.
    #[schema(required)]
    pub safety_identifier: Option<String>,
    /// The request's own.
    #[schema(required)]
    pub prompt_cache_key: Option<String>,
    /// The request's own.
    #[schema(required)]
    pub user: Option<String>,
    /// Token counts; `null` while it is in progress.
    #[schema(required)]
    pub usage: Option<Usage>,
}

/// Reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ResponseError {
    pub code: &'static str,
    pub message: String,
}

/// Reason why a response is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct IncompleteDetails {
    pub reason: &'static str,
}

/// A tool as it was declared.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum Tool {
    Function(FunctionTool),
    Namespace {
        name: String,
        description: String,
        #[schema(no_recursion)]
        tools: Vec<Tool>,
    },
    Custom {
        name: String,
        #[schema(required)]
        description: Option<String>,
        format: CustomFormat,
    },
}

/// A function as it was declared.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct FunctionTool {
    pub name: String,
    #[schema(required)]
    pub description: Option<String>,
    #[schema(value_type = Option<Object>, required)]
    pub parameters: Option<Map<String, Value>>,
    #[schema(required)]
    pub strict: Option<bool>,
}

/// `format` of a custom tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum CustomFormat {
    Text,
    Grammar {
        syntax: &'static str,
        definition: String,
    },
}

/// `auto`, `none`, `required`, the tool that must be called, or those that may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum ToolChoice {
    Word(&'static str),
    Tool(NamedTool),
    Allowed {
        #[serde(rename = "type")]
        kind: &'static str,
        mode: &'static str,
        tools: Vec<NamedTool>,
    },
}

/// A tool by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct NamedTool {
    #[serde(rename = "type")]
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

/// The form the answer was asked in.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TextConfig {
    pub format: TextFormat,
    #[schema(required)]
    pub verbosity: Option<&'static str>,
}

/// `text.format`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum TextFormat {
    Text,
    JsonObject,
    JsonSchema {
        name: String,
        #[schema(required)]
        description: Option<String>,
        #[schema(value_type = Object)]
        schema: Map<String, Value>,
        #[schema(required)]
        strict: Option<bool>,
    },
}

/// Requested reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct ReasoningConfig {
    #[schema(required)]
    pub effort: Option<String>,
    #[schema(required)]
    pub summary: Option<String>,
}

/// One item of `output`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
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
        #[schema(value_type = Vec<Object>)]
        summary: [(); 0],
        content: Vec<OutputPart>,
    },
    FunctionCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        arguments: String,
    },
    CustomToolCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: String,
        input: String,
    },
}

/// Log probability of a token, and the top ones at its position.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TokenLogprob {
    pub token: String,
    /// Left out of the events of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<i32>>)]
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
    pub top_logprobs: Vec<TopLogprob>,
}

/// Log probability of a token.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct TopLogprob {
    pub token: String,
    /// Left out of the events of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<i32>>)]
    pub bytes: Option<Vec<u8>>,
    pub logprob: f32,
}

/// One part of an output item's `content`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub enum OutputPart {
    OutputText {
        text: String,
        #[schema(value_type = Vec<Object>)]
        annotations: [(); 0],
        logprobs: Vec<TokenLogprob>,
    },
    ReasoningText {
        text: String,
    },
}

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
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

/// Details of the prompt's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct InputTokensDetails {
    pub cached_tokens: u64,
    pub cache_write_tokens: u64,
}

/// Details of the answer's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct OutputTokensDetails {
    pub reasoning_tokens: u64,
}

/// The answer to `POST /v1/responses/input_tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(
    missing_docs,
    reason = "the fields are OpenAI's and documented in docs/api.md"
)]
pub struct InputTokens {
    pub object: &'static str,
    pub input_tokens: usize,
}
