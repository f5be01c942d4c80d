//! Text to token ids and back.

mod source;

pub use source::{GgufVocabulary, TokenizerSource};

/// A stretch of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPiece {
    /// Written by the template: spellings of control tokens mean those tokens.
    Markup(String),
    /// Came from a user's value: to be tokenised as plain text, whatever it spells.
    Literal(String),
}
