//! What leads the prompt of a conversation.

use serde_json::{Map, Value};

use super::FunctionTool;

/// What leads the prompt: a continuation with another head cannot reuse its parent's tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preamble {
    /// Text of the leading system message of this request.
    pub instructions: Option<String>,
    /// The functions shown to the model, under the names by which it calls them.
    pub tools: Vec<FunctionTool>,
    /// What the model is told about calling, where it must call: stands at the end of the first system
    /// message, else of the last one of the user.
    pub tool_instruction: Option<String>,
    /// Extra variables for the chat template, such as `enable_thinking`.
    pub template_args: Map<String, Value>,
}
