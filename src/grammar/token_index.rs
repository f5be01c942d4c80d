//! The tokens of a vocabulary by what they say.

use crate::{id::TokenId, tokenizer::Tokenizer};

/// Token texts without white space, sorted.
pub(super) struct TokenIndex(Vec<(String, TokenId)>);

impl TokenIndex {
    pub(super) fn of(tokenizer: &Tokenizer) -> Self {
        let count = TokenId::try_from(tokenizer.vocab_size()).unwrap_or(TokenId::MAX);
        let said = |id| {
            let text = tokenizer.token_text(id);
            text.chars().filter(|c| !c.is_whitespace()).collect()
        };
        let mut token_texts: Vec<(String, TokenId)> = (0..count).map(|id| (said(id), id)).collect();
        token_texts.sort_unstable();
        Self(token_texts)
    }

    /// Iterates over the tokens that start with a text and are longer.
    pub(super) fn beyond(&self, text: &str) -> impl Iterator<Item = TokenId> {
        let start = self.0.partition_point(|(said, _)| said.as_str() <= text);
        let longer = self.0[start..].iter();
        let longer = longer.take_while(move |(said, _)| said.starts_with(text));
        longer.map(|&(_, id)| id)
    }
}
