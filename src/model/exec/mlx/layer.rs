//! One layer of the decoder.

use mlx_rs::Array;

use super::{array::Result, attention::Attention, mlp::Mlp, norm::RmsNorm, step::Batch};

/// Attention and feed-forward, each normalised before, and after where the architecture does so,
/// and added to the residual stream.
pub(super) struct Layer {
    pub(super) attention_norm: RmsNorm,
    pub(super) attention: Attention,
    pub(super) attention_post_norm: Option<RmsNorm>,
    pub(super) mlp_norm: RmsNorm,
    pub(super) mlp: Mlp,
    pub(super) mlp_post_norm: Option<RmsNorm>,
    /// Which of the model's rotary embeddings this layer has.
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
    ) -> Result<Array> {
        let mut residual = x.clone();
        let mut mixed = batch.attend(
            &self.attention,
            self.rotation,
            index,
            &self.attention_norm.apply(x)?,
        )?;
        if let Some(kept) = kept {
            residual = residual.take_axis(kept, 0)?;
            mixed = mixed.take_axis(kept, 0)?;
        }
        let attended = self.attention.output.apply(&mixed)?;
        let x = residual.add(post(self.attention_post_norm.as_ref(), attended)?)?;
        let fed = self.mlp.apply(&self.mlp_norm.apply(&x)?)?;
        x.add(post(self.mlp_post_norm.as_ref(), fed)?)
    }
}

fn post(norm: Option<&RmsNorm>, x: Array) -> Result<Array> {
    match norm {
        Some(norm) => norm.apply(&x),
        None => Ok(x),
    }
}
