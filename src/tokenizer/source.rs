//! Source of a tokenizer, from the loaders of model files.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// Source of a model's tokenizer.
pub enum TokenizerSource {
    /// A `tokenizer.json` of the `tokenizers` library, with `tokenizer_config.json` beside it.
    Json {
        /// The file.
        tokenizer: PathBuf,
        /// `tokenizer_config.json`, or empty.
        config: Map<String, Value>,
    },
    /// The `tokenizer.ggml.*` metadata of a GGUF file.
    Gguf(GgufVocabulary),
}

/// The `tokenizer.ggml.*` metadata of a GGUF file.
#[derive(Debug, Clone, Default)]
pub struct GgufVocabulary {
    /// `tokenizer.ggml.model`: `gpt2` (byte-level BPE) or `llama` (SentencePiece).
    pub model: String,
    /// `tokenizer.ggml.pre`: which pre-tokenizer a byte-level BPE uses.
    pub pre: Option<String>,
    /// Text of each token.
    pub tokens: Vec<String>,
    /// Score of each token (SentencePiece), or empty.
    pub scores: Vec<f32>,
    /// Type of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_types: Vec<i32>,
    /// Merges of a byte-level BPE, each two token texts with a space between them.
    pub merges: Vec<String>,
    /// Beginning-of-sequence token.
    pub bos: Option<u32>,
    /// End-of-sequence token.
    pub eos: Option<u32>,
    /// End-of-turn token.
    pub eot: Option<u32>,
    /// Unknown token.
    pub unknown: Option<u32>,
    /// Padding token.
    pub padding: Option<u32>,
    /// True if a text is preceded by the beginning-of-sequence token.
    pub add_bos: Option<bool>,
    /// True if SentencePiece puts a space before a text.
    pub add_space_prefix: Option<bool>,
}
