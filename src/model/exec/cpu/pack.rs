//! Rows of blocks → tiles of sixteen rows, as the kernels read them.

use std::io;

use half::f16;

use super::kernels::{
    dense_matmul::Numbers,
    disjoint::{Chunks, Wanted},
    huge_page_arena::{Arena, Plain, Slice},
    layout::QuantLine,
    quant_matmul::{Packing, Quantised, Scales},
    simd::LANES,
    thread_pool::Pool,
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

/// The block format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) packing: Packing,
    pub(super) zero: u8,
    pub(super) has_mins: bool,
    /// True if 16 bits hold scales and minima exactly.
    pub(super) half_precision: bool,
}

/// Packs matrices: threads, and memory for the result.
pub(super) struct Packer {
    pub(super) pool: Pool,
    pub(super) arena: Arena,
}

/// Packs the blocks that `part_of` returns for a row and a block index.
///
/// # Errors
/// If memory runs out.
pub(super) fn quantised(
    packer: &mut Packer,
    shape: Shape,
    format: Format,
    part_of: impl Fn(usize, usize) -> BlockPart + Sync,
) -> io::Result<Quantised> {
    let (lines, scales, mins) = match format.half_precision {
        true => {
            let (lines, scales, mins) = tiles::<f16>(packer, shape, format, part_of)?;
            (lines, Scales::F16(scales), mins.map(Scales::F16))
        }
        false => {
            let (lines, scales, mins) = tiles::<f32>(packer, shape, format, part_of)?;
            (lines, Scales::F32(scales), mins.map(Scales::F32))
        }
    };
    Ok(Quantised {
        packing: format.packing,
        tiles: shape.tiles(),
        blocks: shape.blocks(),
        zero: format.zero.into(),
        lines,
        scales,
        mins,
    })
}

/// A type of scales.
trait Scale: Copy {
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

type Tiles<T> = (
    Slice<QuantLine>,
    Slice<[T; LANES]>,
    Option<Slice<[T; LANES]>>,
);

fn tiles<T: Scale>(
    Packer { pool, arena }: &mut Packer,
    shape: Shape,
    format: Format,
    part_of: impl Fn(usize, usize) -> BlockPart + Sync,
) -> io::Result<Tiles<T>>
where
    [T; LANES]: Plain,
{
    let (packing, blocks, tiles) = (format.packing, shape.blocks(), shape.tiles());
    let (line_count, group_count) = (blocks * packing.lines(), blocks * packing.groups());
    let mut lines = arena.zeroed(tiles * line_count)?;
    let mut scales: Slice<[T; LANES]> = arena.zeroed(tiles * group_count)?;
    let mut mins = match format.has_mins {
        true => Some(arena.zeroed::<[T; LANES]>(tiles * group_count)?),
        false => None,
    };
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
    pool.par_for(parts, |tile, ((lines, scales), mut mins)| {
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
    Ok((lines, scales, mins))
}

/// Puts a row's quants into its lane of a block, whose bytes are 0. The layouts are drawn at
/// [`super::kernels::quant_matmul`].
fn put(lines: &mut [QuantLine], lane: usize, quants: &[u8; PART], packing: Packing) {
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
///
/// # Errors
/// When there is no memory for them.
pub(super) fn dense<T>(
    Packer { pool, arena }: &mut Packer,
    shape: Shape,
    wrap: fn(Slice<[T; LANES]>) -> Numbers,
    number: impl Fn(usize) -> T + Sync,
) -> io::Result<Numbers>
where
    [T; LANES]: Plain,
{
    let columns = shape.columns;
    let mut all: Slice<[T; LANES]> = arena.zeroed(shape.tiles() * columns)?;
    pool.par_for(Chunks::new(&mut all, columns), |tile, tile_columns| {
        for lane in 0..LANES.min(shape.rows - tile * LANES) {
            let first = (tile * LANES + lane) * columns;
            for (column, lanes) in tile_columns.iter_mut().enumerate() {
                lanes[lane] = number(first + column);
            }
        }
    });
    Ok(wrap(all))
}
