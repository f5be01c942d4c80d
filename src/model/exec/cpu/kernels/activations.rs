//! Activations in the form that products of matrices take them in.
//!
//! Tokens stand in panels of eight, so that what one instruction needs of each of them lies side
//! by side. Quantised, for each block of 32 columns:
//!
//! ```text
//!             token 0          token 1                token 7
//! quants[v] | 4v … 4v+3      | 4v … 4v+3      | … |  4v … 4v+3      |   v = 0 … 7, a byte each
//! scales    | f32            | f32            | … |  f32            |
//! sums[p]   | the sum of part p of the activations, f32              |
//! shifts[p] | -128 times the sum of their quants, i32                |
//! ```
//!
//! Part 0 is all 32 columns, parts 1 and 2 are their halves.
//!
//! As plain numbers, a panel has for each column the numbers of its eight tokens. Places of a panel
//! that no token fills hold anything: nothing that is computed from them is kept.

use super::{
    quantised::BLOCK,
    simd::{Kernel, LANES, Simd},
};

/// Tokens of a panel.
pub(in crate::model::exec::cpu) const PANEL: usize = 8;

/// Largest quant of an activation; the smallest one is its opposite.
const QUANT_MAX: f32 = 127.0;

/// The largest magnitude of a block that counts as 0: its reciprocal still is a number.
const MAGNITUDE_ZERO: f32 = 1e-30;

/// 32 columns of eight tokens, quantised.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
pub(in crate::model::exec::cpu) struct PanelBlock {
    pub(in crate::model::exec::cpu) quants: [[[i8; 4]; PANEL]; 8],
    pub(in crate::model::exec::cpu) scales: [f32; PANEL],
    pub(in crate::model::exec::cpu) sums: [[f32; PANEL]; 3],
    pub(in crate::model::exec::cpu) shifts: [[i32; PANEL]; 3],
}

/// Quantises one token's activations into its place in a panel: for each block the scale with which
/// its largest magnitude becomes 127.
pub(in crate::model::exec::cpu) struct Quantise<'a> {
    /// Whole blocks.
    pub(in crate::model::exec::cpu) row: &'a [f32],
    /// The blocks of the panel.
    pub(in crate::model::exec::cpu) panel: &'a mut [PanelBlock],
    /// The token's place in the panel.
    pub(in crate::model::exec::cpu) token: usize,
}

impl Kernel for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.row.len(), self.panel.len() * BLOCK);
        assert!(self.token < PANEL);
        for (values, block) in self.row.as_chunks::<BLOCK>().0.iter().zip(self.panel) {
            let halves = values.as_chunks::<LANES>().0;
            let values = [s.load(&halves[0]), s.load(&halves[1])];
            let magnitude = s.largest(s.max(s.abs(values[0]), s.abs(values[1])));
            let scale = magnitude / QUANT_MAX;
            let mut totals = [0; 3];
            let factor = if magnitude <= MAGNITUDE_ZERO {
                0.0
            } else {
                QUANT_MAX / magnitude
            };
            for (half, values) in values.into_iter().enumerate() {
                let quants = s.float_to_int(s.mul(values, s.splat(factor)));
                totals[1 + half] = s.sum_int(quants);
                let mut bytes = [0; LANES];
                s.store_i8(quants, &mut bytes);
                for (v, four) in bytes.as_chunks::<4>().0.iter().enumerate() {
                    block.quants[4 * half + v][self.token] = *four;
                }
            }
            totals[0] = totals[1] + totals[2];
            block.scales[self.token] = scale;
            for (part, total) in totals.into_iter().enumerate() {
                block.sums[part][self.token] = scale * total as f32;
                block.shifts[part][self.token] = -128 * total;
            }
        }
    }
}

/// Puts one token's activations into its place in a panel of plain numbers.
pub(in crate::model::exec::cpu) fn spread(row: &[f32], panel: &mut [[f32; PANEL]], token: usize) {
    for (value, column) in row.iter().zip(panel) {
        column[token] = *value;
    }
}
