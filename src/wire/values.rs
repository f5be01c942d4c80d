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

/// What an item of `input` is.
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

/// What a part of a message is.
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

/// What happens to a conversation that does not fit the context.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Truncation {
    /// It is refused.
    Disabled,
    /// Its oldest turns are left out.
    Auto,
}

/// How much is said.
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

/// What is told beside the answer.
#[derive(ToSchema)]
pub enum Include {
    /// How likely the tokens were.
    #[schema(rename = "message.output_text.logprobs")]
    Logprobs,
    /// There is none to tell.
    #[schema(rename = "reasoning.encrypted_content")]
    EncryptedReasoning,
}

/// What a tool is.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum ToolType {
    Function,
    Namespace,
    Custom,
}

/// What the input of a custom tool looks like.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum ToolFormatType {
    Text,
    Grammar,
}

/// How a grammar is written.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum GrammarSyntax {
    Lark,
    Regex,
}

/// What an answer is made of.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the values are OpenAI's")]
pub enum Modality {
    Text,
}

/// How far a response has come.
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

/// Which part of a list is asked for.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Most entries.
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub limit: Option<u8>,
    /// Whether the newest or the oldest entry comes first.
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
