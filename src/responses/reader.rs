//! The tokens of an answer → its pieces.

use crate::{
    conversation::{Piece, Turn},
    dialect::{Dialect, Plain, StopTexts},
    id::TokenId,
    tokenizer::{Detokenizer, Tokenizer},
};

/// Reads an answer as it is generated.
pub(super) struct Reader {
    detokenizer: Detokenizer,
    stops: StopTexts,
    dialect: Box<dyn Dialect>,
}

/// What a token brought.
pub(super) struct Read {
    pub(super) pieces: Vec<Piece>,
    /// Whether a stop text ends the answer.
    pub(super) stopped: bool,
}

impl Reader {
    /// Reads the answer to a turn.
    pub(super) fn new(tokenizer: &Tokenizer, turn: &Turn) -> Self {
        let stops = turn.stop.clone();
        Self {
            detokenizer: match turn.raw {
                Some(_) => tokenizer.detokenizer().continuing(),
                None => tokenizer.detokenizer(),
            },
            stops: StopTexts::new(stops),
            dialect: Box::new(Plain),
        }
    }

    pub(super) fn token(&mut self, token: TokenId) -> Read {
        let text = self.detokenizer.push(token);
        self.text(&text)
    }

    /// What was held back. A character that the model itself left unfinished becomes U+FFFD; one
    /// that a limit cut is left out.
    pub(super) fn finish(&mut self, ended_by_model: bool) -> Vec<Piece> {
        let rest = match ended_by_model {
            true => self.detokenizer.finish(),
            false => String::new(),
        };
        let Read {
            mut pieces,
            stopped,
        } = self.text(&rest);
        if !stopped {
            self.dialect.push(self.stops.finish(), &mut pieces);
        }
        self.dialect.finish(&mut pieces);
        pieces
    }

    fn text(&mut self, text: &str) -> Read {
        let watched = self.stops.push(text);
        let mut pieces = Vec::new();
        self.dialect.push(watched.text, &mut pieces);
        Read {
            pieces,
            stopped: watched.stopped,
        }
    }
}
