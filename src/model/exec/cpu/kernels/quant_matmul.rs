//! Matrix products of quantised weights and quantised activations.
//!
//! A weight is `scale · (quant - zero) + min`, an activation `scale · quant`. Rows of a matrix are
//! in tiles of 16, one row for each lane, and columns in blocks of 32. Within a tile, a block is a
//! few lines of 64 bytes. Each lane of a line has four bytes of its row:
//!
//! ```text
//!                  lane 0         lane 1               lane 15
//! 8 bits           row 0          row 1                row 15
//! line v         | 4v … 4v+3    | 4v … 4v+3    | …   | 4v … 4v+3    |    v = 0 … 7
//!
//! 4 bits: the low nibbles are the columns of line p, the high ones those of line p + 4
//! line p         | 4p … 4p+3    | 4p … 4p+3    | …   | 4p … 4p+3    |    p = 0 … 3
//!                | 16+4p …      | 16+4p …      | …   | 16+4p …      |
//!
//! 5 bits: the same four lines, and a fifth with the highest bits
//! line 4         | word 0 | word 1 | … | word 7 |   bit 4r + i of word v: lane r, column 4v + i
//! ```
//!
//! Scales and minima are separate, 16 of each for every block of a tile (or for every half block).
//! Activations are in panels of eight tokens; see [`PanelBlock`].
//!
//! One line times four bytes of a token is one instruction: 64 products. The sums of a block are
//! exact integers. The kernel scales them and adds them up in the order of the blocks. So a token's
//! result never depends on its neighbours.

use std::ops::Range;

use half::f16;

use super::{
    activations::{FINE, OfParts, PANEL, PanelBlock, Quants, Remainder},
    huge_page_arena::Slice,
    layout::QuantLine,
    simd::{Kernel, LANES, Simd},
};

/// Storage of a matrix's quants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model::exec::cpu) enum Packing {
    /// 4 bits; a scale for every block.
    Four,
    /// 5 bits; a scale for every block.
    Five,
    /// 8 bits; a scale for every block.
    Eight,
    /// 8 bits; a scale for every half of a block.
    EightByHalves,
}

impl Packing {
    /// Lines of a block.
    pub(in crate::model::exec::cpu) fn lines(self) -> usize {
        match self {
            Self::Four => Four::LINES,
            Self::Five => Five::LINES,
            Self::Eight | Self::EightByHalves => 8,
        }
    }

    /// Scales of a block.
    pub(in crate::model::exec::cpu) fn groups(self) -> usize {
        match self {
            Self::EightByHalves => 2,
            _ => 1,
        }
    }
}

/// Numbers for each lane of groups of columns.
#[derive(Debug)]
pub(in crate::model::exec::cpu) enum Scales {
    F16(Slice<[f16; LANES]>),
    F32(Slice<[f32; LANES]>),
}

impl Scales {
    #[inline(always)]
    fn load<S: Simd>(&self, s: S, index: usize) -> S::F {
        match self {
            Self::F16(all) => s.load_f16(&all[index]),
            Self::F32(all) => s.load(&all[index]),
        }
    }

    /// One number.
    pub(in crate::model::exec::cpu) fn get(&self, index: usize, lane: usize) -> f32 {
        match self {
            Self::F16(all) => all[index][lane].to_f32(),
            Self::F32(all) => all[index][lane],
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::F16(all) => all.len(),
            Self::F32(all) => all.len(),
        }
    }
}

/// A matrix of quantised weights.
#[derive(Debug)]
pub(in crate::model::exec::cpu) struct Quantised {
    pub(in crate::model::exec::cpu) packing: Packing,
    pub(in crate::model::exec::cpu) tiles: usize,
    /// Blocks of a row.
    pub(in crate::model::exec::cpu) blocks: usize,
    /// Taken from every quant: 0, or half of what the packing has room for.
    pub(in crate::model::exec::cpu) zero: i32,
    /// `[tile][block][line]`.
    pub(in crate::model::exec::cpu) lines: Slice<QuantLine>,
    /// `[tile][block][group]`.
    pub(in crate::model::exec::cpu) scales: Scales,
    /// Like the scales.
    pub(in crate::model::exec::cpu) mins: Option<Scales>,
}

impl Quantised {
    fn check(&self) {
        let groups = self.tiles * self.blocks * self.packing.groups();
        assert_eq!(
            self.lines.len(),
            self.tiles * self.blocks * self.packing.lines()
        );
        assert_eq!(self.scales.len(), groups);
        assert!(self.mins.as_ref().is_none_or(|mins| mins.len() == groups));
    }
}

/// Some tiles of a matrix times the tokens of some panels.
pub(in crate::model::exec::cpu) struct QuantMatmul<'a> {
    pub(in crate::model::exec::cpu) weights: &'a Quantised,
    pub(in crate::model::exec::cpu) tiles: Range<usize>,
    /// `[panel][block]`.
    pub(in crate::model::exec::cpu) x: &'a [PanelBlock],
    /// Like `x`, where activations have sixteen bits.
    pub(in crate::model::exec::cpu) remainders: Option<&'a [Remainder]>,
    pub(in crate::model::exec::cpu) tokens: usize,
    /// Added to each row, for all tiles of the matrix.
    pub(in crate::model::exec::cpu) bias: Option<&'a [[f32; LANES]]>,
    /// `[tile of the range][token]`.
    pub(in crate::model::exec::cpu) out: &'a mut [[f32; LANES]],
}

impl Kernel for QuantMatmul<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.remainders {
            None => self.run_with::<S, false>(s, &[]),
            Some(remainders) => self.run_with::<S, true>(s, remainders),
        }
    }
}

impl QuantMatmul<'_> {
    #[inline(always)]
    fn run_with<S: Simd, const SIXTEEN: bool>(self, s: S, remainders: &[Remainder]) {
        match self.weights.packing {
            Packing::Four => self.run_as::<S, Four, SIXTEEN>(s, remainders),
            Packing::Five => self.run_as::<S, Five, SIXTEEN>(s, remainders),
            Packing::Eight => self.run_as::<S, Eight<1>, SIXTEEN>(s, remainders),
            Packing::EightByHalves => self.run_as::<S, Eight<2>, SIXTEEN>(s, remainders),
        }
    }

    /// A panel stays in the nearest cache while all tiles are multiplied with it.
    #[inline(always)]
    fn run_as<S: Simd, W: Format, const SIXTEEN: bool>(self, s: S, remainders: &[Remainder]) {
        let Self {
            weights, tokens, ..
        } = self;
        weights.check();
        assert!(weights.zero == 0 || weights.zero == W::ZERO);
        assert!(self.tiles.end <= weights.tiles);
        assert_eq!(self.x.len(), tokens.div_ceil(PANEL) * weights.blocks);
        assert_eq!(self.out.len(), self.tiles.len() * tokens);
        assert_eq!(remainders.len(), if SIXTEEN { self.x.len() } else { 0 });
        for (index, panel) in self.x.chunks_exact(weights.blocks).enumerate() {
            let first = index * PANEL;
            let filled = PANEL.min(tokens - first);
            let first_block = index * if SIXTEEN { weights.blocks } else { 0 };
            let panel = Panel {
                blocks: panel,
                remainders: &remainders[first_block..],
            };
            // Twice as many sums need twice the registers.
            let width = filled.next_power_of_two().min(S::COLUMNS / W::GROUPS);
            for (out, tile) in self.out.chunks_exact_mut(tokens).zip(self.tiles.clone()) {
                let tile = Tile::<W>::new(weights, tile, self.bias);
                let out = &mut out[first..first + filled];
                for (at, out) in out.chunks_mut(width).enumerate() {
                    match width {
                        1 => tile.multiply::<S, 1, SIXTEEN>(s, panel, at, out),
                        2 => tile.multiply::<S, 2, SIXTEEN>(s, panel, at, out),
                        4 => tile.multiply::<S, 4, SIXTEEN>(s, panel, at, out),
                        _ => tile.multiply::<S, 8, SIXTEEN>(s, panel, at, out),
                    }
                }
            }
        }
    }
}

/// A panel's blocks; without remainders where activations have eight bits.
#[derive(Clone, Copy)]
struct Panel<'a> {
    blocks: &'a [PanelBlock],
    remainders: &'a [Remainder],
}

/// One tile of a matrix.
struct Tile<'a, W> {
    weights: &'a Quantised,
    lines: &'a [QuantLine],
    first_group: usize,
    bias: Option<&'a [f32; LANES]>,
    format: std::marker::PhantomData<W>,
}

impl<'a, W: Format> Tile<'a, W> {
    #[inline(always)]
    fn new(weights: &'a Quantised, tile: usize, bias: Option<&'a [[f32; LANES]]>) -> Self {
        let len = weights.blocks * W::LINES;
        Self {
            weights,
            lines: &weights.lines[tile * len..(tile + 1) * len],
            first_group: tile * weights.blocks * W::GROUPS,
            bias: bias.map(|bias| &bias[tile]),
            format: std::marker::PhantomData,
        }
    }

    /// Starts the sums with the correction for quants whose zero point is not 0.
    #[inline(always)]
    fn start<S: Simd, const N: usize>(&self, s: S, shifts: &[i32; N], dots: &mut [S::I; N]) {
        let (has_zero, taken) = (self.weights.zero != 0, W::IS_BYTES && S::TAKES_128);
        for c in 0..N {
            dots[c] = match (has_zero, taken) {
                (true, true) | (false, false) => s.splat_int(0),
                (true, false) => W::zeros(s, s.splat_int(shifts[c])),
                (false, true) => s.splat_int(-shifts[c]),
            };
        }
    }

    /// A block's products with the quants of `N` tokens, summed; for each half if both have a scale.
    #[inline(always)]
    fn dots<S: Simd, const N: usize>(
        &self,
        s: S,
        lines: &[QuantLine],
        (quants, shifts): (&Quants, &OfParts<i32>),
        at: usize,
    ) -> [[S::I; N]; 2] {
        let mut dots = [[s.splat_int(0); N]; 2];
        for (half, dots) in dots.iter_mut().enumerate().take(W::GROUPS) {
            self.start(s, of_part(&shifts[part::<W>(half)], at), dots);
        }
        W::add_products(s, lines, quants, at, &mut dots);
        dots
    }

    /// The tile times tokens number `N · at` and following of a panel.
    #[inline(always)]
    fn multiply<S: Simd, const N: usize, const SIXTEEN: bool>(
        &self,
        s: S,
        panel: Panel<'_>,
        at: usize,
        out: &mut [[f32; LANES]],
    ) {
        assert!(at < PANEL / N);
        let mut sums = [s.splat(0.0); N];
        let mut group = self.first_group;
        let blocks = self.lines.chunks_exact(W::LINES).zip(panel.blocks);
        for (index, (lines, x)) in blocks.enumerate() {
            let scales: &[f32; N] = &x.scales.as_chunks().0[at];
            let whole = self.dots::<S, N>(s, lines, (&x.quants, &x.shifts), at);
            let mut dots = [[s.splat(0.0); N]; 2];
            for half in 0..W::GROUPS {
                for c in 0..N {
                    dots[half][c] = s.int_to_float(whole[half][c]);
                }
            }
            if SIXTEEN {
                let Remainder { quants, shifts } = &panel.remainders[index];
                let fine = self.dots::<S, N>(s, lines, (quants, shifts), at);
                for half in 0..W::GROUPS {
                    for c in 0..N {
                        let fine = s.int_to_float(fine[half][c]);
                        dots[half][c] = s.fma(fine, s.splat(1.0 / FINE), dots[half][c]);
                    }
                }
            }
            for (half, dots) in dots.iter().enumerate().take(W::GROUPS) {
                let scale = self.weights.scales.load(s, group);
                for c in 0..N {
                    sums[c] = s.fma(dots[c], s.mul(scale, s.splat(scales[c])), sums[c]);
                }
                if let Some(mins) = &self.weights.mins {
                    let min = mins.load(s, group);
                    let of_x: &[f32; N] = of_part(&x.sums[part::<W>(half)], at);
                    for c in 0..N {
                        sums[c] = s.fma(min, s.splat(of_x[c]), sums[c]);
                    }
                }
                group += 1;
            }
        }
        for (sum, out) in sums.into_iter().zip(out) {
            let sum = match self.bias {
                Some(bias) => s.add(sum, s.load(bias)),
                None => sum,
            };
            s.store(sum, out);
        }
    }
}

/// Returns the index of the activation sums that belong to a scale; see [`PanelBlock`].
#[inline(always)]
fn part<W: Format>(half: usize) -> usize {
    if W::GROUPS == 1 { 0 } else { 1 + half }
}

/// Returns the values of `N` tokens from a part of a block.
#[inline(always)]
fn of_part<T, const N: usize>(all: &[T; PANEL], at: usize) -> &[T; N] {
    &all.as_chunks().0[at]
}

/// The multiplication of a block's lines.
trait Format {
    /// Lines of a block.
    const LINES: usize;
    /// Scales of a block.
    const GROUPS: usize;
    /// True if quants take whole bytes.
    const IS_BYTES: bool;
    /// The zero point of quants without minima.
    const ZERO: i32;

    /// `-128` times something → `-ZERO` times it.
    fn zeros<S: Simd>(s: S, shifts: S::I) -> S::I;

    /// Adds the products of a block's quants with those of `N` tokens; sums of the first half of
    /// the columns and of the second one are apart if both have a scale.
    fn add_products<S: Simd, const N: usize>(
        s: S,
        lines: &[QuantLine],
        quants: &Quants,
        at: usize,
        dots: &mut [[S::I; N]; 2],
    );
}

/// Returns line `v` of a panel's block for `N` tokens.
#[inline(always)]
fn of_tokens<const N: usize>(quants: &Quants, v: usize, at: usize) -> &[[i8; 4]; N] {
    &quants[v].as_chunks::<N>().0[at]
}

#[inline(always)]
fn add_small<S: Simd, const N: usize>(s: S, weights: S::B, x: &[[i8; 4]; N], dots: &mut [S::I; N]) {
    for c in 0..N {
        dots[c] = s.dot_small(dots[c], weights, &x[c]);
    }
}

/// See [`Packing::Four`].
struct Four;

impl Format for Four {
    const LINES: usize = 4;
    const GROUPS: usize = 1;
    const IS_BYTES: bool = false;
    const ZERO: i32 = 8;

    #[inline(always)]
    fn zeros<S: Simd>(s: S, shifts: S::I) -> S::I {
        s.shift_right::<4>(shifts)
    }

    #[inline(always)]
    fn add_products<S: Simd, const N: usize>(
        s: S,
        lines: &[QuantLine],
        quants: &Quants,
        at: usize,
        dots: &mut [[S::I; N]; 2],
    ) {
        for (p, line) in lines[..4].iter().enumerate() {
            let both = s.load_bytes(&line.0);
            add_small(
                s,
                s.low_nibbles(both),
                of_tokens(quants, p, at),
                &mut dots[0],
            );
            add_small(
                s,
                s.high_nibbles(both),
                of_tokens(quants, p + 4, at),
                &mut dots[0],
            );
        }
    }
}

/// See [`Packing::Five`].
struct Five;

impl Format for Five {
    const LINES: usize = 5;
    const GROUPS: usize = 1;
    const IS_BYTES: bool = false;
    const ZERO: i32 = 16;

    #[inline(always)]
    fn zeros<S: Simd>(s: S, shifts: S::I) -> S::I {
        s.shift_right::<3>(shifts)
    }

    #[inline(always)]
    fn add_products<S: Simd, const N: usize>(
        s: S,
        lines: &[QuantLine],
        quants: &Quants,
        at: usize,
        dots: &mut [[S::I; N]; 2],
    ) {
        let words = lines[4].0.as_chunks::<8>().0;
        for (p, line) in lines[..4].iter().enumerate() {
            let both = s.load_bytes(&line.0);
            let low = s.with_fifth_bits(s.low_nibbles(both), u64::from_le_bytes(words[p]));
            add_small(s, low, of_tokens(quants, p, at), &mut dots[0]);
            let high = s.with_fifth_bits(s.high_nibbles(both), u64::from_le_bytes(words[p + 4]));
            add_small(s, high, of_tokens(quants, p + 4, at), &mut dots[0]);
        }
    }
}

/// See [`Packing::Eight`] for one group and [`Packing::EightByHalves`] for two.
struct Eight<const GROUPS: usize>;

impl<const GROUPS: usize> Format for Eight<GROUPS> {
    const LINES: usize = 8;
    const GROUPS: usize = GROUPS;
    const IS_BYTES: bool = true;
    const ZERO: i32 = 128;

    #[inline(always)]
    fn zeros<S: Simd>(_: S, shifts: S::I) -> S::I {
        shifts
    }

    #[inline(always)]
    fn add_products<S: Simd, const N: usize>(
        s: S,
        lines: &[QuantLine],
        quants: &Quants,
        at: usize,
        dots: &mut [[S::I; N]; 2],
    ) {
        for v in 0..8 {
            let weights = s.load_bytes(&lines[v].0);
            let x = of_tokens::<N>(quants, v, at);
            let dots = &mut dots[v * GROUPS / 8];
            for c in 0..N {
                dots[c] = s.dot_bytes(dots[c], weights, &x[c]);
            }
        }
    }
}
