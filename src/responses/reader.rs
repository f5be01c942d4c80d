//! The tokens of an answer → its pieces.

use super::logprobs::{self, Ledger};
use crate::{
    conversation::{Piece, TokenLogprobs, Turn},
    dialect::{Dialect, Plain, StopTexts},
    engine::GeneratedToken,
    tokenizer::{Detokenizer, Tokenizer},
};

/// Reads an answer as it is generated.
pub(super) struct Reader {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    stops: StopTexts,
    dialect: Box<dyn Dialect>,
    /// There if somebody asks how likely the tokens are.
    ledger: Option<Ledger>,
}

/// What a token brought.
pub(super) struct Read {
    pub(super) pieces: Vec<Piece>,
    /// The tokens of each piece, if somebody asks for them.
    pub(super) logprobs: Vec<Vec<TokenLogprobs>>,
    /// Whether a stop text ends the answer.
    pub(super) stopped: bool,
}

impl Reader {
    /// Reads the answer to a turn.
    pub(super) fn new(tokenizer: &Tokenizer, turn: &Turn) -> Self {
        let stops = turn.stop.clone();
        Self {
            tokenizer: tokenizer.clone(),
            ledger: turn.sampling.logprobs.map(|_| Ledger::default()),
            detokenizer: match turn.raw {
                Some(_) => tokenizer.detokenizer().continuing(),
                None => tokenizer.detokenizer(),
            },
            stops: StopTexts::new(stops),
            dialect: Box::new(Plain),
        }
    }

    pub(super) fn token(&mut self, token: &GeneratedToken) -> Read {
        let likely = logprobs::spelled(&self.tokenizer, &self.detokenizer, token);
        let text = self.detokenizer.push(token.id);
        if let (Some(ledger), Some(likely)) = (&mut self.ledger, likely) {
            ledger.push(likely, &text);
        }
        let mut read = self.text(&text);
        self.attribute(&mut read);
        read
    }

    /// What was held back. A character that the model itself left unfinished becomes U+FFFD; one
    /// that a limit cut is left out.
    pub(super) fn finish(&mut self, ended_by_model: bool) -> Read {
        let rest = match ended_by_model {
            true => self.detokenizer.finish(),
            false => String::new(),
        };
        if let Some(ledger) = &mut self.ledger {
            ledger.push_rest(&rest);
        }
        let mut read = self.text(&rest);
        if !read.stopped {
            self.dialect.push(self.stops.finish(), &mut read.pieces);
        }
        self.dialect.finish(&mut read.pieces);
        self.attribute(&mut read);
        read
    }

    /// Finds the tokens of the pieces.
    fn attribute(&mut self, read: &mut Read) {
        if let Some(ledger) = &mut self.ledger {
            read.logprobs = ledger.take(&read.pieces);
        }
    }

    fn text(&mut self, text: &str) -> Read {
        let watched = self.stops.push(text);
        let mut pieces = Vec::new();
        self.dialect.push(watched.text, &mut pieces);
        Read {
            pieces,
            logprobs: Vec::new(),
            stopped: watched.stopped,
        }
    }
}
