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
//! Eight bits leave up to half a step of each activation. Where that matters, a second block takes
//! it as 254ths of a step, in the same places: then an activation has sixteen bits, and the sums
//! are of both.
//!
//! As plain numbers, a panel has for each column the numbers of its eight tokens. Places of a panel
//! that no token fills hold anything: nothing that is computed from them is kept.

use super::{
    layout::BLOCK,
    simd::{Kernel, LANES, Simd},
};

/// Tokens of a panel.
pub(in crate::model::exec::cpu) const PANEL: usize = 8;

/// Largest quant of an activation; the smallest one is its opposite.
const QUANT_MAX: f32 = 127.0;

/// Steps of a remainder in a step of an activation: half of one becomes [`QUANT_MAX`].
pub(super) const FINE: f32 = 2.0 * QUANT_MAX;

/// The largest magnitude of a block that counts as 0: its reciprocal still is a number.
const MAGNITUDE_ZERO: f32 = 1e-30;

/// Bytes for 32 columns of eight tokens, `[four columns][token]`.
pub(super) type Quants = [[[i8; 4]; PANEL]; 8];

/// Numbers for the parts of a block, `[part][token]`.
pub(super) type OfParts<T> = [[T; PANEL]; 3];

/// 32 columns of eight tokens, quantised.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
pub(in crate::model::exec::cpu) struct PanelBlock {
    pub(super) quants: Quants,
    pub(super) scales: [f32; PANEL],
    pub(super) sums: OfParts<f32>,
    pub(super) shifts: OfParts<i32>,
}

/// The remainder of a block's activations after their 8-bit quants.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
pub(in crate::model::exec::cpu) struct Remainder {
    pub(super) quants: Quants,
    pub(super) shifts: OfParts<i32>,
}

/// Quantises one token's activations into its place in a panel: for each block the scale with which
/// its largest magnitude becomes 127.
pub(in crate::model::exec::cpu) struct Quantise<'a> {
    /// Whole blocks.
    pub(in crate::model::exec::cpu) row: &'a [f32],
    /// The blocks of the panel.
    pub(in crate::model::exec::cpu) panel: &'a mut [PanelBlock],
    /// The same blocks' remainders, where they are wanted.
    pub(in crate::model::exec::cpu) remainders: Option<&'a mut [Remainder]>,
    /// The token's place in the panel.
    pub(in crate::model::exec::cpu) token: usize,
}

impl Kernel for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        assert_eq!(self.row.len(), self.panel.len() * BLOCK);
        assert!(self.token < PANEL);
        for (index, values) in self.row.as_chunks::<BLOCK>().0.iter().enumerate() {
            let halves = values.as_chunks::<LANES>().0;
            let values = [s.load(&halves[0]), s.load(&halves[1])];
            let magnitude = s.largest(s.max(s.abs(values[0]), s.abs(values[1])));
            let factor = if magnitude <= MAGNITUDE_ZERO {
                0.0
            } else {
                QUANT_MAX / magnitude
            };
            let steps = values.map(|values| s.mul(values, s.splat(factor)));
            let quants = steps.map(|steps| s.float_to_int(steps));
            let block = &mut self.panel[index];
            let mut totals = place(s, quants, self.token, &mut block.quants, &mut block.shifts)
                .map(|t| t as f32);
            if let Some(remainders) = &mut self.remainders {
                let left = [0, 1].map(|half| s.sub(steps[half], s.int_to_float(quants[half])));
                let quants = left.map(|left| s.float_to_int(s.mul(left, s.splat(FINE))));
                let Remainder {
                    quants: places,
                    shifts,
                } = &mut remainders[index];
                let fine = place(s, quants, self.token, places, shifts);
                for (total, fine) in totals.iter_mut().zip(fine) {
                    *total += fine as f32 / FINE;
                }
            }
            let scale = magnitude / QUANT_MAX;
            block.scales[self.token] = scale;
            for (sums, total) in block.sums.iter_mut().zip(totals) {
                sums[self.token] = scale * total;
            }
        }
    }
}

/// Puts a token's quants into their places; gives their sum for each part.
#[inline(always)]
fn place<S: Simd>(
    s: S,
    quants: [S::I; 2],
    token: usize,
    places: &mut Quants,
    shifts: &mut OfParts<i32>,
) -> [i32; 3] {
    let mut totals = [0; 3];
    for (half, quants) in quants.into_iter().enumerate() {
        totals[1 + half] = s.sum_int(quants);
        let mut bytes = [0; LANES];
        s.store_i8(quants, &mut bytes);
        for (v, four) in bytes.as_chunks::<4>().0.iter().enumerate() {
            places[4 * half + v][token] = *four;
        }
    }
    totals[0] = totals[1] + totals[2];
    for (shifts, total) in shifts.iter_mut().zip(totals) {
        shifts[token] = -128 * total;
    }
    totals
}

/// Puts one token's activations into its place in a panel of plain numbers.
pub(in crate::model::exec::cpu) fn spread(row: &[f32], panel: &mut [[f32; PANEL]], token: usize) {
    for (value, column) in row.iter().zip(panel) {
        column[token] = *value;
    }
}
