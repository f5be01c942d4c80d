//! How model families write tool calls and reasoning in their text, one file per family.

pub mod plain;
pub mod stop;

pub use plain::Plain;
pub use stop::StopTexts;

use crate::conversation::Piece;

/// Reads the pieces of an answer from the model's text, as the text comes.
pub trait Dialect: Send {
    /// Takes more text and adds the pieces that are certain by now.
    fn push(&mut self, text: String, pieces: &mut Vec<Piece>);

    /// Adds what was held back; there is no more text.
    fn finish(&mut self, pieces: &mut Vec<Piece>);
}
