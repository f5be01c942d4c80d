//! What a model may call.

use serde_json::{Map, Value};

/// A function that the client runs on the model's behalf.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTool {
    /// Name by which the model calls it.
    pub name: String,
    /// What it does, in words for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments, with the client's key order kept.
    pub parameters: Option<Map<String, Value>>,
    /// Whether arguments must match the schema exactly.
    pub strict: Option<bool>,
}
