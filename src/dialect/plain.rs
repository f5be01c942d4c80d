//! Models that only talk: all text is for the user.

use super::Dialect;
use crate::conversation::Piece;

/// Takes all text for the message.
#[derive(Debug, Default)]
pub struct Plain;

impl Dialect for Plain {
    fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
    }

    fn finish(&mut self, _pieces: &mut Vec<Piece>) {}
}
