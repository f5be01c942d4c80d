//! Token ids to text one at a time, never cutting a character.

use std::{mem, str, sync::Arc};

use super::Tokenizer;
use crate::id::TokenId;

/// Turns a running generation into text.
///
/// Each push costs the bytes of its own token. What the pushes and [`finish`](Self::finish) return,
/// joined, is the text of all ids: bytes that no further byte can make a character become U+FFFD,
/// one for each longest prefix of a character, as in [`String::from_utf8_lossy`].
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    /// The start of a character whose rest is still to come: at most three bytes.
    pending: Vec<u8>,
    /// True at the start of a text, where a SentencePiece word loses its leading space.
    at_start: bool,
    /// Control tokens that are written all the same.
    shown: Arc<[TokenId]>,
}

impl Detokenizer {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        let at_start = tokenizer.0.vocabulary.strips_first_space;
        Self {
            tokenizer,
            pending: Vec::new(),
            at_start,
            shown: Arc::default(),
        }
    }

    /// Also writes these control tokens, as their token texts.
    #[must_use]
    pub fn showing(self, shown: Arc<[TokenId]>) -> Self {
        Self { shown, ..self }
    }

    /// Continues a text: a leading space stays.
    #[must_use]
    pub fn continuing(self) -> Self {
        Self {
            at_start: false,
            ..self
        }
    }

    /// The bytes that `id` would add now, whole characters or not.
    #[must_use]
    pub fn bytes_of(&self, id: TokenId) -> &[u8] {
        let bytes = written(&self.tokenizer, &self.shown, id);
        stripped(bytes, self.at_start)
    }

    /// Returns the characters that `id` completes. Unknown ids and hidden control tokens write
    /// nothing.
    pub fn push(&mut self, id: TokenId) -> String {
        let bytes = written(&self.tokenizer, &self.shown, id);
        self.pending
            .extend_from_slice(stripped(bytes, self.at_start));
        self.at_start &= bytes.is_empty();
        self.take_whole()
    }

    /// Returns the rest at the end of a text: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        rest
    }

    fn take_whole(&mut self) -> String {
        let last = self.pending.utf8_chunks().last();
        let cut = last.map_or(0, |chunk| cut_character(chunk.invalid()));
        let rest = self.pending.split_off(self.pending.len() - cut);
        let whole = mem::replace(&mut self.pending, rest);
        String::from_utf8(whole)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// The bytes of a token; none of a control token, unless it is shown.
fn written<'a>(tokenizer: &'a Tokenizer, shown: &[TokenId], id: TokenId) -> &'a [u8] {
    let vocabulary = &tokenizer.0.vocabulary;
    match shown.contains(&id) {
        true => vocabulary.bytes(id),
        false => vocabulary.shown_bytes(id),
    }
}

/// A token's bytes, the first one's without its leading space.
fn stripped(bytes: &[u8], at_start: bool) -> &[u8] {
    match at_start {
        true => bytes.strip_prefix(b" ").unwrap_or(bytes),
        false => bytes,
    }
}

/// The length of these bytes if more of them could make a character, else none.
fn cut_character(bytes: &[u8]) -> usize {
    let is_cut = str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
    if is_cut { bytes.len() } else { 0 }
}
