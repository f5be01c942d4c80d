//! The values that some texts may have, for `/openapi.json` alone: requests are read as texts, so that
//! a refusal can repeat what was sent.

use utoipa::{IntoParams, ToSchema};

/// Of a message: who says it.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum Role {
    User,
    Assistant,
    System,
    Developer,
}

/// Of a chat message: who says it.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum ChatRole {
    User,
    Assistant,
    System,
    Developer,
    Tool,
}

/// Types of input items.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum InputItemType {
    Message,
    FunctionCall,
    FunctionCallOutput,
    CustomToolCall,
    CustomToolCallOutput,
    Reasoning,
}

/// Types of content parts.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum PartType {
    InputText,
    OutputText,
    Text,
    Refusal,
    ReasoningText,
    SummaryText,
}

/// Handling of a conversation that exceeds the context.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Truncation {
    /// It is refused.
    Disabled,
    /// Its oldest turns are left out.
    Auto,
}

/// Verbosity of an answer.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum Verbosity {
    Low,
    Medium,
    High,
}

/// The form of an answer.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum TextFormatType {
    Text,
    JsonObject,
    JsonSchema,
}

/// Additional output.
#[derive(ToSchema)]
pub enum Include {
    /// Log probabilities of the tokens.
    #[schema(rename = "message.output_text.logprobs")]
    Logprobs,
    /// Accepted without effect: the server has none.
    #[schema(rename = "reasoning.encrypted_content")]
    EncryptedReasoning,
}

/// Types of tools.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum ToolType {
    Function,
    Namespace,
    Custom,
}

/// Formats of a custom tool's input.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum ToolFormatType {
    Text,
    Grammar,
}

/// Syntaxes of a grammar.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum GrammarSyntax {
    Lark,
    Regex,
}

/// Output modalities.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum Modality {
    Text,
}

/// Statuses of a response.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case", as = ResponseStatus)]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum Status {
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

/// The requested part of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Most entries.
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub limit: Option<u8>,
    /// Order of the entries: newest or oldest first.
    #[param(inline, default = "desc")]
    pub order: Option<Order>,
    /// The id of the entry before the first wanted one.
    pub after: Option<String>,
}

/// The order of a list.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Order {
    /// The oldest entry comes first.
    Asc,
    /// The newest entry comes first.
    Desc,
}
