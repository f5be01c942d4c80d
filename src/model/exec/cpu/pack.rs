//! Rows of blocks → tiles of sixteen rows, as the kernels read them.

use half::f16;

use super::kernels::{
    dense::Numbers,
    parts::{Chunks, Wanted},
    pool::Pool,
    quantised::{Line, Packing, Quantised, Scales},
    simd::LANES,
};
use crate::load::{BlockPart, PART};

/// A matrix to be packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Shape {
    pub(super) fn tiles(self) -> usize {
        self.rows.div_ceil(LANES)
    }

    pub(super) fn blocks(self) -> usize {
        self.columns.div_ceil(PART)
    }
}

/// How its blocks are stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) packing: Packing,
    pub(super) zero: u8,
    pub(super) has_mins: bool,
    /// Whether 16 bits hold scales and minima exactly.
    pub(super) half_precision: bool,
}

/// Packs what `part_of` gives for a row and a block.
pub(super) fn quantised(
    pool: &mut Pool,
    shape: Shape,
    format: Format,
    part_of: impl Fn(usize, usize) -> BlockPart + Sync,
) -> Quantised {
    let (lines, scales, mins) = match format.half_precision {
        true => {
            let (lines, scales, mins) = tiles::<f16>(pool, shape, format, part_of);
            (lines, Scales::F16(scales), mins.map(Scales::F16))
        }
        false => {
            let (lines, scales, mins) = tiles::<f32>(pool, shape, format, part_of);
            (lines, Scales::F32(scales), mins.map(Scales::F32))
        }
    };
    Quantised {
        packing: format.packing,
        tiles: shape.tiles(),
        blocks: shape.blocks(),
        zero: format.zero.into(),
        lines,
        scales,
        mins,
    }
}

/// A type of scales.
trait Scale: Copy + Default + Send + Sync {
    fn of(value: f32) -> Self;
}

impl Scale for f16 {
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl Scale for f32 {
    fn of(value: f32) -> Self {
        value
    }
}

type Tiles<T> = (Vec<Line>, Vec<[T; LANES]>, Option<Vec<[T; LANES]>>);

fn tiles<T: Scale>(
    pool: &mut Pool,
    shape: Shape,
    format: Format,
    part_of: impl Fn(usize, usize) -> BlockPart + Sync,
) -> Tiles<T> {
    let (packing, blocks, tiles) = (format.packing, shape.blocks(), shape.tiles());
    let (line_count, group_count) = (blocks * packing.lines(), blocks * packing.groups());
    let mut lines = vec![Line([0; 64]); tiles * line_count];
    let mut scales = vec![[T::default(); LANES]; tiles * group_count];
    let mut mins = format.has_mins.then(|| scales.clone());
    let parts = (
        (
            Chunks::new(&mut lines, line_count),
            Chunks::new(&mut scales, group_count),
        ),
        Wanted::new(
            mins.as_mut().map(|mins| Chunks::new(mins, group_count)),
            tiles,
        ),
    );
    pool.each(parts, |tile, ((lines, scales), mut mins)| {
        for lane in 0..LANES.min(shape.rows - tile * LANES) {
            for block in 0..blocks {
                let part = part_of(tile * LANES + lane, block);
                let lines = &mut lines[block * packing.lines()..(block + 1) * packing.lines()];
                put(lines, lane, &part.quants, packing);
                for half in 0..packing.groups() {
                    let group = block * packing.groups() + half;
                    scales[group][lane] = T::of(part.scales[half]);
                    if let Some(mins) = &mut mins {
                        mins[group][lane] = T::of(part.mins[half]);
                    }
                }
            }
        }
    });
    (lines, scales, mins)
}

/// Puts a row's quants into its lane of a block, whose bytes are 0. The layouts are drawn at
/// [`super::kernels::quantised`].
fn put(lines: &mut [Line], lane: usize, quants: &[u8; PART], packing: Packing) {
    let mut fours = |line: usize, bytes: &[u8]| {
        lines[line].0[4 * lane..4 * lane + 4].copy_from_slice(bytes);
    };
    match packing {
        Packing::Eight | Packing::EightByHalves => {
            for (line, bytes) in quants.chunks(4).enumerate() {
                fours(line, bytes);
            }
        }
        Packing::Four | Packing::Five => {
            let nibbles: [u8; PART / 2] =
                std::array::from_fn(|j| quants[j] & 0xF | quants[j + 16] << 4);
            for (line, bytes) in nibbles.chunks(4).enumerate() {
                fours(line, bytes);
            }
        }
    }
    if packing == Packing::Five {
        for (word, four) in quants.chunks(4).enumerate() {
            let bits = (0..4).fold(0, |bits, i| bits | (four[i] >> 4 & 1) << i);
            lines[4].0[8 * word + lane / 2] |= bits << (lane % 2 * 4);
        }
    }
}

/// Numbers `[row][column]` → tiles.
pub(super) fn dense<T: Copy + Default + Send + Sync>(
    pool: &mut Pool,
    shape: Shape,
    wrap: fn(Vec<[T; LANES]>) -> Numbers,
    number: impl Fn(usize) -> T + Sync,
) -> Numbers {
    let columns = shape.columns;
    let mut all = vec![[T::default(); LANES]; shape.tiles() * columns];
    pool.each(Chunks::new(&mut all, columns), |tile, tile_columns| {
        for lane in 0..LANES.min(shape.rows - tile * LANES) {
            let first = (tile * LANES + lane) * columns;
            for (column, lanes) in tile_columns.iter_mut().enumerate() {
                lanes[lane] = number(first + column);
            }
        }
    });
    wrap(all)
}
