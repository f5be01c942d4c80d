//! Model files on disk → configuration, named tensors, tokenizer and template sources.
//!
//! Every container (a GGUF file, a folder in the Hugging Face or MLX layout) is presented in one
//! way: `config.json` keys, Hugging Face tensor names, Hugging Face row order of rotary weights.

pub mod alias;
mod block_type;
mod eos_tokens;
mod error;
mod fingerprint;
mod gguf;
mod hf_dir;
mod hub;
mod json;
mod mapped;
pub mod mlx;
mod parallel;
mod resolve;
mod safetensors;
mod tensor_type;

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::tokenizer::TokenizerSource;

pub use block_type::{Block, BlockType};
pub use error::LoadError;
pub use gguf::{BlockFormat, BlockPart, PART};
pub use hub::Hub;
use mapped::MappedFile;
pub use mlx::MlxQuantization;
pub use resolve::{Sources, resolve};
pub use tensor_type::TensorType;

/// A model's files, opened and checked, with nothing read into memory yet but metadata.
pub struct ModelFiles {
    /// The model's folder or file.
    pub path: PathBuf,
    /// `config.json`; for GGUF the same keys, made from the file's metadata.
    pub config: Map<String, Value>,
    /// `generation_config.json`, or empty.
    pub generation_config: Map<String, Value>,
    /// Source of the tokenizer.
    pub tokenizer: TokenizerSource,
    /// The Jinja source of the chat template, if the model has one.
    pub chat_template: Option<String>,
    /// The weights, under Hugging Face names such as `model.layers.0.self_attn.q_proj.weight`.
    pub tensors: Box<dyn Tensors>,
}

impl ModelFiles {
    /// Returns a digest of everything that the model's results depend on: the configuration, and
    /// every byte of the weights.
    ///
    /// # Errors
    /// If a tensor cannot be read; names the tensor and the file.
    pub fn fingerprint(&self) -> Result<[u8; 32], LoadError> {
        fingerprint::fingerprint(self)
    }
}

/// Opens a model that lies on this machine: a folder or a GGUF file.
///
/// # Errors
/// Names the file, and the tensor or key at fault.
pub fn open(path: &Path) -> Result<ModelFiles, LoadError> {
    if path.is_dir() {
        hf_dir::open(path)
    } else {
        gguf::open(path)
    }
}

/// A tensor's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Row-major shape, outermost dimension first: a linear layer is `[out, in]`. It counts
    /// elements, also where they are packed into blocks or words.
    pub shape: Vec<usize>,
    /// Type of the elements.
    pub encoding: TensorType,
}

impl TensorInfo {
    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    fn check_room(&self, out: &[f32]) -> Result<(), String> {
        if out.len() == self.elements() {
            return Ok(());
        }
        let (shape, room) = (&self.shape, out.len());
        Err(format!(
            "has shape {shape:?}, but {room} elements were asked for"
        ))
    }
}

/// Named tensors of a model. Bytes are memory-mapped: reading is what touches the disk.
pub trait Tensors: Send + Sync {
    /// All names, in file order.
    fn names(&self) -> Vec<&str>;
    /// Returns the description of a tensor; `None` if there is no tensor of that name.
    fn info(&self, name: &str) -> Option<&TensorInfo>;
    /// The stored bytes of one tensor, little-endian, in the layout its encoding names; a copy only
    /// where the file's rows or numbers are not in the form that Hugging Face's folders have.
    ///
    /// # Errors
    /// Names the tensor and file when there is no such tensor.
    fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, LoadError>;
    /// Decodes one tensor into `out`, which must hold exactly its number of elements, row-major.
    ///
    /// # Errors
    /// Names the tensor and file when it is missing, is not numeric, or has another size.
    fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError>;
    /// Returns the packing of a matrix of [`TensorType::U32`]. Its scales and biases are separate
    /// tensors, named `.scales` and `.biases` instead of `.weight`.
    fn quantization(&self, _name: &str) -> Option<MlxQuantization> {
        None
    }
    /// Returns a tensor's name for messages: the file that holds it, and its name.
    fn place(&self, name: &str) -> String;
}
