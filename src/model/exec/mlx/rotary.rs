//! Rotary position embedding of the query and key heads of a whole batch at once.

use mlx_rs::{Array, Dtype as ArrayType, fast};

use super::array::{self, Result, dim, from_vec, reversed};
use crate::model::{exec::rope::frequencies, spec::Rope};

/// The query and key heads that turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) query_count: usize,
    pub(super) key_count: usize,
    pub(super) dim: usize,
    /// Factor on queries.
    pub(super) query_scale: f32,
}

/// One rotary embedding at the positions of one batch.
pub(super) enum Rotation {
    /// For MLX's own kernel.
    Fused {
        /// `[tokens]`.
        positions: Array,
        /// Positions for a turn of one radian, `[dim / 2]`.
        wavelengths: Array,
        dim: usize,
    },
    /// `x · cosines + swap(x) · sines`, where `swap` exchanges the halves of a head. Both have the
    /// shape `[tokens, heads, 2, dim / 2]`, so that no operation has to broadcast over heads, and
    /// contain the scale of queries.
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
            dim: heads.dim,
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
        let head_count = heads.query_count + heads.key_count;
        let size = positions.len() * head_count * heads.dim;
        let (mut cosines, mut sines) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for &position in positions {
            let (cosine, sine) = one_head(&frequencies, position);
            for head in 0..head_count {
                let scale = if head < heads.query_count {
                    heads.query_scale
                } else {
                    1.0
                };
                cosines.extend(cosine.iter().map(|value| value * scale));
                sines.extend(sine.iter().map(|value| value * scale));
            }
        }
        let shape = [positions.len(), head_count, 2, heads.dim / 2];
        Ok(Self::Tables {
            cosines: from_vec(cosines, &shape)?.as_dtype(dtype)?,
            sines: from_vec(sines, &shape)?.as_dtype(dtype)?,
        })
    }

    /// Turns query and key heads, `[tokens, heads, dim]` → the same.
    pub(super) fn apply(&self, x: &Array) -> Result<Array> {
        let shape = x.shape();
        match self {
            Self::Fused {
                positions,
                wavelengths,
                dim: width,
            } => {
                let apart = x.expand_dims(2)?;
                let width = dim(*width);
                fast::rope_dynamic(apart, width, false, None, 1.0, positions, wavelengths)?
                    .reshape(shape)
            }
            Self::Tables { cosines, sines } => {
                let halves = x.reshape(cosines.shape())?;
                let swapped = reversed(&halves, 2)?;
                let turned = halves.multiply(cosines)?.add(swapped.multiply(sines)?)?;
                turned.reshape(shape)
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

/// Query and key heads of joint projections, `[tokens, heads, dim]`, as two views.
pub(super) fn split(x: &Array, heads: Heads) -> Result<(Array, Array)> {
    let all = heads.query_count + heads.key_count;
    Ok((
        array::slice(x, 1, 0..heads.query_count)?,
        array::slice(x, 1, heads.query_count..all)?,
    ))
}
