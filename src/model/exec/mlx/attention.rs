//! Attention of one batch: projections over all tokens at once, then each sequence over its own
//! keys and values.

use std::ops::Range;

use mlx_rs::{
    Array,
    fast::{self, ScaledDotProductAttentionMask},
    ops,
};

use super::{
    array::{Result, dim, part, slice},
    cpu_streams::CpuStreams,
    kv::MlxKv,
    linear::{Linear, Projection, scalar, soft_cap},
    mask::{MaskSpec, Masks},
    norm::RmsNorm,
    rope::{Heads, Rotation},
};

/// Queries of one sequence in one block, if scores are held in memory. Keys beyond the last query
/// of a block are never multiplied, and scores stay small.
const BLOCK_QUERIES: usize = 128;

/// The attention of one layer.
pub(super) struct Attention {
    /// Queries, then keys, then values.
    pub(super) qkv: Projection,
    pub(super) output: Linear,
    /// Norms over each query head and each key head.
    pub(super) qk_norm: Option<(RmsNorm, RmsNorm)>,
    pub(super) heads: Heads,
    /// Factor on query·key products.
    pub(super) scale: f32,
    pub(super) soft_cap: Option<f32>,
    pub(super) window: Option<usize>,
    /// True if MLX's own attention kernel is used; otherwise the rotation has scaled the queries.
    pub(super) is_fused: bool,
}

/// The rows of one sequence in a batch.
#[derive(Debug, Clone)]
pub(super) struct Span {
    /// Rows of the batch.
    pub(super) rows: Range<usize>,
    /// Position of the first row in its sequence.
    pub(super) start: usize,
}

impl Attention {
    /// Normalised residual stream `[n, hidden]` → heads `[n, heads, dim]`: queries, keys and
    /// values of some rows of the batch, normalised and turned.
    pub(super) fn project(
        &self,
        x: &Array,
        rotation: &Rotation,
        rows: Range<usize>,
        lanes: &CpuStreams,
    ) -> Result<Array> {
        let shape = [x.dim(0), dim(self.heads.count()), dim(self.heads.dim)];
        let mut heads = self.qkv.apply(x, lanes)?.reshape(&shape)?;
        if let Some((query_norm, key_norm)) = &self.qk_norm {
            let (keys, values) = (self.heads.query_count, self.heads.turning_count());
            heads = ops::concatenate(
                &[
                    query_norm.apply(&slice(&heads, 1, 0..keys)?)?,
                    key_norm.apply(&slice(&heads, 1, keys..values)?)?,
                    slice(&heads, 1, values..self.heads.count())?,
                ],
                1,
            )?;
        }
        rotation.apply(&heads, self.heads, rows)
    }

    /// Attention over the heads of the whole batch: returns `[tokens, query heads · dim]`, before
    /// the output projection. Extends the KV caches by this layer's keys and values.
    pub(super) fn mix(
        &self,
        heads: &Array,
        layer: usize,
        kv_caches: &mut [(Span, &mut MlxKv)],
        masks: &mut Masks,
        lanes: &CpuStreams,
    ) -> Result<Array> {
        let (keys, all) = (self.heads.query_count, self.heads.count());
        let mut outputs = Vec::with_capacity(kv_caches.len());
        for (span, memory) in kv_caches {
            let newest = part(heads, &[(0, span.rows.clone()), (1, keys..all)])?;
            let buffer = memory.append(layer, &newest)?;
            for mask_spec in self.mask_specs(span) {
                let first = span.rows.start + mask_spec.queries.start - span.start;
                let rows = first..first + mask_spec.queries.len();
                let queries = part(heads, &[(0, rows), (1, 0..keys)])?;
                let output = lanes.run(outputs.len(), || {
                    self.attend(&queries, &buffer, &mask_spec, masks)
                })?;
                outputs.push(output);
            }
        }
        match outputs.as_slice() {
            [whole] => Ok(whole.clone()),
            parts => ops::concatenate(parts, 0),
        }
    }

    /// The blocks of queries of one sequence.
    fn mask_specs(&self, span: &Span) -> impl Iterator<Item = MaskSpec> + use<> {
        let window = self.window;
        let end = span.start + span.rows.len();
        let block = if self.is_fused {
            span.rows.len()
        } else {
            BLOCK_QUERIES
        };
        (span.start..end)
            .step_by(block.max(1))
            .map(move |first| MaskSpec::new(first..end.min(first + block), window))
    }

    /// Queries `[n, query heads, dim]` over a buffer `[1, 2 · key heads, capacity, dim]` →
    /// `[n, query heads · dim]`.
    fn attend(
        &self,
        queries: &Array,
        buffer: &Array,
        mask_spec: &MaskSpec,
        masks: &mut Masks,
    ) -> Result<Array> {
        let (keys, both) = (self.heads.key_count, 2 * self.heads.key_count);
        let seen = |heads| part(buffer, &[(1, heads), (2, mask_spec.keys.clone())]);
        let (keys, values) = (seen(0..keys)?, seen(keys..both)?);
        if self.is_fused && self.soft_cap.is_none() {
            self.attend_fused(queries, &keys, &values, mask_spec, masks)
        } else {
            self.attend_composed(queries, &keys, &values, mask_spec, masks)
        }
    }

    fn attend_fused(
        &self,
        queries: &Array,
        keys: &Array,
        values: &Array,
        mask_spec: &MaskSpec,
        masks: &mut Masks,
    ) -> Result<Array> {
        let (n, width) = (queries.dim(0), dim(self.heads.query_count * self.heads.dim));
        let by_head = queries.transpose_axes(&[1, 0, 2])?.expand_dims(0)?;
        let grid;
        let mask = if mask_spec.is_whole() {
            None
        } else if mask_spec.is_causal() {
            Some(ScaledDotProductAttentionMask::Causal)
        } else {
            grid = masks.boolean(mask_spec)?;
            Some(ScaledDotProductAttentionMask::Array(&grid))
        };
        fast::scaled_dot_product_attention(by_head, keys, values, self.scale, mask, None)?
            .transpose_axes(&[0, 2, 1, 3])?
            .reshape(&[n, width])
    }

    /// Attention composed of matrix products. With one query, the query heads of a KV head are rows
    /// of one product. With many queries, each head is a product of its own over the same keys.
    fn attend_composed(
        &self,
        queries: &Array,
        keys: &Array,
        values: &Array,
        mask_spec: &MaskSpec,
        masks: &mut Masks,
    ) -> Result<Array> {
        let Heads {
            query_count,
            key_count,
            dim: head_dim,
            ..
        } = self.heads;
        let (n, width) = (queries.dim(0), dim(query_count * head_dim));
        let grouped = queries.reshape(&[
            n,
            dim(key_count),
            dim(query_count / key_count),
            dim(head_dim),
        ])?;
        let grouped = if self.is_fused {
            grouped.multiply(scalar(self.scale, grouped.dtype())?)?
        } else {
            grouped
        };
        if mask_spec.is_whole() {
            let products = grouped.matmul(keys.transpose_axes(&[0, 1, 3, 2])?)?;
            let scores = ops::softmax_axis(soft_cap(products, self.soft_cap)?, -1, true)?;
            return scores.matmul(values)?.reshape(&[n, width]);
        }
        let mask = masks.additive(mask_spec, queries.dtype())?;
        let by_head = grouped.transpose_axes(&[1, 2, 0, 3])?;
        let across = keys.transpose_axes(&[1, 0, 3, 2])?;
        let products = if self.soft_cap.is_none() {
            ops::addmm(mask, by_head, across, None, None)?
        } else {
            soft_cap(by_head.matmul(across)?, self.soft_cap)?.add(mask)?
        };
        ops::softmax_axis(products, -1, true)?
            .matmul(values.transpose_axes(&[1, 0, 2, 3])?)?
            .transpose_axes(&[2, 0, 1, 3])?
            .reshape(&[n, width])
    }
}
