//! The gated feed-forward.

use std::f32::consts::FRAC_2_PI;

use mlx_rs::{Array, ops};

use super::{
    array::{Result, slice},
    cpu_streams::CpuStreams,
    linear::{Linear, Projection, scalar},
};
use crate::model::spec::Activation;

/// `down(activation(gate(x)) · up(x))`.
pub(super) struct Mlp {
    /// Gate, then up.
    pub(super) gate_up: Projection,
    pub(super) down: Linear,
    pub(super) activation: Activation,
    pub(super) intermediate_size: usize,
}

impl Mlp {
    /// `[n, hidden]` → `[n, hidden]`.
    pub(super) fn apply(&self, x: &Array, lanes: &CpuStreams) -> Result<Array> {
        let both = self.gate_up.apply(x, lanes)?;
        let gate = slice(&both, 1, 0..self.intermediate_size)?;
        let up = slice(&both, 1, self.intermediate_size..2 * self.intermediate_size)?;
        self.down
            .apply(&activate(self.activation, &gate)?.multiply(up)?, lanes)
    }
}

fn activate(activation: Activation, x: &Array) -> Result<Array> {
    match activation {
        Activation::Silu => x.multiply(ops::sigmoid(x)?),
        Activation::GeluTanh => gelu_tanh(x),
    }
}

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, by way of `1 + tanh(y) = 2 sigmoid(2y)`.
fn gelu_tanh(x: &Array) -> Result<Array> {
    let slope = 2.0 * FRAC_2_PI.sqrt();
    let cubic = x
        .square()?
        .multiply(scalar(slope * 0.044_715, x.dtype())?)?;
    let inner = cubic.add(scalar(slope, x.dtype())?)?.multiply(x)?;
    x.multiply(ops::sigmoid(inner)?)
}
