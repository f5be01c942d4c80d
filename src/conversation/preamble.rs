//! The preamble of a conversation's prompt.

use serde_json::{Map, Value};

use super::FunctionTool;

/// The preamble: instructions, tools and template arguments. A continuation with another preamble
/// cannot fork its parent's tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preamble {
    /// Text of the leading system message of this request.
    pub instructions: Option<String>,
    /// The functions shown to the model, under the names by which it calls them.
    pub tools: Vec<FunctionTool>,
    /// The instruction to call, if a call is forced. It stands at the end of the first system
    /// message, else of the last user message.
    pub tool_instruction: Option<String>,
    /// Extra variables for the chat template, such as `enable_thinking`.
    pub template_args: Map<String, Value>,
}
