//! Linear layers over dense or MLX-quantised weights.

use mlx_rs::{Array, Dtype as ArrayType, ops};

use super::array::Result;

/// A matrix `[out, in]`.
pub(super) enum Weight {
    /// Plain numbers, kept with the view that multiplies.
    Dense {
        /// `[out, in]`.
        rows: Array,
        /// `[in, out]`, over the same memory.
        transposed: Array,
    },
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
    pub(super) fn dense(rows: Array) -> Result<Self> {
        let transposed = rows.t();
        transposed.eval()?;
        Ok(Self::Dense { rows, transposed })
    }

    /// `[n, in]` → `[n, out]`.
    pub(super) fn multiply(&self, x: &Array) -> Result<Array> {
        match self {
            Self::Dense { transposed, .. } => x.matmul(transposed),
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
            Self::Dense { rows, .. } => rows.take_axis(indices, 0),
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
    pub(super) fn apply(&self, x: &Array) -> Result<Array> {
        match (&self.weight, &self.bias) {
            (weight, None) => weight.multiply(x),
            (Weight::Dense { transposed, .. }, Some(bias)) => {
                ops::addmm(bias, x, transposed, None, None)
            }
            (weight, Some(bias)) => weight.multiply(x)?.add(bias),
        }
    }
}

/// Linear layers over the same input whose outputs stand side by side: one fused layer, or several
/// where their weights are stored in ways that do not join.
pub(super) struct Projection(pub(super) Vec<Linear>);

impl Projection {
    /// `[n, in]` → `[n, sum of outs]`.
    pub(super) fn apply(&self, x: &Array) -> Result<Array> {
        if let [whole] = self.0.as_slice() {
            return whole.apply(x);
        }
        let parts: Vec<Array> = self
            .0
            .iter()
            .map(|part| part.apply(x))
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

/// A number as an array of a type, so that it does not change the type of what it is combined with.
pub(super) fn scalar(number: f32, dtype: ArrayType) -> Result<Array> {
    Array::from_f32(number).as_dtype(dtype)
}
