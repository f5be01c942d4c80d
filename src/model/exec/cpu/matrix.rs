//! Matrices of weights, and their single rows.

use super::kernels::{
    dense_matmul::{Dense, Numbers},
    layout::BLOCK,
    quant_matmul::{Packing, Quantised},
    simd::LANES,
};

/// A matrix `[rows, columns]` in tiles of sixteen rows.
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) weights: Weights,
}

/// The elements of a matrix.
pub(super) enum Weights {
    Quantised(Quantised),
    Dense(Dense),
}

impl Matrix {
    pub(super) fn tiles(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    /// Decodes one row into the beginning of `out`.
    pub(super) fn row(&self, row: usize, out: &mut [f32]) {
        let (tile, lane) = (row / LANES, row % LANES);
        match &self.weights {
            Weights::Dense(dense) => dense_row(dense, tile, lane, out),
            Weights::Quantised(quantised) => quantised_row(quantised, tile, lane, out),
        }
    }
}

fn dense_row(dense: &Dense, tile: usize, lane: usize, out: &mut [f32]) {
    let columns = tile * dense.columns..(tile + 1) * dense.columns;
    match &dense.numbers {
        Numbers::F32(all) => fill(out, &all[columns], |column| column[lane]),
        Numbers::F16(all) => fill(out, &all[columns], |column| column[lane].to_f32()),
        Numbers::Bf16(all) => fill(out, &all[columns], |column| {
            half::bf16::from_bits(column[lane]).to_f32()
        }),
    }
}

fn fill<T>(out: &mut [f32], columns: &[T], number: impl Fn(&T) -> f32) {
    for (out, column) in out.iter_mut().zip(columns) {
        *out = number(column);
    }
}

fn quantised_row(matrix: &Quantised, tile: usize, lane: usize, out: &mut [f32]) {
    let packing = matrix.packing;
    for (index, out) in out.chunks_mut(BLOCK).take(matrix.blocks).enumerate() {
        let block = tile * matrix.blocks + index;
        for (column, out) in out.iter_mut().enumerate() {
            let group = block * packing.groups() + column * packing.groups() / BLOCK;
            let quant = i32::from(quant(matrix, block, lane, column)) - matrix.zero;
            let product = matrix.scales.get(group, lane) * quant as f32;
            let min = matrix.mins.as_ref().map(|mins| mins.get(group, lane));
            *out = min.map_or(product, |min| product + min);
        }
    }
}

/// One quant of a block; the layouts are drawn at [`super::kernels::quant_matmul`].
fn quant(matrix: &Quantised, block: usize, lane: usize, column: usize) -> u8 {
    let first = block * matrix.packing.lines();
    let byte = |line: usize, column: usize| matrix.lines[first + line].0[4 * lane + column % 4];
    let nibble = || {
        let both = byte(column % 16 / 4, column);
        if column < 16 { both & 0xF } else { both >> 4 }
    };
    match matrix.packing {
        Packing::Eight | Packing::EightByHalves => byte(column / 4, column),
        Packing::Four => nibble(),
        Packing::Five => {
            let bit = 4 * lane + column % 4;
            let fifth = matrix.lines[first + 4].0[8 * (column / 4) + bit / 8] >> (bit % 8) & 1;
            nibble() | fifth << 4
        }
    }
}
