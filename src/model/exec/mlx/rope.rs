//! Rotary position embedding of the query and key heads of a whole batch at once.

use std::ops::Range;

use mlx_rs::{Array, Dtype as ArrayType, fast, ops};

use super::array::{Result, dim, from_vec, reversed, slice};
use crate::model::{exec::rope_frequencies::frequencies, spec::Rope};

/// The heads of one token in a joint projection: queries, then keys, then values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) query_count: usize,
    /// Heads of keys, and as many of values.
    pub(super) key_count: usize,
    pub(super) dim: usize,
    /// Factor on queries.
    pub(super) query_scale: f32,
}

impl Heads {
    /// All of them.
    pub(super) fn count(&self) -> usize {
        self.query_count + 2 * self.key_count
    }

    /// Queries and keys.
    pub(super) fn turning_count(&self) -> usize {
        self.query_count + self.key_count
    }
}

/// One rotary embedding at the positions of one batch.
pub(super) enum Rotation {
    /// For MLX's own kernel.
    Fused {
        /// `[tokens]`.
        positions: Array,
        /// Positions for a turn of one radian, `[dim / 2]`.
        wavelengths: Array,
    },
    /// `x · cosines + swap(x) · sines`, where `swap` exchanges the halves of a head. Both have the
    /// shape `[tokens, heads, 2, dim / 2]`, so that no operation has to broadcast over heads; they
    /// contain the scale of queries, and leave values as they are.
    Tables { cosines: Array, sines: Array },
}

impl Rotation {
    /// For MLX's own kernel, which leaves the scale of queries to attention.
    pub(super) fn fused(rope: &Rope, heads: Heads, positions: &[usize]) -> Result<Self> {
        let wavelengths: Vec<f32> = frequencies(rope, heads.dim)
            .into_iter()
            .map(|frequency| frequency.recip() as f32)
            .collect();
        let offsets: Vec<i32> = positions.iter().map(|&position| dim(position)).collect();
        Ok(Self::Fused {
            positions: from_vec(offsets, &[positions.len()])?,
            wavelengths: from_vec(wavelengths, &[heads.dim / 2])?,
        })
    }

    /// As tables, computed here in double precision.
    pub(super) fn tables(
        rope: &Rope,
        heads: Heads,
        positions: &[usize],
        dtype: ArrayType,
    ) -> Result<Self> {
        let frequencies = frequencies(rope, heads.dim);
        let size = positions.len() * heads.count() * heads.dim;
        let (mut cosines, mut sines) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for &position in positions {
            let (cosine, sine) = one_head(&frequencies, position);
            for head in 0..heads.turning_count() {
                let scale = if head < heads.query_count {
                    heads.query_scale
                } else {
                    1.0
                };
                cosines.extend(cosine.iter().map(|value| value * scale));
                sines.extend(sine.iter().map(|value| value * scale));
            }
            cosines.resize(cosines.len() + heads.key_count * heads.dim, 1.0);
            sines.resize(sines.len() + heads.key_count * heads.dim, 0.0);
        }
        let shape = [positions.len(), heads.count(), 2, heads.dim / 2];
        Ok(Self::Tables {
            cosines: from_vec(cosines, &shape)?.as_dtype(dtype)?,
            sines: from_vec(sines, &shape)?.as_dtype(dtype)?,
        })
    }

    /// Turns the queries and keys among the heads `[tokens, heads, dim]` of some rows of the batch.
    pub(super) fn apply(&self, x: &Array, heads: Heads, rows: Range<usize>) -> Result<Array> {
        match self {
            Self::Fused {
                positions,
                wavelengths,
            } => {
                let turning = slice(x, 1, 0..heads.turning_count())?;
                let values = slice(x, 1, heads.turning_count()..heads.count())?;
                let (apart, width) = (turning.expand_dims(2)?, dim(heads.dim));
                let positions = slice(positions, 0, rows)?;
                let turned =
                    fast::rope_dynamic(apart, width, false, None, 1.0, &positions, wavelengths)?;
                ops::concatenate(&[&turned.reshape(turning.shape())?, &values], 1)
            }
            Self::Tables { cosines, sines } => {
                let (cosines, sines) = (slice(cosines, 0, rows.clone())?, slice(sines, 0, rows)?);
                let halves = x.reshape(cosines.shape())?;
                let swapped = reversed(&halves, 2)?;
                halves
                    .multiply(cosines)?
                    .add(swapped.multiply(sines)?)?
                    .reshape(x.shape())
            }
        }
    }
}

/// Cosines `[c, c]` and sines `[-s, s]` of one head at one position.
fn one_head(frequencies: &[f64], position: usize) -> (Vec<f32>, Vec<f32>) {
    let half = frequencies.len();
    let (mut cosines, mut sines) = (vec![0.0; 2 * half], vec![0.0; 2 * half]);
    for (pair, frequency) in frequencies.iter().enumerate() {
        let (sine, cosine) = (position as f64 * frequency).sin_cos();
        cosines[pair] = cosine as f32;
        cosines[half + pair] = cosine as f32;
        sines[pair] = -sine as f32;
        sines[half + pair] = sine as f32;
    }
    (cosines, sines)
}
