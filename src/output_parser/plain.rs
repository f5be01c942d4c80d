//! Models that only talk: all text is for the user.

use super::OutputParser;
use crate::conversation::OutputDelta;

/// Takes all text for the message.
#[derive(Debug, Default)]
pub struct Plain;

impl OutputParser for Plain {
    fn push(&mut self, text: &str, pieces: &mut Vec<OutputDelta>) {
        if !text.is_empty() {
            pieces.push(OutputDelta::Text(text.to_owned()));
        }
    }

    fn finish(&mut self, _pieces: &mut Vec<OutputDelta>) {}
}
