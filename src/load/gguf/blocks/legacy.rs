//! Blocks of 32 elements with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//!
//! Nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.

use super::{float, part};

/// `scale · (q - 8)`: f16 scale, 16 bytes of nibbles.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = float(block, 0);
    let nibbles: [u8; 16] = part(block, 2);
    for (j, byte) in nibbles.into_iter().enumerate() {
        out[j] = scale * (i32::from(byte & 0xF) - 8) as f32;
        out[j + 16] = scale * (i32::from(byte >> 4) - 8) as f32;
    }
}

/// `scale · q + min`: f16 scale, f16 min, 16 bytes of nibbles.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, min) = (float(block, 0), float(block, 2));
    let nibbles: [u8; 16] = part(block, 4);
    for (j, byte) in nibbles.into_iter().enumerate() {
        out[j] = scale * f32::from(byte & 0xF) + min;
        out[j + 16] = scale * f32::from(byte >> 4) + min;
    }
}

/// `scale · (q - 16)`: f16 scale, 32 fifth bits, 16 bytes of nibbles.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let scale = float(block, 0);
    let quants = five_bits(part(block, 2), part(block, 6));
    for (value, q) in out.iter_mut().zip(quants) {
        *value = scale * (i32::from(q) - 16) as f32;
    }
}

/// `scale · q + min`: f16 scale, f16 min, 32 fifth bits, 16 bytes of nibbles.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, min) = (float(block, 0), float(block, 2));
    let quants = five_bits(part(block, 4), part(block, 8));
    for (value, q) in out.iter_mut().zip(quants) {
        *value = scale * f32::from(q) + min;
    }
}

/// `scale · q`: f16 scale, 32 signed bytes.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let scale = float(block, 0);
    let quants: [u8; 32] = part(block, 2);
    for (value, q) in out.iter_mut().zip(quants) {
        *value = scale * f32::from(q.cast_signed());
    }
}

/// Puts the fifth bit, bit `j` of the word for element `j`, on top of the nibbles.
pub(super) fn five_bits(high: [u8; 4], nibbles: [u8; 16]) -> [u8; 32] {
    let high = u32::from_le_bytes(high);
    let mut quants = [0; 32];
    for (j, byte) in nibbles.into_iter().enumerate() {
        quants[j] = (byte & 0xF) | ((high >> j) << 4) as u8 & 0x10;
        quants[j + 16] = (byte >> 4) | (high >> (j + 12)) as u8 & 0x10;
    }
    quants
}
