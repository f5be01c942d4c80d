//! Super-blocks of 256 elements whose sub-blocks have small scales of their own: Q2_K to Q6_K.

use super::{float, part};

/// `(d · scale) · q - (dmin · min)`: 16 bytes of 4-bit scales and mins, 64 bytes of 2-bit quants,
/// f16 `d`, f16 `dmin`; sub-blocks of 16.
pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let scales: [u8; 16] = part(block, 0);
    let quants: [u8; 64] = part(block, 16);
    let (d, dmin) = (float(block, 80), float(block, 82));
    for (sub, values) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[sub] & 0xF);
        let min = dmin * f32::from(scales[sub] >> 4);
        let (start, shift) = two_bit_place(sub);
        for (value, byte) in values.iter_mut().zip(&quants[start..start + 16]) {
            *value = scale * f32::from((byte >> shift) & 3) - min;
        }
    }
}

/// `(d · (scale - 32)) · (q - 4)`: 32 bytes of third bits, 64 bytes of low bits, 12 bytes of 6-bit
/// scales, f16 `d`; sub-blocks of 16.
pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let high: [u8; 32] = part(block, 0);
    let quants: [u8; 64] = part(block, 32);
    let scales = six_bit_scales(part(block, 96));
    let d = float(block, 108);
    for (sub, values) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[sub].cast_signed() - 32);
        let (start, shift) = two_bit_place(sub);
        let high_bit = sub / 2;
        let high_start = sub % 2 * 16;
        for (j, value) in values.iter_mut().enumerate() {
            let low = (quants[start + j] >> shift) & 3;
            let third = (high[high_start + j] >> high_bit) & 1;
            *value = scale * f32::from((low | third << 2).cast_signed() - 4);
        }
    }
}

/// `(d · scale) · q - (dmin · min)`: f16 `d`, f16 `dmin`, 12 bytes of 6-bit scales and mins, 128
/// bytes of nibbles; sub-blocks of 32.
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, dmin) = (float(block, 0), float(block, 2));
    let (scales, mins) = scales_and_mins(part(block, 4));
    let nibbles: [u8; 128] = part(block, 16);
    for (sub, values) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = (d * f32::from(scales[sub]), dmin * f32::from(mins[sub]));
        let (start, shift) = (sub / 2 * 32, sub % 2 * 4);
        for (value, byte) in values.iter_mut().zip(&nibbles[start..start + 32]) {
            *value = scale * f32::from((byte >> shift) & 0xF) - min;
        }
    }
}

/// As Q4_K, with 32 bytes of fifth bits between the scales and the nibbles.
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, dmin) = (float(block, 0), float(block, 2));
    let (scales, mins) = scales_and_mins(part(block, 4));
    let high: [u8; 32] = part(block, 16);
    let nibbles: [u8; 128] = part(block, 48);
    for (sub, values) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = (d * f32::from(scales[sub]), dmin * f32::from(mins[sub]));
        let (start, shift) = (sub / 2 * 32, sub % 2 * 4);
        for (j, value) in values.iter_mut().enumerate() {
            let low = (nibbles[start + j] >> shift) & 0xF;
            let fifth = (high[j] >> sub) & 1;
            *value = scale * f32::from(low | fifth << 4) - min;
        }
    }
}

/// `(d · scale) · (q - 32)`: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed
/// scales, f16 `d`; sub-blocks of 16.
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let low: [u8; 128] = part(block, 0);
    let high: [u8; 64] = part(block, 128);
    let scales: [u8; 16] = part(block, 192);
    let d = float(block, 208);
    for (sub, values) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[sub].cast_signed());
        // Each half of 128 elements has 64 bytes of nibbles and 32 of pairs, used in four passes
        // of 32 elements: two over the low nibbles, then two over the high ones.
        let (half, pass, offset) = (sub / 8, sub / 2 % 4, sub % 2 * 16);
        let low_start = half * 64 + pass % 2 * 32 + offset;
        let high_start = half * 32 + offset;
        for (j, value) in values.iter_mut().enumerate() {
            let nibble = (low[low_start + j] >> (pass / 2 * 4)) & 0xF;
            let pair = (high[high_start + j] >> (pass * 2)) & 3;
            *value = scale * f32::from((nibble | pair << 4).cast_signed() - 32);
        }
    }
}

/// Returns the position of a sub-block's 16 two-bit quants: first byte, and shift within bytes.
/// Each half of 128 elements has 32 bytes, used in four passes of 32 elements.
pub(super) fn two_bit_place(sub: usize) -> (usize, usize) {
    (sub / 8 * 32 + sub % 2 * 16, sub / 2 % 4 * 2)
}

/// Q3_K's sixteen 6-bit scales: 8 bytes of nibbles, then 4 bytes of bit pairs.
pub(super) fn six_bit_scales(packed: [u8; 12]) -> [u8; 16] {
    let mut scales = [0; 16];
    for (j, scale) in scales.iter_mut().enumerate() {
        let nibble = (packed[j % 8] >> (j / 8 * 4)) & 0xF;
        let pair = (packed[8 + j % 4] >> (j / 4 * 2)) & 3;
        *scale = nibble | pair << 4;
    }
    scales
}

/// Q4_K's eight 6-bit scales and mins. The first four of each are the low six bits of bytes 0 to 3
/// and 4 to 7; those of the last four are a nibble of bytes 8 to 11 and the two bits left over.
pub(super) fn scales_and_mins(packed: [u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        mins[j] = packed[j + 4] & 63;
        scales[j + 4] = packed[j + 8] & 0xF | packed[j] >> 6 << 4;
        mins[j + 4] = packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4;
    }
    (scales, mins)
}
