//! What leads the prompt of a conversation.

use serde_json::{Map, Value};

use super::FunctionTool;

/// What leads the prompt: a continuation with another head cannot reuse its parent's tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Head {
    /// Text of the leading system message of this request.
    pub instructions: Option<String>,
    /// The functions offered to the model.
    pub tools: Vec<FunctionTool>,
    /// Extra variables for the chat template, such as `enable_thinking`.
    pub template_args: Map<String, Value>,
}
