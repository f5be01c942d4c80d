//! The stages between a text and its ids: normaliser, pre-tokenizer, model, post-processor.

use std::ops::Range;

use tokenizers::{
    Model as _, ModelWrapper, NormalizedString, Normalizer as _, NormalizerWrapper, OffsetType,
    PostProcessor as _, PostProcessorWrapper, PreTokenizedString, PreTokenizer as _,
    PreTokenizerWrapper, Token, normalizer::Range as Slice,
};

use super::{
    TokenizerError,
    added::{AddedTokens, Found},
    scored_bpe::ScoredBpe,
};
use crate::id::TokenId;

/// What splits a word into tokens.
pub(super) enum Model {
    /// One of the `tokenizers` library's.
    Library(Box<ModelWrapper>),
    /// SentencePiece's BPE.
    Scored(ScoredBpe),
}

/// What surrounds a whole text.
pub(super) enum Framing {
    /// Nothing.
    Bare,
    /// The beginning-of-sequence token in front.
    Bos(TokenId),
    /// What the post-processor of a `tokenizer.json` adds.
    Processor(PostProcessorWrapper),
}

/// The stages of one tokenizer.
pub(super) struct Stages {
    pub(super) normalizer: Option<NormalizerWrapper>,
    pub(super) pre_tokenizer: Option<PreTokenizerWrapper>,
    pub(super) model: Model,
    pub(super) framing: Framing,
}

/// Turns texts into ids.
pub(super) struct Encoder {
    stages: Stages,
    added: AddedTokens,
    /// By id: tokens that no plain text may become.
    forbidden: Vec<bool>,
}

/// A text of a control character, an unassigned one and a private one: whatever a vocabulary
/// lacks, it lacks one of these.
const STRANGE_TEXT: &str = "\u{1}\u{378}\u{10FFFD}";

impl Encoder {
    /// `forbidden` are tokens that plain text must not become even where the model would merge
    /// letters into them.
    ///
    /// # Errors
    /// A vocabulary that cannot spell every text.
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
        match encoder.try_encode(STRANGE_TEXT, &[], true) {
            Ok(_) => Ok(encoder),
            Err(error) => Err(TokenizerError::Broken(format!(
                "it cannot spell every text: {error}"
            ))),
        }
    }

    pub(super) fn token_id(&self, spelling: &str) -> Option<TokenId> {
        self.added
            .id(spelling)
            .or_else(|| match &self.stages.model {
                Model::Library(model) => model.token_to_id(spelling),
                Model::Scored(model) => model.token_id(spelling),
            })
    }

    /// The ids of a text that may spell control tokens within the ranges of `markup`. `framed` adds
    /// what surrounds a whole text.
    pub(super) fn encode(&self, text: &str, markup: &[Range<usize>], framed: bool) -> Vec<TokenId> {
        self.try_encode(text, markup, framed)
            .expect("`new` has made sure of every text")
    }

    fn try_encode(
        &self,
        text: &str,
        markup: &[Range<usize>],
        framed: bool,
    ) -> tokenizers::Result<Vec<TokenId>> {
        let found = self.added.find(text, markup);
        let mut text = PreTokenizedString::from(text);
        text.split(|_, whole| cut(&whole, &found))?;
        if let Some(normalizer) = &self.stages.normalizer {
            text.normalize(|part| normalizer.normalize(part))?;
        }
        text.split(|_, part| cut(&part, &self.added.find_normalized(part.get())))?;
        if let Some(pre_tokenizer) = &self.stages.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut text)?;
        }
        text.tokenize(|word| self.tokenize(word.get()))?;
        let encoding = text.into_encoding(None, 0, OffsetType::None)?;
        let bare = encoding.get_ids();
        Ok(match &self.stages.framing {
            Framing::Bos(bos) if framed => [&[*bos], bare].concat(),
            Framing::Processor(processor) if framed => {
                processor.process(encoding, None, true)?.get_ids().to_vec()
            }
            _ => bare.to_vec(),
        })
    }

    /// The tokens of a word, of which none is forbidden: a model may list control tokens among its
    /// own, and so reach one by merging, or as a piece.
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
            let spelling = &word[token.offsets.0..token.offsets.1];
            match spelling.char_indices().nth(1) {
                Some((first, _)) if self.is_forbidden(token.id) => {
                    allowed.extend(self.tokenize(&spelling[..first])?);
                    allowed.extend(self.tokenize(&spelling[first..])?);
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

type Part = (NormalizedString, Option<Vec<Token>>);

/// Cuts a text at the tokens found in it.
fn cut(whole: &NormalizedString, found: &[Found]) -> tokenizers::Result<Vec<Part>> {
    let slice = |range| {
        let part = whole.slice(Slice::Normalized(range));
        part.ok_or("an added token ends within a character")
    };
    let mut parts = Vec::with_capacity(2 * found.len() + 1);
    let mut start = 0;
    for Found { range, id } in found {
        parts.push((slice(start..range.start)?, None));
        let token = Token::new(*id, String::new(), (0, range.len()));
        parts.push((slice(range.clone())?, Some(vec![token])));
        start = range.end;
    }
    parts.push((slice(start..whole.len())?, None));
    Ok(parts)
}
