//! One step over a ragged batch: the tokens of all slots are rows of one matrix for everything but
//! attention.

use mlx_rs::{Array, Dtype as ArrayType, error::Exception, transforms};

use super::{
    MlxExecutor,
    array::{Result, dim, from_vec},
    attention::{Attention, Span},
    cpu_streams::CpuStreams,
    kv::MlxKv,
    linear::{scalar, soft_cap},
    mask::Masks,
    rope::Rotation,
};
use crate::{
    id::TokenId,
    model::{
        exec::{ExecError, KvCache, Slot, check_slots},
        spec::Rope,
    },
};

/// The state of a step's batch that all layers share.
pub(super) struct Batch<'a> {
    kv_caches: Vec<(Span, &'a mut MlxKv)>,
    /// One for each of the model's rotary embeddings.
    rotations: Vec<Rotation>,
    masks: Masks,
}

impl Batch<'_> {
    /// The rotary embedding of this number.
    pub(super) fn rotation(&self, number: usize) -> &Rotation {
        &self.rotations[number]
    }

    /// Heads of the whole batch → `[tokens, query heads · dim]`.
    pub(super) fn attend(
        &mut self,
        attention: &Attention,
        layer: usize,
        heads: &Array,
        lanes: &CpuStreams,
    ) -> Result<Array> {
        attention.mix(heads, layer, &mut self.kv_caches, &mut self.masks, lanes)
    }

    /// Evaluates the logits, if any are needed, and the KV caches.
    fn evaluate(&self, logits: Option<&Array>) -> Result<()> {
        let mut arrays: Vec<Array> = logits.into_iter().cloned().collect();
        for (_, memory) in &self.kv_caches {
            memory.visit(|array| arrays.push(array.clone()));
        }
        transforms::eval(&arrays)
    }
}

impl MlxExecutor {
    /// See [`Executor::step`](crate::model::exec::Executor::step).
    pub(super) fn run(
        &self,
        slots: &mut [Slot<'_, MlxKv>],
        logits: &mut Vec<f32>,
    ) -> std::result::Result<(), ExecError> {
        logits.clear();
        check_slots(slots, self.context_length, self.vocab_size)?;
        if slots.is_empty() {
            return Ok(());
        }
        self.run_checked(slots, logits)
            .map_err(|error| ExecError(format!("MLX failed: {error}")))
    }

    fn run_checked(&self, slots: &mut [Slot<'_, MlxKv>], logits: &mut Vec<f32>) -> Result<()> {
        let tokens: Vec<TokenId> = slots.iter().flat_map(|slot| slot.tokens).copied().collect();
        let wanted = wanted_rows(slots);
        let mut batch = self.batch(slots)?;
        let hidden = self.hidden(tokens, &wanted, &mut batch)?;
        if wanted.is_empty() {
            return batch.evaluate(None);
        }
        let rows = self.logits(&hidden)?;
        drop(hidden);
        batch.evaluate(Some(&rows))?;
        let values = rows.try_as_slice::<f32>();
        logits.extend_from_slice(values.map_err(|error| Exception::custom(error.to_string()))?);
        Ok(())
    }

    /// Extends the KV caches and prepares the values that all layers share.
    fn batch<'a>(&self, slots: &'a mut [Slot<'_, MlxKv>]) -> Result<Batch<'a>> {
        let (mut kv_caches, mut positions) = (Vec::with_capacity(slots.len()), Vec::new());
        for slot in slots {
            let (start, first) = (slot.kv.len(), positions.len());
            slot.kv.extend(slot.tokens.len())?;
            positions.extend(start..slot.kv.len());
            kv_caches.push((
                Span {
                    rows: first..positions.len(),
                    start,
                },
                &mut *slot.kv,
            ));
        }
        let rotations = self
            .ropes
            .iter()
            .map(|rope| self.rotation(rope, &positions))
            .collect::<Result<_>>()?;
        Ok(Batch {
            kv_caches,
            rotations,
            masks: Masks::default(),
        })
    }

    fn rotation(&self, rope: &Rope, positions: &[usize]) -> Result<Rotation> {
        if self.backend.has_fused_kernels() {
            Rotation::fused(rope, self.heads, positions)
        } else {
            Rotation::tables(rope, self.heads, positions, self.kv_shape.dtype)
        }
    }

    /// The residual stream after all layers, `[wanted, hidden]`; of all tokens if none is wanted.
    fn hidden(&self, tokens: Vec<TokenId>, wanted: &[i32], batch: &mut Batch<'_>) -> Result<Array> {
        let count = tokens.len();
        let mut x = self.embeddings.take_rows(&from_vec(tokens, &[count])?)?;
        if self.embedding_scale != 1.0 {
            x = x.multiply(scalar(self.embedding_scale, x.dtype())?)?;
        }
        // After the last attention only the rows that want logits matter.
        let kept = match wanted {
            [] => None,
            rows => Some(from_vec(rows.to_vec(), &[rows.len()])?),
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let is_last = index + 1 == self.layers.len();
            let kept = kept.as_ref().filter(|_| is_last);
            x = layer.run(&x, index, batch, kept, &self.lanes)?;
        }
        Ok(x)
    }

    /// `[n, hidden]` → logits `[n, vocabulary]`, 32-bit and row-major.
    fn logits(&self, hidden: &Array) -> Result<Array> {
        let head = self.head.as_ref().unwrap_or(&self.embeddings);
        let logits = head.multiply(&self.norm.apply(hidden)?, &self.lanes)?;
        soft_cap(logits, self.logit_soft_cap)?.as_dtype(ArrayType::Float32)
    }
}

/// The last rows of each slot, as many as it wants.
fn wanted_rows(slots: &[Slot<'_, MlxKv>]) -> Vec<i32> {
    let mut end = 0;
    let mut rows = Vec::with_capacity(slots.len());
    for slot in slots {
        end += slot.tokens.len();
        rows.extend(dim(end - slot.logit_rows)..dim(end));
    }
    rows
}
