//! How model families write tool calls and reasoning in their text, one file per family.
//!
//! docs/dialects.md has a table of the families, and of what is done with text that is almost a call.

mod description;
mod family;
mod lenient;
mod marked;
pub mod plain;
pub mod stop;
mod syntax;
#[cfg(test)]
pub(crate) mod tests;
mod thinking;

pub use description::{Description, Reading};
pub use family::{ArgumentTags, Family, Texts, Wrapper};
pub use lenient::{FENCE, LENIENT_OPENINGS};
pub use plain::Plain;
pub use stop::StopTexts;
pub(crate) use syntax::values::Kinds;
pub use thinking::Thinking;

use crate::conversation::Piece;

/// Reads the pieces of an answer from the model's text, as the text comes.
pub trait Dialect: Send {
    /// Takes more text and adds the pieces that are certain by now.
    fn push(&mut self, text: &str, pieces: &mut Vec<Piece>);

    /// Adds what was held back; there is no more text.
    fn finish(&mut self, pieces: &mut Vec<Piece>);

    /// Whether the next text would be thoughts.
    fn thinks(&self) -> bool {
        false
    }
}
