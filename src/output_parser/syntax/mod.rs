//! Shared parts of several call formats.

pub(crate) mod json;
pub(crate) mod marker;
pub(crate) mod name_then_json;
pub(crate) mod object;
pub(crate) mod objects;
pub(crate) mod pending_text;
pub(crate) mod python_literal;
pub(crate) mod pythonic;
pub(crate) mod tools;
pub(crate) mod values;
pub(crate) mod xml_arguments;

use crate::conversation::OutputDelta;
use pending_text::PendingText;
use tools::Tools;

/// Progress of parsing calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// More text is needed.
    More,
    /// There are no more calls here; what follows is text again.
    Done,
    /// No call: the unsettled text and all that follows is text.
    Broken,
}

/// Reads calls, from behind the marker that begins them.
pub(crate) trait CallParser: Send {
    /// Reads as much as it can. After [`Step::More`], the unread rest must be read together with
    /// what follows.
    fn read(
        &mut self,
        held: &mut PendingText,
        tools: &Tools,
        pieces: &mut Vec<OutputDelta>,
    ) -> Step;

    /// The text has ended. What is left and not settled will be text.
    fn finish(&mut self, _held: &mut PendingText, _tools: &Tools, _pieces: &mut Vec<OutputDelta>) {}

    /// True if this rest, which is not empty, begins a marker behind a call and so is no text.
    fn is_markup(&self, _rest: &str) -> bool {
        false
    }
}
