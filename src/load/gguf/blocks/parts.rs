//! Taking GGUF's blocks apart without decoding them: quants, scales and minima as they are stored.

use super::{
    float,
    k_quants::{scales_and_mins, six_bit_scales, two_bit_place},
    legacy::five_bits,
    part,
};
use crate::load::BlockType;

/// Elements of a [`BlockPart`].
pub const PART: usize = 32;

/// 32 elements of a block: element `i` is `scales[i / 16] · (quants[i] - zero) + mins[i / 16]`, with
/// the `zero` of [`BlockFormat`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockPart {
    /// Unsigned quants.
    pub quants: [u8; PART],
    /// Factors of both halves.
    pub scales: [f32; 2],
    /// Minima of both halves, added after scaling; 0 if the format has none.
    pub mins: [f32; 2],
}

/// Properties that all blocks of a type share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockFormat {
    /// Bits of a quant.
    pub bits: u32,
    /// Zero point: subtracted from quants before scaling.
    pub zero: u8,
    /// True if the halves of 32 elements have scales of their own.
    pub halves: bool,
    /// True if anything is added.
    pub has_mins: bool,
    /// True if scales and minima are 16-bit floats, and not products of such.
    pub half_precision: bool,
}

impl BlockType {
    /// Returns the properties of the type's blocks.
    #[must_use]
    pub fn format(self) -> BlockFormat {
        let (bits, zero, halves, has_mins) = match self {
            Self::Q4_0 => (4, 8, false, false),
            Self::Q4_1 | Self::Q4K => (4, 0, false, true),
            Self::Q5_0 => (5, 16, false, false),
            Self::Q5_1 | Self::Q5K => (5, 0, false, true),
            Self::Q8_0 => (8, 128, false, false),
            Self::Q2K => (2, 0, true, true),
            Self::Q3K => (3, 4, true, false),
            Self::Q6K => (6, 32, true, false),
        };
        BlockFormat {
            bits,
            zero,
            halves,
            has_mins,
            half_precision: self.block().elements == PART,
        }
    }

    /// Elements `32 · index` and following of a block.
    ///
    /// # Panics
    /// When `block` is not one block of this type, or has no such elements.
    #[must_use]
    pub fn part(self, block: &[u8], index: usize) -> BlockPart {
        assert_eq!(block.len(), self.block().bytes, "one block");
        assert!(
            index < self.block().elements / PART,
            "elements of the block"
        );
        match self {
            Self::Q4_0 => q4(block, 2, [float_at(block, 0), 0.0]),
            Self::Q4_1 => q4(block, 4, [float_at(block, 0), float_at(block, 2)]),
            Self::Q5_0 => q5(block, 2, [float_at(block, 0), 0.0]),
            Self::Q5_1 => q5(block, 4, [float_at(block, 0), float_at(block, 2)]),
            Self::Q8_0 => q8(array(block)),
            Self::Q2K => q2_k(array(block), index),
            Self::Q3K => q3_k(array(block), index),
            Self::Q4K => q4_k(array(block), index),
            Self::Q5K => q5_k(array(block), index),
            Self::Q6K => q6_k(array(block), index),
        }
    }
}

fn array<const BYTES: usize>(block: &[u8]) -> &[u8; BYTES] {
    block
        .first_chunk()
        .expect("`part` has checked the length of the block")
}

fn float_at(block: &[u8], at: usize) -> f32 {
    float::<2>(array(&block[at..]), 0)
}

fn whole(quants: [u8; PART], [scale, min]: [f32; 2]) -> BlockPart {
    BlockPart {
        quants,
        scales: [scale; 2],
        mins: [min; 2],
    }
}

fn q4(block: &[u8], at: usize, scale_and_min: [f32; 2]) -> BlockPart {
    let nibbles: &[u8; 16] = array(&block[at..]);
    let mut quants = [0; PART];
    for (j, byte) in nibbles.iter().enumerate() {
        quants[j] = byte & 0xF;
        quants[j + 16] = byte >> 4;
    }
    whole(quants, scale_and_min)
}

fn q5(block: &[u8], at: usize, scale_and_min: [f32; 2]) -> BlockPart {
    let quants = five_bits(*array(&block[at..]), *array(&block[at + 4..]));
    whole(quants, scale_and_min)
}

fn q8(block: &[u8; 34]) -> BlockPart {
    let quants: [u8; PART] = part(block, 2);
    whole(quants.map(|q| q ^ 0x80), [float(block, 0), 0.0])
}

fn q2_k(block: &[u8; 84], index: usize) -> BlockPart {
    let scales: [u8; 16] = part(block, 0);
    let quants: [u8; 64] = part(block, 16);
    let (d, dmin) = (float(block, 80), float(block, 82));
    let mut found = whole([0; PART], [0.0; 2]);
    for half in 0..2 {
        let sub = 2 * index + half;
        let (start, shift) = two_bit_place(sub);
        found.scales[half] = d * f32::from(scales[sub] & 0xF);
        found.mins[half] = -(dmin * f32::from(scales[sub] >> 4));
        for j in 0..16 {
            found.quants[16 * half + j] = (quants[start + j] >> shift) & 3;
        }
    }
    found
}

fn q3_k(block: &[u8; 110], index: usize) -> BlockPart {
    let high: [u8; 32] = part(block, 0);
    let quants: [u8; 64] = part(block, 32);
    let scales = six_bit_scales(part(block, 96));
    let d = float(block, 108);
    let mut found = whole([0; PART], [0.0; 2]);
    for half in 0..2 {
        let sub = 2 * index + half;
        let (start, shift) = two_bit_place(sub);
        found.scales[half] = d * f32::from(scales[sub].cast_signed() - 32);
        for j in 0..16 {
            let low = (quants[start + j] >> shift) & 3;
            let third = (high[16 * half + j] >> index) & 1;
            found.quants[16 * half + j] = low | third << 2;
        }
    }
    found
}

fn q4_k(block: &[u8; 144], index: usize) -> BlockPart {
    let scale_and_min = k_scale_and_min(float(block, 0), float(block, 2), part(block, 4), index);
    let nibbles: [u8; PART] = part(block, 16 + index / 2 * 32);
    let shift = index % 2 * 4;
    whole(nibbles.map(|byte| (byte >> shift) & 0xF), scale_and_min)
}

fn q5_k(block: &[u8; 176], index: usize) -> BlockPart {
    let scale_and_min = k_scale_and_min(float(block, 0), float(block, 2), part(block, 4), index);
    let high: [u8; PART] = part(block, 16);
    let nibbles: [u8; PART] = part(block, 48 + index / 2 * 32);
    let shift = index % 2 * 4;
    let quant = |j: usize| (nibbles[j] >> shift) & 0xF | ((high[j] >> index) & 1) << 4;
    whole(std::array::from_fn(quant), scale_and_min)
}

fn k_scale_and_min(d: f32, dmin: f32, packed: [u8; 12], index: usize) -> [f32; 2] {
    let (scales, mins) = scales_and_mins(packed);
    [
        d * f32::from(scales[index]),
        -(dmin * f32::from(mins[index])),
    ]
}

fn q6_k(block: &[u8; 210], index: usize) -> BlockPart {
    let scales: [u8; 16] = part(block, 192);
    let d = float(block, 208);
    // See `k_quants::q6_k`: four passes over each half of the block.
    let (half, pass) = (index / 4, index % 4);
    let low: [u8; PART] = part(block, half * 64 + pass % 2 * 32);
    let high: [u8; PART] = part(block, 128 + half * 32);
    let quant = |j: usize| (low[j] >> (pass / 2 * 4)) & 0xF | ((high[j] >> (pass * 2)) & 3) << 4;
    let scale = |sub: usize| d * f32::from(scales[sub].cast_signed());
    BlockPart {
        quants: std::array::from_fn(quant),
        scales: [scale(2 * index), scale(2 * index + 1)],
        mins: [0.0; 2],
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::load::gguf::decode_blocks;

    const ALL: [BlockType; 10] = [
        BlockType::Q4_0,
        BlockType::Q4_1,
        BlockType::Q5_0,
        BlockType::Q5_1,
        BlockType::Q8_0,
        BlockType::Q2K,
        BlockType::Q3K,
        BlockType::Q4K,
        BlockType::Q5K,
        BlockType::Q6K,
    ];

    #[test]
    fn parts_spell_what_blocks_decode_to() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        for block_type in ALL {
            let size = block_type.block();
            let format = block_type.format();
            for _ in 0..200 {
                let mut block = vec![0; size.bytes];
                random.fill_bytes(&mut block);
                let mut decoded = vec![0.0; size.elements];
                decode_blocks(block_type, &block, &mut decoded);
                for (index, decoded) in decoded.chunks(PART).enumerate() {
                    let part = block_type.part(&block, index);
                    assert!(part.quants.iter().all(|q| u32::from(*q) < 1 << format.bits));
                    for (i, expected) in decoded.iter().enumerate() {
                        let quant = i32::from(part.quants[i]) - i32::from(format.zero);
                        let product = part.scales[i / 16] * quant as f32;
                        let value = match format.has_mins {
                            true => product + part.mins[i / 16],
                            false => product,
                        };
                        assert!(
                            value == *expected || value.is_nan() && expected.is_nan(),
                            "{block_type:?}: {value}, not {expected}"
                        );
                    }
                }
            }
        }
    }
}
