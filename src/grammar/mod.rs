//! Structured output: grammars that restrict the next token.
//!
//! A [`GrammarSpec`] describes a grammar: a JSON schema, a Lark grammar, a regular expression, or
//! tool calls between fixed texts. [`GrammarCompiler`] compiles it for one model's tokens (with
//! llguidance) and returns a [`Constraint`](crate::sampling::Constraint) for each answer.

mod builder;
mod compiled;
mod compiler;
mod constraint;
mod error;
mod json;
mod lark;
mod spec;
mod tagged;
#[cfg(test)]
mod tests;
mod text;
mod token_index;
mod token_trie;

pub use compiler::GrammarCompiler;
pub use constraint::triggered::{StructuralTags, Trigger};
pub use error::GrammarError;
pub use json::schema::{FORMATS, SCHEMA_BYTES_MAX};
pub use spec::{Call, GrammarSpec, Shape, StartAt, ToolCallGrammar, ValueGrammar};
pub use tagged::Tagged;
pub use text::TextGrammar;
