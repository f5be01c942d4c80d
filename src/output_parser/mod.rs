//! Output parsers: read tool calls and reasoning from a model's text, one file for each family.
//!
//! docs/tool-calls.md lists the families, and the handling of malformed calls.

mod bare_json;
mod family;
mod marker_parser;
pub mod plain;
mod reasoning;
mod spec;
pub mod stop;
mod syntax;
#[cfg(test)]
pub(crate) mod tests;

pub use bare_json::{FENCE, LENIENT_OPENINGS};
pub use family::{ArgumentTags, CallTemplate, Family, Texts};
pub use plain::Plain;
pub use reasoning::ReasoningMarkers;
pub use spec::{ParserOptions, ParserSpec};
pub use stop::StopStrings;
pub(crate) use syntax::values::Kinds;

use crate::conversation::OutputDelta;

/// Reads the pieces of an answer from the model's text, as the text comes.
pub trait OutputParser: Send {
    /// Takes more text and adds the pieces that are certain by now.
    fn push(&mut self, text: &str, pieces: &mut Vec<OutputDelta>);

    /// Adds what was held back; there is no more text.
    fn finish(&mut self, pieces: &mut Vec<OutputDelta>);

    /// True if the next text is reasoning.
    fn in_reasoning(&self) -> bool {
        false
    }
}
