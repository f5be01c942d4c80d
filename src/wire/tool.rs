//! Tools as a request declares them, in the forms of both APIs.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::values;

/// One element of `tools`. Which of the fields belong together, `type` says; chat nests them.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestTool)]
pub struct ToolDeclaration {
    /// Type of the tool; other types are refused, or left out if the server is configured so.
    #[serde(rename = "type")]
    #[schema(value_type = values::ToolType)]
    pub kind: Option<String>,
    /// By which the model calls it: at most 128 letters, digits, `_`, `-`, `.`, `:` and `/`.
    pub name: Option<String>,
    /// Description for the model.
    pub description: Option<String>,
    /// Of a function: the JSON Schema of its arguments.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Map<String, Value>>,
    /// Of a function: whether its arguments must match the schema.
    pub strict: Option<bool>,
    /// Of a custom tool: what its input looks like.
    pub format: Option<ToolFormat>,
    /// Of a function, in the form of chat completions.
    pub function: Option<ToolFields>,
    /// Of a custom tool, in the form of chat completions.
    pub custom: Option<ToolFields>,
    /// Of a namespace: its functions.
    #[schema(no_recursion)]
    pub tools: Option<Vec<ToolDeclaration>>,
}

/// Fields of a tool within `function` or `custom`, as chat completions have them.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestToolFields)]
pub struct ToolFields {
    /// By which the model calls it.
    pub name: Option<String>,
    /// Description for the model.
    pub description: Option<String>,
    /// Of a function: the JSON Schema of its arguments.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Map<String, Value>>,
    /// Of a function: whether its arguments must match the schema.
    pub strict: Option<bool>,
    /// Of a custom tool: what its input looks like.
    pub format: Option<ToolFormat>,
}

/// `format` of a custom tool; chat nests what belongs to a grammar.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestToolFormat)]
pub struct ToolFormat {
    /// Like anything, or like a grammar says.
    #[serde(rename = "type")]
    #[schema(value_type = values::ToolFormatType)]
    pub kind: Option<String>,
    /// Syntax of the grammar.
    #[schema(value_type = Option<values::GrammarSyntax>)]
    pub syntax: Option<String>,
    /// The grammar.
    pub definition: Option<String>,
    /// The grammar in the form of chat completions.
    pub grammar: Option<Grammar>,
}

/// `grammar` of a custom tool's `format` in chat.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
#[schema(as = RequestGrammar)]
pub struct Grammar {
    /// Syntax of the grammar.
    #[schema(value_type = Option<values::GrammarSyntax>)]
    pub syntax: Option<String>,
    /// The grammar.
    pub definition: Option<String>,
}
