//! Products of plain weights with plain activations.
//!
//! Rows of a matrix are kept in tiles of 16, one a lane:
//!
//! ```text
//!              lane 0     lane 1           lane 15
//! column 0   | row 0    | row 1    | …   | row 15   |
//! column 1   | row 0    | row 1    | …   | row 15   |
//! …
//! ```
//!
//! Activations stand in panels of eight tokens; see [`super::activations`]. Products are added up
//! column after column, whatever else runs beside.

use std::ops::Range;

use half::f16;

use super::{
    activations::PANEL,
    huge_page_arena::Slice,
    simd::{Kernel, LANES, Simd},
};

/// The elements of a matrix, `[tile][column]`, as they are stored.
#[derive(Debug)]
pub(in crate::model::exec::cpu) enum Numbers {
    F32(Slice<[f32; LANES]>),
    F16(Slice<[f16; LANES]>),
    /// Brain floats, as their bits.
    Bf16(Slice<[u16; LANES]>),
}

/// A matrix of plain weights.
#[derive(Debug)]
pub(in crate::model::exec::cpu) struct Dense {
    pub(in crate::model::exec::cpu) tiles: usize,
    pub(in crate::model::exec::cpu) columns: usize,
    pub(in crate::model::exec::cpu) numbers: Numbers,
}

/// Some tiles of a matrix times the tokens of some panels.
pub(in crate::model::exec::cpu) struct DenseMatmul<'a> {
    pub(in crate::model::exec::cpu) weights: &'a Dense,
    pub(in crate::model::exec::cpu) tiles: Range<usize>,
    /// `[panel][column]`.
    pub(in crate::model::exec::cpu) x: &'a [[f32; PANEL]],
    pub(in crate::model::exec::cpu) tokens: usize,
    /// Added to each row, for all tiles of the matrix.
    pub(in crate::model::exec::cpu) bias: Option<&'a [[f32; LANES]]>,
    /// `[tile of the range][token]`.
    pub(in crate::model::exec::cpu) out: &'a mut [[f32; LANES]],
}

impl Kernel for DenseMatmul<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match &self.weights.numbers {
            Numbers::F32(all) => self.run_on(s, all, S::load),
            Numbers::F16(all) => self.run_on(s, all, S::load_f16),
            Numbers::Bf16(all) => self.run_on(s, all, S::load_bf16),
        }
    }
}

impl DenseMatmul<'_> {
    #[inline(always)]
    fn run_on<S: Simd, T>(
        self,
        s: S,
        all: &[[T; LANES]],
        load: impl Fn(S, &[T; LANES]) -> S::F + Copy,
    ) {
        let (columns, tokens) = (self.weights.columns, self.tokens);
        assert_eq!(all.len(), self.weights.tiles * columns);
        assert!(self.tiles.end <= self.weights.tiles);
        assert_eq!(self.x.len(), tokens.div_ceil(PANEL) * columns);
        assert_eq!(self.out.len(), self.tiles.len() * tokens);
        for (index, panel) in self.x.chunks_exact(columns).enumerate() {
            let first = index * PANEL;
            let filled = PANEL.min(tokens - first);
            let width = filled.next_power_of_two().min(S::COLUMNS);
            for (out, tile) in self.out.chunks_exact_mut(tokens).zip(self.tiles.clone()) {
                let weights = &all[tile * columns..(tile + 1) * columns];
                let bias = self.bias.map(|bias| s.load(&bias[tile]));
                let out = &mut out[first..first + filled];
                for (at, out) in out.chunks_mut(width).enumerate() {
                    let tile = Tile {
                        weights,
                        load,
                        bias,
                    };
                    match width {
                        1 => tile.multiply::<1>(s, panel, at, out),
                        2 => tile.multiply::<2>(s, panel, at, out),
                        4 => tile.multiply::<4>(s, panel, at, out),
                        _ => tile.multiply::<8>(s, panel, at, out),
                    }
                }
            }
        }
    }
}

/// One tile of a matrix.
struct Tile<'a, S: Simd, T, L> {
    weights: &'a [[T; LANES]],
    load: L,
    bias: Option<S::F>,
}

impl<S: Simd, T, L: Fn(S, &[T; LANES]) -> S::F> Tile<'_, S, T, L> {
    /// The tile times tokens number `N · at` and following of a panel.
    #[inline(always)]
    fn multiply<const N: usize>(
        &self,
        s: S,
        panel: &[[f32; PANEL]],
        at: usize,
        out: &mut [[f32; LANES]],
    ) {
        assert!(at < PANEL / N);
        let mut sums = [s.splat(0.0); N];
        for (weights, x) in self.weights.iter().zip(panel) {
            let weights = (self.load)(s, weights);
            let x = &x.as_chunks::<N>().0[at];
            for c in 0..N {
                sums[c] = s.fma(weights, s.splat(x[c]), sums[c]);
            }
        }
        for (sum, out) in sums.into_iter().zip(out) {
            s.store(self.bias.map_or(sum, |bias| s.add(sum, bias)), out);
        }
    }
}
