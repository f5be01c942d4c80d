//! Aligns tokens with output deltas, to report log probabilities.

use std::{collections::VecDeque, fmt::Write as _};

use crate::{
    conversation::{OutputDelta, TokenLogprob, TokenLogprobs},
    engine::GeneratedToken,
    id::TokenId,
    sampling::Logprobs,
    tokenizer::{Detokenizer, Tokenizer},
};

/// Lowest log probability that is reported, as in OpenAI's API; JSON has no infinity.
const LOGPROB_MIN: f32 = -9999.0;

/// Tokens whose text is not yet in a delta.
///
/// An output parser returns the text of deltas without positions, and leaves markers out. So the
/// aligner searches each delta in the tokens' text. It looks first where the last delta ended, else
/// as late as possible, because markers precede a delta.
#[derive(Debug, Default)]
pub(crate) struct LogprobAligner {
    /// Text from the end of the last delta on.
    text: String,
    /// Tokens of that text, and of an incomplete character.
    tokens: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    logprobs: TokenLogprobs,
    /// Range of the token's text in the aligner's. Tokens that are only a part of a character begin
    /// with that character.
    start: usize,
    end: usize,
}

impl LogprobAligner {
    /// Adds a token with the text that it completes.
    pub(crate) fn push(&mut self, logprobs: TokenLogprobs, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        // A control token is not in the text.
        if !logprobs.chosen.bytes.is_empty() {
            let end = self.text.len().max(start + 1);
            self.tokens.push_back(Entry {
                logprobs,
                start,
                end,
            });
        }
    }

    /// Adds text that no token completes: the rest at the end.
    pub(crate) fn push_rest(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Returns the tokens of each of these deltas, whose text was added before.
    pub(crate) fn take(&mut self, pieces: &[OutputDelta]) -> Vec<Vec<TokenLogprobs>> {
        let last = pieces.len().saturating_sub(1);
        let numbered = pieces.iter().enumerate();
        numbered
            .map(|(index, piece)| self.take_one(piece, index == last))
            .collect()
    }

    fn take_one(&mut self, piece: &OutputDelta, is_last: bool) -> Vec<TokenLogprobs> {
        let (said, is_text) = match piece {
            OutputDelta::Text(said) => (said, true),
            OutputDelta::Reasoning(said) | OutputDelta::Arguments(said) => (said, false),
            OutputDelta::Call { .. } | OutputDelta::End => return Vec::new(),
        };
        let found = match self.text.starts_with(said) {
            true => Some(0),
            false if is_last => self.text.rfind(said),
            false => self.text.find(said),
        };
        let Some(start) = found else {
            return Vec::new();
        };
        let end = start + said.len();
        let mut taken = Vec::new();
        while let Some(entry) = self.tokens.front() {
            let (is_before, is_over) = (entry.end <= start, entry.end <= end);
            // Text that a token shares with a marker belongs to the text.
            if entry.start >= end || !(is_over || is_text) {
                break;
            }
            if let Some(entry) = self.tokens.pop_front()
                && is_text
                && !is_before
            {
                taken.push(entry.logprobs);
            }
        }
        self.text.drain(..end);
        for entry in &mut self.tokens {
            entry.start = entry.start.saturating_sub(end);
            entry.end = entry.end.saturating_sub(end);
        }
        taken
    }
}

/// Formats a token's log probability; `None` if the request does not ask for it.
pub(crate) fn written(
    tokenizer: &Tokenizer,
    detokenizer: &Detokenizer,
    token: &GeneratedToken,
) -> Option<TokenLogprobs> {
    let Logprobs { chosen, top } = token.logprobs.as_ref()?;
    let likely = |&(id, logprob): &(TokenId, f32)| {
        let bytes = detokenizer.bytes_of(id).to_vec();
        TokenLogprob {
            text: match bytes.is_empty() {
                true => tokenizer.token_text(id),
                false => token_text(&bytes),
            },
            bytes,
            logprob: logprob.max(LOGPROB_MIN),
        }
    };
    Some(TokenLogprobs {
        chosen: likely(&(token.id, *chosen)),
        top: top.iter().map(likely).collect(),
    })
}

/// Returns bytes as text, or in OpenAI's `bytes:\x…` notation if they are not UTF-8.
fn token_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
            text
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(bytes: &[u8]) -> TokenLogprobs {
        let chosen = TokenLogprob {
            text: token_text(bytes),
            bytes: bytes.to_vec(),
            logprob: -0.5,
        };
        TokenLogprobs {
            chosen,
            top: Vec::new(),
        }
    }

    fn token_texts(taken: &[Vec<TokenLogprobs>]) -> Vec<Vec<&str>> {
        let mut all = Vec::new();
        for tokens in taken {
            all.push(tokens.iter().map(|token| &*token.chosen.text).collect());
        }
        all
    }

    fn text(text: &str) -> OutputDelta {
        OutputDelta::Text(text.to_owned())
    }

    fn ledger(tokens: &[&str]) -> LogprobAligner {
        let mut ledger = LogprobAligner::default();
        for text in tokens {
            ledger.push(token(text.as_bytes()), text);
        }
        ledger
    }

    #[test]
    fn plain_text_takes_its_tokens() {
        let mut ledger = ledger(&["a", "b", "", "c"]);
        assert_eq!(token_texts(&ledger.take(&[text("ab")])), [["a", "b"]]);
        assert_eq!(token_texts(&ledger.take(&[text("c")])), [["c"]]);
        assert!(ledger.tokens.is_empty() && ledger.text.is_empty());
    }

    #[test]
    fn a_token_over_two_pieces_is_told_with_the_first() {
        let mut ledger = ledger(&["ab", "c"]);
        let taken = ledger.take(&[text("a"), text("bc")]);
        assert_eq!(token_texts(&taken), [["ab"], ["c"]]);
    }

    #[test]
    fn parts_of_a_character_come_with_the_whole() {
        let mut ledger = LogprobAligner::default();
        let euro = "€".as_bytes();
        ledger.push(token(&euro[..1]), "");
        ledger.push(token(&euro[1..2]), "");
        assert!(ledger.take(&[]).is_empty());
        ledger.push(token(&euro[2..]), "€");
        ledger.push(token(b"!"), "!");
        let taken = ledger.take(&[text("€"), text("!")]);
        let expected: [&[&str]; 2] = [&["bytes:\\xe2", "bytes:\\x82", "bytes:\\xac"], &["!"]];
        assert_eq!(token_texts(&taken), expected);
    }

    #[test]
    fn markers_and_reasoning_have_no_log_probabilities() {
        let mut ledger = ledger(&["<t>", "hm"]);
        let taken = ledger.take(&[OutputDelta::Reasoning("hm".to_owned())]);
        assert_eq!(token_texts(&taken), [Vec::<&str>::new()]);
        for text in ["</t>", "\n", "hm", " so", "x"] {
            ledger.push(token(text.as_bytes()), text);
        }
        let taken = ledger.take(&[text("hm so"), text("x")]);
        assert_eq!(token_texts(&taken), [vec!["hm", " so"], vec!["x"]]);
    }

    #[test]
    fn a_token_of_reasoning_and_text_belongs_to_the_text() {
        let mut ledger = ledger(&["a|b"]);
        let pieces = [OutputDelta::Reasoning("a".to_owned()), text("b")];
        let taken = ledger.take(&pieces);
        assert_eq!(token_texts(&taken), [vec![], vec!["a|b"]]);
    }
}
