//! What an answer must look like → which tokens may come next.
//!
//! A [`Spec`] describes it: a JSON schema, a grammar, a regular expression, or calls of tools between
//! fixed texts. [`Grammars`] compiles it for one model's tokens (llguidance does the work) and gives a
//! [`Constraint`](crate::sampling::Constraint) for each answer.

mod closing;
mod compile;
mod error;
mod lark;
mod matching;
mod quoted;
mod regular;
mod rules;
mod schema;
mod spec;
mod spellings;
mod standing;
mod tagged;
#[cfg(test)]
mod tests;
mod vocabulary;
mod watching;
mod workers;

pub use compile::Grammars;
pub use error::GrammarError;
pub use schema::{FORMATS, SCHEMA_BYTES_MAX};
pub use spec::{Call, Calls, Form, Shape, Spec, Start, TextForm};
pub use tagged::Tagged;
pub use watching::{Begin, Watch};
