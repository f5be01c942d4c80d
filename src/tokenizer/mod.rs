//! Text to token ids and back, for tokenizers of `tokenizer.json` and of GGUF metadata.

mod added;
mod byte_decoder;
mod detokenizer;
mod encoder;
mod gguf;
mod json;
mod pretokenize;
mod scored_bpe;
mod source;
mod special;
mod vocabulary;

use std::{fmt, ops::Range, path::PathBuf, sync::Arc};

pub use self::{
    detokenizer::Detokenizer,
    source::{GgufVocabulary, TokenizerSource},
    special::SpecialTokens,
};

use self::{
    added::{AddedToken, AddedTokens},
    vocabulary::Vocabulary,
};
use crate::id::TokenId;
use byte_decoder::ByteDecoder;
use encoder::{Encoder, Stages};

/// A stretch of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptSegment {
    /// Template text: control token texts stand for the tokens.
    Template(String),
    /// User text: encoded as plain text, also if it equals a control token's text.
    UserText(String),
}

impl PromptSegment {
    /// Returns the text.
    pub fn text(&self) -> &str {
        let (Self::Template(text) | Self::UserText(text)) = self;
        text
    }
}

/// The reason why a tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file that cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file that does not have the expected format.
    #[error("{path} is not a tokenizer: {reason}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// A kind of tokenizer that this program does not know.
    #[error("the tokenizer has {0}, which is not supported")]
    Unsupported(String),
    /// A vocabulary that contradicts itself.
    #[error("the tokenizer's vocabulary is broken: {0}")]
    Broken(String),
}

/// Parts of a tokenizer, from either file format.
struct Parts {
    stages: Stages,
    frame: Frame,
    /// Token text of each id, as the model has it.
    token_texts: Vec<Option<String>>,
    added: Vec<AddedToken>,
    decoding: ByteDecoder,
    special: SpecialTokens,
    /// Ids that the files themselves name as ends.
    ends: Vec<TokenId>,
}

/// The ids that surround a whole text where they are asked for.
#[derive(Default)]
struct Frame {
    before: Vec<TokenId>,
    after: Vec<TokenId>,
}

/// A model's tokenizer: cheap to clone, shared between threads.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    encoder: Encoder,
    frame: Frame,
    vocabulary: Vocabulary,
    special: SpecialTokens,
    ends: Vec<TokenId>,
    control_token_texts: Arc<[String]>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`, or builds the tokenizer that a GGUF file describes.
    ///
    /// # Errors
    /// If the file cannot be read or parsed, the vocabulary contradicts itself, or the tokenizer or
    /// pre-tokenizer type is unknown; the error names it.
    pub fn open(source: &TokenizerSource) -> Result<Self, TokenizerError> {
        let parts = match source {
            TokenizerSource::Json { tokenizer, config } => json::read(tokenizer, config)?,
            TokenizerSource::Gguf(vocabulary) => gguf::build(vocabulary)?,
        };
        Self::assemble(parts)
    }

    fn assemble(parts: Parts) -> Result<Self, TokenizerError> {
        let vocabulary = Vocabulary::new(&parts.token_texts, &parts.added, &parts.decoding)?;
        let mut forbidden = vec![false; vocabulary.len()];
        for token in parts.added.iter().filter(|token| token.is_control()) {
            forbidden[token.id as usize] = parts.special.unk.as_ref() != Some(&token.content);
        }
        let ends = special::eos_tokens(&parts.added, parts.ends);
        let added = AddedTokens::new(parts.added)?;
        Ok(Self(Arc::new(Inner {
            control_token_texts: added.control_token_texts(),
            encoder: Encoder::new(parts.stages, added, forbidden)?,
            frame: parts.frame,
            vocabulary,
            special: parts.special,
            ends,
        })))
    }

    /// Encodes a rendered prompt; adds no tokens.
    ///
    /// The segments are read as one text, so that a word across two segments is tokenised as the
    /// model learnt it. Only control tokens stop at the border of user text. The ids equal those of
    /// the joined text if no user text contains a control token's text.
    #[must_use]
    pub fn encode_prompt(&self, pieces: &[PromptSegment]) -> Vec<TokenId> {
        let mut text = String::new();
        let mut markup: Vec<Range<usize>> = Vec::new();
        for piece in pieces {
            let start = text.len();
            match piece {
                PromptSegment::UserText(literal) => text.push_str(literal),
                PromptSegment::Template(written) => {
                    text.push_str(written);
                    match markup.last_mut() {
                        Some(last) if last.end == start => last.end = text.len(),
                        _ => markup.push(start..text.len()),
                    }
                }
            }
        }
        self.0.encoder.encode(&text, &markup)
    }

    /// Encodes plain text, in which control token texts stay text.
    ///
    /// `add_special` adds the BOS token and other tokens of the tokenizer's post-processor.
    #[must_use]
    pub fn encode_text(&self, text: &str, add_special: bool) -> Vec<TokenId> {
        let ids = self.0.encoder.encode(text, &[]);
        match &self.0.frame {
            Frame { before, after } if add_special => [before, ids.as_slice(), after].concat(),
            _ => ids,
        }
    }

    /// The text of ids, control tokens left out.
    #[must_use]
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let mut detokenizer = self.detokenizer();
        let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
        text.push_str(&detokenizer.finish());
        text
    }

    /// Starts to turn ids into text one at a time.
    #[must_use]
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(self.clone())
    }

    /// Returns a token's text. Bytes that are no whole character become U+FFFD; an id outside the
    /// vocabulary has no text.
    #[must_use]
    pub fn token_text(&self, id: TokenId) -> String {
        String::from_utf8_lossy(self.0.vocabulary.bytes(id)).into_owned()
    }

    /// Returns the bytes that a token adds to the text: empty for control tokens and unknown ids.
    ///
    /// A SentencePiece word keeps its leading space, also at the start of a text.
    #[must_use]
    pub fn token_bytes(&self, id: TokenId) -> Vec<u8> {
        self.0.vocabulary.shown_bytes(id).to_vec()
    }

    /// Returns the id of a token by its text in the model's files.
    #[must_use]
    pub fn token_id(&self, token_text: &str) -> Option<TokenId> {
        self.0.encoder.token_id(token_text)
    }

    /// One more than the highest id.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.0.vocabulary.len()
    }

    /// Returns the texts of control tokens. This includes tokens that structure a prompt and are
    /// not marked as special, such as `<tool_call>`.
    #[must_use]
    pub fn control_token_texts(&self) -> Arc<[String]> {
        Arc::clone(&self.0.control_token_texts)
    }

    /// Returns the token texts that chat templates name.
    #[must_use]
    pub fn special_tokens(&self) -> SpecialTokens {
        self.0.special.clone()
    }

    /// The ids after which a turn is over, ascending.
    #[must_use]
    pub fn eos_tokens(&self) -> Vec<TokenId> {
        self.0.ends.clone()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .finish_non_exhaustive()
    }
}
