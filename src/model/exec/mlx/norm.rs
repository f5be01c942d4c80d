//! Root-mean-square normalisation.

use mlx_rs::{Array, Dtype as ArrayType, fast, ops};

use super::{array::Result, linear::scalar};

/// A norm over the last axis.
pub(super) enum RmsNorm {
    /// With factors of its own.
    Weighted {
        /// The factors themselves, `[width]`: an offset of one is already added.
        weight: Array,
        eps: f32,
    },
    /// Divides by the root of the sum of squares only: the factors, and the root of the width, are
    /// in the weights of the linear layers that follow.
    Folded {
        /// Width times `eps`, of the type of the activations.
        width_eps: Array,
    },
}

impl RmsNorm {
    /// A norm whose factors are in the following layers.
    pub(super) fn folded(width: usize, eps: f32, dtype: ArrayType) -> Result<Self> {
        Ok(Self::Folded {
            width_eps: scalar(width as f32 * eps, dtype)?,
        })
    }

    /// `[…, width]` → `[…, width]`.
    pub(super) fn apply(&self, x: &Array) -> Result<Array> {
        match self {
            Self::Weighted { weight, eps } => fast::rms_norm(x, Some(weight), *eps),
            Self::Folded { width_eps } => {
                let squares = x.square()?.sum_axis(-1, true)?;
                x.multiply(ops::rsqrt(squares.add(width_eps)?)?)
            }
        }
    }
}
