//! Decoding GGUF's quantised blocks to 32-bit floats.
//!
//! Layouts: `ggml-common.h`, arithmetic: `dequantize_row_*` in `ggml-quants.c` of
//! <https://github.com/ggml-org/ggml/tree/master/src>. Every product and sum is rounded on its own
//! in the reference's order, so results are equal to the last bit.

mod k_quants;
mod legacy;
mod parts;

use half::f16;

pub use parts::{BlockFormat, BlockPart, PART};

use crate::load::BlockType;

/// Decodes as many blocks as `out` has room for.
pub(in crate::load) fn decode_blocks(block_type: BlockType, bytes: &[u8], out: &mut [f32]) {
    match block_type {
        BlockType::Q4_0 => each(bytes, out, legacy::q4_0),
        BlockType::Q4_1 => each(bytes, out, legacy::q4_1),
        BlockType::Q5_0 => each(bytes, out, legacy::q5_0),
        BlockType::Q5_1 => each(bytes, out, legacy::q5_1),
        BlockType::Q8_0 => each(bytes, out, legacy::q8_0),
        BlockType::Q2K => each(bytes, out, k_quants::q2_k),
        BlockType::Q3K => each(bytes, out, k_quants::q3_k),
        BlockType::Q4K => each(bytes, out, k_quants::q4_k),
        BlockType::Q5K => each(bytes, out, k_quants::q5_k),
        BlockType::Q6K => each(bytes, out, k_quants::q6_k),
    }
}

fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (values, _) = out.as_chunks_mut();
    let (blocks, _) = bytes.as_chunks();
    for (values, block) in values.iter_mut().zip(blocks) {
        decode(block, values);
    }
}

/// The 16-bit float at a byte of a block.
fn float<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// `N` bytes of a block.
fn part<const N: usize, const BYTES: usize>(block: &[u8; BYTES], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&block[at..at + N]);
    part
}
