//! One layer of the decoder.

use mlx_rs::Array;

use super::{
    array::{Result, slice},
    attention::Attention,
    cpu_streams::CpuStreams,
    mlp::Mlp,
    norm::RmsNorm,
    step::Batch,
};

/// Attention and feed-forward, each normalised before, and after where the architecture does so,
/// and added to the residual stream.
pub(super) struct Layer {
    pub(super) attention_norm: RmsNorm,
    pub(super) attention: Attention,
    pub(super) attention_post_norm: Option<RmsNorm>,
    pub(super) mlp_norm: RmsNorm,
    pub(super) mlp: Mlp,
    pub(super) mlp_post_norm: Option<RmsNorm>,
    /// Index of the layer's RoPE table.
    pub(super) rotation: usize,
}

impl Layer {
    /// Runs a batch through layer number `index`: `[tokens, hidden]` → `[kept, hidden]`, where
    /// `kept` are the rows to go on with after attention; `None` keeps all.
    pub(super) fn run(
        &self,
        x: &Array,
        index: usize,
        batch: &mut Batch<'_>,
        kept: Option<&Array>,
        lanes: &CpuStreams,
    ) -> Result<Array> {
        let rotation = batch.rotation(self.rotation);
        let heads = lanes.over_rows(x, |x, rows, lanes| {
            let x = self.attention_norm.apply(x)?;
            self.attention.project(&x, rotation, rows, lanes)
        })?;
        let mixed = batch.attend(&self.attention, index, &heads, lanes)?;
        let (mixed, residual) = match kept {
            None => (mixed, x.clone()),
            Some(kept) => (mixed.take_axis(kept, 0)?, x.take_axis(kept, 0)?),
        };
        lanes.over_rows(&mixed, |mixed, rows, lanes| {
            self.finish(mixed, &slice(&residual, 0, rows)?, lanes)
        })
    }

    /// Applies the output projection and the feed-forward after attention, row by row.
    fn finish(&self, mixed: &Array, residual: &Array, lanes: &CpuStreams) -> Result<Array> {
        let attended = self.attention.output.apply(mixed, lanes)?;
        let x = residual.add(post(self.attention_post_norm.as_ref(), attended)?)?;
        let fed = self.mlp.apply(&self.mlp_norm.apply(&x)?, lanes)?;
        x.add(post(self.mlp_post_norm.as_ref(), fed)?)
    }
}

fn post(norm: Option<&RmsNorm>, x: Array) -> Result<Array> {
    match norm {
        Some(norm) => norm.apply(&x),
        None => Ok(x),
    }
}
