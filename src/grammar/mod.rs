//! What an answer must look like → which tokens may come next.
//!
//! A [`Spec`] describes it: a JSON schema, a grammar, a regular expression, or calls of tools between
//! fixed texts. [`Grammars`] compiles it for one model's tokens (llguidance does the work) and gives a
//! [`Constraint`](crate::sampling::Constraint) for each answer.

mod builder;
mod compiler;
mod constraint;
mod error;
mod json;
mod lark;
mod spec;
mod tagged;
#[cfg(test)]
mod tests;
mod token_index;
mod token_trie;

pub use compiler::GrammarCompiler;
pub use constraint::triggered::{StructuralTags, Trigger};
pub use error::GrammarError;
pub use json::schema::{FORMATS, SCHEMA_BYTES_MAX};
pub use spec::{Call, GrammarSpec, Shape, StartAt, TextGrammar, ToolCallGrammar, ValueGrammar};
pub use tagged::Tagged;
