//! Tensor types, and decoding to 32-bit floats.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use super::{
    block_type::{Block, BlockType},
    gguf,
    parallel::over_parts,
};

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
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

impl TensorType {
    /// The unit in which elements are stored; 1 element for plain numbers.
    #[must_use]
    pub fn block(self) -> Block {
        match self {
            Self::F32 | Self::U32 => Block {
                elements: 1,
                bytes: 4,
            },
            Self::F16 | Self::Bf16 => Block {
                elements: 1,
                bytes: 2,
            },
            Self::Block(block_type) => block_type.block(),
        }
    }
}

impl TensorType {
    /// True if elements are plain floating-point numbers.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }
}

/// Decodes `bytes`, whole blocks of a tensor type, into `out`, which has exactly their elements, on
/// all cores. Words of a packed tensor become numbers.
pub(super) fn decode(encoding: TensorType, bytes: &[u8], out: &mut [f32]) {
    let block = encoding.block();
    debug_assert_eq!(out.len() / block.elements * block.bytes, bytes.len());
    over_parts(out, block.elements, |first, part| {
        let start = first / block.elements * block.bytes;
        decode_here(encoding, &bytes[start..], part);
    });
}

/// Decodes as many blocks as `out` has room for, on this thread.
pub(super) fn decode_here(encoding: TensorType, bytes: &[u8], out: &mut [f32]) {
    match encoding {
        TensorType::F32 => each(bytes, out, |word| f32::from_le_bytes(*word)),
        TensorType::U32 => each(bytes, out, |word| u32::from_le_bytes(*word) as f32),
        TensorType::Bf16 => each(bytes, out, |word| bf16::from_le_bytes(*word).to_f32()),
        TensorType::F16 => decode_f16(bytes, out),
        TensorType::Block(block_type) => gguf::decode_blocks(block_type, bytes, out),
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], convert: impl Fn(&[u8; N]) -> f32) {
    for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
        *value = convert(word);
    }
}

/// Converts through a small buffer, because mapped bytes need not be aligned and the library's
/// conversion of slices uses the processor's instruction for it.
fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    const CHUNK: usize = 1024;
    let mut halves = [f16::ZERO; CHUNK];
    for (values, words) in out.chunks_mut(CHUNK).zip(bytes.chunks(2 * CHUNK)) {
        let halves = &mut halves[..values.len()];
        for (half, word) in halves.iter_mut().zip(words.as_chunks().0) {
            *half = f16::from_le_bytes(*word);
        }
        halves.convert_to_f32_slice(values);
    }
}
