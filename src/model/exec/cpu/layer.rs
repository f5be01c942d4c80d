//! One layer of the decoder: its weights.

use super::{attention::Attention, linear::Projection};
use crate::model::spec::Activation;

/// Attention and feed-forward, each normalised before, and after where the architecture does so,
/// and added to the residual stream. Weights of norms are padded.
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    /// Queries, keys, values.
    pub(super) qkv: Projection,
    pub(super) attention: Attention,
    pub(super) output: Projection,
    pub(super) attention_post_norm: Option<Vec<f32>>,
    pub(super) mlp_norm: Vec<f32>,
    /// Gate, up.
    pub(super) gate_up: Projection,
    pub(super) activation: Activation,
    pub(super) intermediate_size: usize,
    pub(super) down: Projection,
    pub(super) mlp_post_norm: Option<Vec<f32>>,
}
