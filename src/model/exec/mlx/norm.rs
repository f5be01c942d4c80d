//! Root-mean-square normalisation.

use mlx_rs::{Array, fast};

use super::array::Result;

/// A norm over the last axis.
pub(super) struct RmsNorm {
    /// The factors themselves, `[width]`: an offset of one is already added.
    pub(super) weight: Array,
    pub(super) eps: f32,
}

impl RmsNorm {
    /// `[…, width]` → `[…, width]`.
    pub(super) fn apply(&self, x: &Array) -> Result<Array> {
        fast::rms_norm(x, Some(&self.weight), self.eps)
    }
}
