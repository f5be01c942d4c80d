//! Model files on disk → configuration, named tensors, tokenizer and template sources.
//!
//! Every container (a GGUF file, a folder in the Hugging Face or MLX layout) is presented in one
//! way: `config.json` keys, Hugging Face tensor names, Hugging Face row order of rotary weights.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::tokenizer::TokenizerSource;

/// A model's files, opened and checked, with nothing read into memory yet but metadata.
pub struct ModelFiles {
    /// Where the model came from: the folder or file.
    pub path: PathBuf,
    /// `config.json`; for GGUF the same keys, made from the file's metadata.
    pub config: Map<String, Value>,
    /// `generation_config.json`, or empty.
    pub generation_config: Map<String, Value>,
    /// Where the tokenizer comes from.
    pub tokenizer: TokenizerSource,
    /// The Jinja source of the chat template, if the model has one.
    pub chat_template: Option<String>,
    /// The weights, under Hugging Face names such as `model.layers.0.self_attn.q_proj.weight`.
    pub tensors: Box<dyn Tensors>,
}

/// How a tensor is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// 32-bit floats.
    F32,
    /// IEEE 16-bit floats.
    F16,
    /// Brain 16-bit floats.
    Bf16,
    /// 32-bit unsigned words: the packed weights of an MLX-quantised tensor.
    U32,
    /// A GGUF block type.
    Block(BlockType),
}

/// GGUF's quantised block types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the GGUF format")]
pub enum BlockType {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// A tensor's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Row-major shape, outermost dimension first: a linear layer is `[out, in]`.
    pub shape: Vec<usize>,
    /// How the elements are stored.
    pub encoding: Encoding,
}

/// Named tensors of a model. Bytes are memory-mapped: reading is what touches the disk.
pub trait Tensors: Send + Sync {
    /// All names, in file order.
    fn names(&self) -> Vec<&str>;
    /// The description of one tensor, or `None` where there is none of that name.
    fn info(&self, name: &str) -> Option<&TensorInfo>;
    /// The stored bytes of one tensor, little-endian, in the layout its encoding names.
    ///
    /// # Errors
    /// Names the tensor and file when there is no such tensor.
    fn bytes(&self, name: &str) -> Result<&[u8], LoadError>;
    /// Decodes one tensor into `out`, which must hold exactly its number of elements, row-major.
    ///
    /// # Errors
    /// Names the tensor and file when it is missing, is not numeric, or has another size.
    fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError>;
}

/// Why a model could not be loaded; the text names the file and the tensor.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);
