//! The stages between a text and its ids: added tokens, normaliser, pre-tokenizer, model.

use std::ops::Range;

use tokenizers::{
    Model as _, ModelWrapper, NormalizedString, Normalizer as _, NormalizerWrapper,
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper,
    Token, normalizer::Range as Slice,
};

use super::{
    TokenizerError,
    added::{AddedTokens, Found},
    scored_bpe::ScoredBpe,
};
use crate::{id::TokenId, limits::TOKENIZER_PART_BYTES_MAX};

/// The model that splits a word into tokens.
pub(super) enum Model {
    /// One of the `tokenizers` library's.
    Library(Box<ModelWrapper>),
    /// SentencePiece's BPE.
    Scored(ScoredBpe),
}

/// The stages of one tokenizer.
pub(super) struct Stages {
    pub(super) normalizer: Option<NormalizerWrapper>,
    pub(super) pre_tokenizer: Option<PreTokenizerWrapper>,
    pub(super) model: Model,
}

/// Turns texts into ids.
pub(super) struct Encoder {
    stages: Stages,
    added: AddedTokens,
    /// By id: tokens that no plain text may become.
    forbidden: Vec<bool>,
}

/// A control character, an unassigned one and a private one: any incomplete vocabulary lacks one of
/// these.
const STRANGE_TEXT: &str = "\u{1}\u{378}\u{10FFFD}";

impl Encoder {
    /// Builds an encoder. Plain text never becomes one of the `forbidden` tokens, even if the model
    /// would merge characters to it.
    ///
    /// # Errors
    /// If the vocabulary cannot encode every text.
    pub(super) fn new(
        stages: Stages,
        added: AddedTokens,
        forbidden: Vec<bool>,
    ) -> Result<Self, TokenizerError> {
        let encoder = Self {
            stages,
            added,
            forbidden,
        };
        match encoder.encode_part(STRANGE_TEXT, &[], 0) {
            Ok(_) => Ok(encoder),
            Err(error) => Err(TokenizerError::Broken(format!(
                "it cannot spell every text: {error}"
            ))),
        }
    }

    pub(super) fn token_id(&self, token_text: &str) -> Option<TokenId> {
        self.added
            .id(token_text)
            .or_else(|| match &self.stages.model {
                Model::Library(model) => model.token_to_id(token_text),
                Model::Scored(model) => model.token_id(token_text),
            })
    }

    /// Encodes a text; control token texts count only within the ranges of `markup`.
    pub(super) fn encode(&self, text: &str, markup: &[Range<usize>]) -> Vec<TokenId> {
        let found = self.added.find(text, markup);
        let encode = |(range, found): (Range<usize>, &[Found])| {
            let start = range.start;
            let ids = self.encode_part(&text[range], found, start);
            ids.expect("`new` has made sure that every text can be spelled")
        };
        parts(text, &found).into_iter().flat_map(encode).collect()
    }

    /// The ids of a part of a text, with the added tokens found in it, whose ranges count from
    /// `start` bytes before the part.
    fn encode_part(
        &self,
        part: &str,
        found: &[Found],
        start: usize,
    ) -> tokenizers::Result<Vec<TokenId>> {
        let mut text = PreTokenizedString::from(part);
        text.split(|_, whole| cut(&whole, found, start))?;
        if let Some(normalizer) = &self.stages.normalizer {
            text.normalize(|part| normalizer.normalize(part))?;
        }
        text.split(|_, part| cut(&part, &self.added.find_normalized(part.get()), 0))?;
        if let Some(pre_tokenizer) = &self.stages.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut text)?;
        }
        text.tokenize(|word| self.tokenize(word.get()))?;
        let splits = text.get_splits(OffsetReferential::Original, OffsetType::None);
        let tokens = splits
            .into_iter()
            .filter_map(|(_, _, tokens)| tokens.as_ref());
        Ok(tokens.flatten().map(|token| token.id).collect())
    }

    /// Tokenises a word without forbidden tokens. A model may list control tokens among its own,
    /// and reach one by merging.
    fn tokenize(&self, word: &str) -> tokenizers::Result<Vec<Token>> {
        let tokens = match &self.stages.model {
            Model::Library(model) => model.tokenize(word)?,
            Model::Scored(model) => model.tokenize(word),
        };
        if !tokens.iter().any(|token| self.is_forbidden(token.id)) {
            return Ok(tokens);
        }
        let mut allowed = Vec::new();
        for token in tokens {
            let token_text = &word[token.offsets.0..token.offsets.1];
            match token_text.char_indices().nth(1) {
                Some((first, _)) if self.is_forbidden(token.id) => {
                    allowed.extend(self.tokenize(&token_text[..first])?);
                    allowed.extend(self.tokenize(&token_text[first..])?);
                }
                _ => allowed.push(token),
            }
        }
        Ok(allowed)
    }

    fn is_forbidden(&self, id: TokenId) -> bool {
        self.forbidden.get(id as usize) == Some(&true)
    }
}

/// Cuts a long text where no added token is found; each part has its own found tokens.
fn parts<'a>(text: &str, mut found: &'a [Found]) -> Vec<(Range<usize>, &'a [Found])> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let mut end = text.floor_char_boundary(start + TOKENIZER_PART_BYTES_MAX);
        let (inside, beyond) =
            found.split_at(found.partition_point(|token| token.range.start < end));
        if let Some(last) = inside.last() {
            end = end.max(last.range.end);
        }
        parts.push((start..end, inside));
        (start, found) = (end, beyond);
    }
    parts
}

type Part = (NormalizedString, Option<Vec<Token>>);

/// Cuts a text at the tokens found in it, whose ranges count from `start` bytes before it.
fn cut(whole: &NormalizedString, found: &[Found], start: usize) -> tokenizers::Result<Vec<Part>> {
    let slice = |range| {
        let part = whole.slice(Slice::Normalized(range));
        part.ok_or("an added token ends within a character")
    };
    let mut parts = Vec::with_capacity(2 * found.len() + 1);
    let mut done = 0;
    for Found { range, id } in found {
        let range = range.start - start..range.end - start;
        parts.push((slice(done..range.start)?, None));
        done = range.end;
        let token = Token::new(*id, String::new(), (0, range.len()));
        parts.push((slice(range)?, Some(vec![token])));
    }
    parts.push((slice(done..whole.len())?, None));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_tokens() {
        let text = format!("x{}", "é".repeat(TOKENIZER_PART_BYTES_MAX + 1));
        let across = TOKENIZER_PART_BYTES_MAX - 3..TOKENIZER_PART_BYTES_MAX + 1;
        let found = [
            Found { range: 1..3, id: 7 },
            Found {
                range: across.clone(),
                id: 7,
            },
        ];
        let parts = parts(&text, &found);
        let ends: Vec<usize> = parts.iter().map(|(range, _)| range.end).collect();
        let second = across.end + TOKENIZER_PART_BYTES_MAX;
        assert_eq!(ends, [across.end, second, text.len()]);
        let shares: Vec<usize> = parts.iter().map(|(_, found)| found.len()).collect();
        assert_eq!(shares, [2, 0, 0]);
        assert!(super::parts("", &[]).is_empty());
    }
}
