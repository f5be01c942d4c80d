//! The tensors of a GGUF file under Hugging Face names, in Hugging Face's order and convention.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use super::{architecture::Architecture, header::StoredTensor, rope::interleaved_row};
use crate::load::{
    LoadError, MappedFile, TensorInfo, TensorType, Tensors,
    parallel::over_parts,
    tensor_type::{decode, decode_here},
};

/// The tensors of one file.
pub(super) struct GgufTensors {
    file: MappedFile,
    tensors: Vec<Tensor>,
    by_name: HashMap<String, usize>,
}

struct Tensor {
    name: String,
    info: TensorInfo,
    bytes: Range<usize>,
    difference: Difference,
}

/// Difference between a tensor in the file and the one in Hugging Face's folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    None,
    /// Rows of each head are in the order of interleaved rotary embeddings.
    InterleavedRows {
        head_dim: usize,
    },
    /// A norm's weight has 1 added.
    PlusOne,
}

impl GgufTensors {
    /// Takes over the described tensors of `file`.
    pub(super) fn new(
        file: MappedFile,
        stored: Vec<StoredTensor>,
        architecture: Architecture,
        head_dim: usize,
    ) -> Result<Self, LoadError> {
        let tensors = stored
            .into_iter()
            .filter(|tensor| tensor.name != "rope_freqs.weight")
            .map(|tensor| Tensor::new(tensor, architecture, head_dim))
            .collect::<Result<Vec<_>, _>>()?;
        let names = tensors.iter().enumerate();
        let by_name = names
            .map(|(index, tensor)| (tensor.name.clone(), index))
            .collect();
        Ok(Self {
            file,
            tensors,
            by_name,
        })
    }

    fn tensor(&self, name: &str) -> Result<(&Tensor, &[u8]), LoadError> {
        let index = self
            .by_name
            .get(name)
            .ok_or_else(|| LoadError::tensor(name, "is missing").in_file(self.file.path()))?;
        let tensor = &self.tensors[*index];
        Ok((tensor, self.file.range(name, &tensor.bytes)?))
    }
}

impl Tensors for GgufTensors {
    fn names(&self) -> Vec<&str> {
        self.tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect()
    }

    fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name
            .get(name)
            .map(|index| &self.tensors[*index].info)
    }

    fn bytes(&self, name: &str) -> Result<Cow<'_, [u8]>, LoadError> {
        let (tensor, bytes) = self.tensor(name)?;
        Ok(tensor.hugging_face_bytes(bytes))
    }

    fn read_f32(&self, name: &str, out: &mut [f32]) -> Result<(), LoadError> {
        let (tensor, bytes) = self.tensor(name)?;
        tensor
            .info
            .check_room(out)
            .map_err(|fault| LoadError::tensor(name, fault).in_file(self.file.path()))?;
        tensor.read(bytes, out);
        Ok(())
    }

    fn place(&self, name: &str) -> String {
        format!("{}: tensor `{name}`", self.file.path().display())
    }
}

impl Tensor {
    fn new(
        stored: StoredTensor,
        architecture: Architecture,
        head_dim: usize,
    ) -> Result<Self, LoadError> {
        let Some(name) = architecture.hugging_face_name(&stored.name) else {
            let fault = format!("has no place in a `{}` model", architecture.name());
            return Err(LoadError::tensor(&stored.name, fault));
        };
        let difference = Difference::of(&name, architecture, head_dim);
        let tensor = Self {
            name,
            info: stored.info,
            bytes: stored.bytes,
            difference,
        };
        tensor
            .check()
            .map_err(|fault| LoadError::tensor(&stored.name, fault))?;
        Ok(tensor)
    }

    /// Refuses what the conversion to Hugging Face's form could not be made of.
    fn check(&self) -> Result<(), String> {
        match self.difference {
            Difference::InterleavedRows { head_dim } => {
                let rows = self.info.shape[0];
                if !rows.is_multiple_of(head_dim) || !head_dim.is_multiple_of(2) {
                    return Err(format!("has {rows} rows, not whole heads of {head_dim}"));
                }
                if self.info.shape.len() == 1 && self.info.encoding.block().elements != 1 {
                    return Err("is a quantised vector, which cannot be reordered".to_owned());
                }
            }
            Difference::PlusOne if self.info.encoding != TensorType::F32 => {
                return Err(format!(
                    "is a norm stored as {:?}, expected F32",
                    self.info.encoding
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn read(&self, bytes: &[u8], out: &mut [f32]) {
        match self.difference {
            Difference::None => decode(self.info.encoding, bytes, out),
            Difference::PlusOne => {
                decode(self.info.encoding, bytes, out);
                out.iter_mut().for_each(|weight| *weight -= 1.0);
            }
            Difference::InterleavedRows { head_dim } => {
                let row = self.row_elements();
                over_parts(out, row, |first, part| {
                    for (index, values) in part.chunks_exact_mut(row).enumerate() {
                        let from = interleaved_row(first / row + index, head_dim);
                        decode_here(self.info.encoding, self.row(bytes, from), values);
                    }
                });
            }
        }
    }

    fn hugging_face_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.difference {
            Difference::None => bytes.into(),
            Difference::PlusOne => bytes
                .as_chunks()
                .0
                .iter()
                .flat_map(|word| (f32::from_le_bytes(*word) - 1.0).to_le_bytes())
                .collect(),
            Difference::InterleavedRows { head_dim } => {
                let mut reordered = Vec::with_capacity(bytes.len());
                for row in 0..self.info.shape[0] {
                    reordered.extend_from_slice(self.row(bytes, interleaved_row(row, head_dim)));
                }
                reordered.into()
            }
        }
    }

    /// Returns the elements of one row; a vector has rows of one.
    fn row_elements(&self) -> usize {
        self.info.shape[1..].iter().product()
    }

    fn row<'a>(&self, bytes: &'a [u8], index: usize) -> &'a [u8] {
        let block = self.info.encoding.block();
        let length = self.row_elements() / block.elements * block.bytes;
        &bytes[index * length..(index + 1) * length]
    }
}

impl Difference {
    fn of(name: &str, architecture: Architecture, head_dim: usize) -> Self {
        let rotary = [".q_proj.", ".k_proj."]
            .iter()
            .any(|part| name.contains(part));
        let norm = name.ends_with("norm.weight");
        if rotary && architecture.interleaves_rotary_rows() {
            Self::InterleavedRows { head_dim }
        } else if norm && architecture.adds_one_to_norms() {
            Self::PlusOne
        } else {
            Self::None
        }
    }
}
