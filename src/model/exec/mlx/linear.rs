//! Linear layers over dense or MLX-quantised weights.

use mlx_rs::{Array, Dtype as ArrayType, ops};

use super::{array::Result, cpu_streams::CpuStreams, dense::Dense};

/// A matrix `[out, in]`.
pub(super) enum Weight {
    /// Plain numbers.
    Dense(Dense),
    /// MLX's affine quantisation: groups of a row with a scale and a bias each.
    Quantised {
        /// `[out, in · bits / 32]` words.
        packed: Array,
        /// `[out, in / group_size]`.
        scales: Array,
        /// `[out, in / group_size]`.
        biases: Array,
        /// Elements of a group.
        group_size: i32,
        /// Bits of an element.
        bits: i32,
    },
}

impl Weight {
    /// `[n, in]` → `[n, out]`.
    pub(super) fn multiply(&self, x: &Array, lanes: &CpuStreams) -> Result<Array> {
        match self {
            Self::Dense(dense) => dense.multiply(x, lanes),
            Self::Quantised {
                packed,
                scales,
                biases,
                group_size,
                bits,
            } => ops::quantized_matmul(x, packed, scales, biases, true, *group_size, *bits),
        }
    }

    /// The rows at `indices` `[n]`, as `[n, in]`.
    pub(super) fn take_rows(&self, indices: &Array) -> Result<Array> {
        match self {
            Self::Dense(dense) => dense.take_rows(indices),
            Self::Quantised {
                packed,
                scales,
                biases,
                group_size,
                bits,
            } => ops::dequantize(
                packed.take_axis(indices, 0)?,
                scales.take_axis(indices, 0)?,
                &biases.take_axis(indices, 0)?,
                *group_size,
                *bits,
            ),
        }
    }
}

/// A matrix with an optional bias `[out]`.
pub(super) struct Linear {
    pub(super) weight: Weight,
    pub(super) bias: Option<Array>,
}

impl Linear {
    /// `[n, in]` → `[n, out]`.
    pub(super) fn apply(&self, x: &Array, lanes: &CpuStreams) -> Result<Array> {
        let product = self.weight.multiply(x, lanes)?;
        match &self.bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }
}

/// Linear layers over the same input, with concatenated outputs: one fused layer, or several if
/// their weights' types cannot be joined.
pub(super) struct Projection(pub(super) Vec<Linear>);

impl Projection {
    /// `[n, in]` → `[n, sum of outs]`.
    pub(super) fn apply(&self, x: &Array, lanes: &CpuStreams) -> Result<Array> {
        if let [whole] = self.0.as_slice() {
            return whole.apply(x, lanes);
        }
        let parts: Vec<Array> = self
            .0
            .iter()
            .map(|part| part.apply(x, lanes))
            .collect::<Result<_>>()?;
        ops::concatenate(&parts, -1)
    }
}

/// `cap · tanh(x / cap)`, or `x` where there is no cap.
pub(super) fn soft_cap(x: Array, cap: Option<f32>) -> Result<Array> {
    let Some(cap) = cap else { return Ok(x) };
    let cap = scalar(cap, x.dtype())?;
    ops::tanh(x.divide(&cap)?)?.multiply(&cap)
}

/// Returns a number as an array of a type, so that it does not change the type of its operand.
pub(super) fn scalar(number: f32, dtype: ArrayType) -> Result<Array> {
    Array::from_f32(number).as_dtype(dtype)
}
