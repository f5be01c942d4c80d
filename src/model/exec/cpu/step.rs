//! One step of a batch: tokens → logits.

use std::iter::repeat_n;

use super::{
    CpuExecutor, CpuKv, Decoder, Embeddings, KvElement,
    attention::{self, AttentionLayer},
    kernels::{
        SimdBackend,
        disjoint::Chunks,
        rows::{GatedActivation, RmsNorm, SoftCap},
        simd::LANES,
        thread_pool::Pool,
    },
    layer::Layer,
    linear::{Activations, Products, Projection, Rows, grow, padded},
    rope::RopeTables,
};
use crate::{
    id::TokenId,
    model::exec::{ExecError, KvCache as _, Slot, check_slots},
};

/// Buffers, kept from step to step.
#[derive(Default)]
pub(super) struct Workspace {
    /// `[token][hidden]`, padded.
    residual: Vec<f32>,
    inputs: Activations,
    products: Products,
    attention: attention::Workspace,
    tokens: Vec<TokenId>,
    /// Rows whose logits are wanted.
    wanted: Vec<usize>,
}

impl<E: KvElement> CpuExecutor<E> {
    /// See [`Executor::step`](crate::model::exec::Executor::step).
    pub(super) fn run(
        &mut self,
        slots: &mut [Slot<'_, CpuKv<E>>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        logits.clear();
        check_slots(slots, self.decoder.context_length, self.decoder.vocab_size)?;
        if slots.is_empty() {
            return Ok(());
        }
        self.prepare(slots)?;
        let mut step = Step {
            level: self.level,
            pool: &mut self.pool,
            decoder: &self.decoder,
            rotations: &self.rotations,
            work: &mut self.work,
            count: 0,
        };
        step.embed();
        let layers = &self.decoder.layers;
        for number in 0..layers.len() {
            let before = number.checked_sub(1).map(|before| &layers[before]);
            step.attend(before, number, slots);
            if number + 1 == layers.len() && !step.keep_wanted() {
                return Ok(());
            }
            step.feed_forward(&layers[number], slots);
        }
        step.logits(logits);
        Ok(())
    }

    /// Extends the KV caches and prepares the values that all layers share.
    fn prepare(&mut self, slots: &mut [Slot<'_, CpuKv<E>>]) -> Result<(), ExecError> {
        let Workspace {
            attention,
            tokens,
            wanted,
            ..
        } = &mut self.work;
        tokens.clear();
        wanted.clear();
        for slot in slots.iter_mut() {
            slot.kv
                .extend(slot.tokens.len())
                .map_err(|error| ExecError(format!("there is no memory for tokens: {error}")))?;
            tokens.extend_from_slice(slot.tokens);
            wanted.extend(tokens.len() - slot.logit_rows..tokens.len());
        }
        let positions = slots
            .iter()
            .flat_map(|slot| slot.kv.len() - slot.tokens.len()..slot.kv.len());
        self.rotations.prepare(&positions);
        attention.cut(slots, self.decoder.heads);
        Ok(())
    }
}

/// A step on its way through the layers.
struct Step<'a> {
    level: SimdBackend,
    pool: &'a mut Pool,
    decoder: &'a Decoder,
    rotations: &'a RopeTables,
    work: &'a mut Workspace,
    /// Rows of the residual stream that are left.
    count: usize,
}

impl Step<'_> {
    fn embed(&mut self) {
        let Workspace {
            residual, tokens, ..
        } = &mut *self.work;
        let (stride, scale) = (
            padded(self.decoder.hidden_size),
            self.decoder.embedding_scale,
        );
        self.count = tokens.len();
        grow(residual, tokens.len() * stride);
        let matrix = match &self.decoder.embeddings {
            Embeddings::Head => self.decoder.head.first(),
            Embeddings::Own(matrix) => matrix,
        };
        let rows = Chunks::new(&mut residual[..tokens.len() * stride], stride);
        self.pool.par_for(rows, |token, row| {
            row.fill(0.0);
            matrix.row(tokens[token] as usize, &mut row[..self.decoder.hidden_size]);
            row.iter_mut().for_each(|value| *value *= scale);
        });
    }

    /// Adds what the layer before gave to the residual stream, and runs attention.
    fn attend<E: KvElement>(
        &mut self,
        before: Option<&Layer>,
        number: usize,
        slots: &mut [Slot<'_, CpuKv<E>>],
    ) {
        let layer = &self.decoder.layers[number];
        let post = before.and_then(|before| before.mlp_post_norm.as_deref());
        self.normalise(before.map(|_| post), &layer.attention_norm, &layer.qkv);
        let Workspace {
            inputs, products, ..
        } = &mut *self.work;
        layer.qkv.multiply(self.level, self.pool, inputs, products);
        let place = AttentionLayer {
            attention: &layer.attention,
            layer: number,
            tiles: [0, 1, 2].map(|part| layer.qkv.tiles_of(part).start),
        };
        self.work.attention.run(
            (self.level, self.pool),
            (&place, self.decoder.heads),
            (
                &self.work.products.all,
                self.rotations.of(layer.attention.rotation),
            ),
            slots,
        );
    }

    /// Goes on with the rows that want logits only. False if there are none.
    fn keep_wanted(&mut self) -> bool {
        let Workspace {
            residual, wanted, ..
        } = &mut *self.work;
        let stride = padded(self.decoder.hidden_size);
        for (to, from) in wanted.iter().enumerate() {
            residual.copy_within(from * stride..(from + 1) * stride, to * stride);
        }
        self.count = wanted.len();
        !wanted.is_empty()
    }

    /// Attention's output projection, and the feed-forward but for adding it.
    fn feed_forward<E: KvElement>(&mut self, layer: &Layer, slots: &[Slot<'_, CpuKv<E>>]) {
        let heads = self.decoder.heads;
        let width = heads.keys * heads.group * heads.width;
        let Workspace {
            residual,
            inputs,
            products,
            attention,
            tokens,
            wanted,
        } = &mut *self.work;
        let is_whole = self.count == tokens.len();
        let row_of = |token: usize| if is_whole { token } else { wanted[token] };
        let residual = rows(residual, self.decoder, self.count);
        let forms = (width, layer.output.forms());
        inputs.fill(self.level, self.pool, forms, residual, |token, _, row| {
            row[width..].fill(0.0);
            attention.mixed(row_of(token), heads, slots, row);
        });
        layer
            .output
            .multiply(self.level, self.pool, inputs, products);
        let post = layer.attention_post_norm.as_deref();
        self.normalise(Some(post), &layer.mlp_norm, &layer.gate_up);
        self.gate(layer);
    }

    /// The feed-forward's own layers, out of normalised inputs.
    fn gate(&mut self, layer: &Layer) {
        let Workspace {
            residual,
            inputs,
            products,
            ..
        } = &mut *self.work;
        layer
            .gate_up
            .multiply(self.level, self.pool, inputs, products);
        let [gate, up] = [0, 1].map(|part| {
            let tiles = layer.gate_up.tiles_of(part);
            &products.all[tiles.start * self.count..tiles.end * self.count]
        });
        let (level, tokens) = (self.level, self.count);
        let residual = rows(residual, self.decoder, self.count);
        let forms = (layer.intermediate_size, layer.down.forms());
        inputs.fill(level, self.pool, forms, residual, |token, _, out| {
            level.run(GatedActivation {
                activation: layer.activation,
                gate,
                up,
                tokens,
                token,
                out,
            });
        });
        layer.down.multiply(level, self.pool, inputs, products);
    }

    /// Adds products to the residual stream, if there are any, normalised if there is such a norm;
    /// then the residual stream, normalised, becomes the input of the next layers.
    fn normalise(&mut self, products: Option<Option<&[f32]>>, norm: &[f32], next: &Projection) {
        let (level, eps, tokens) = (self.level, self.decoder.eps, self.count);
        let width = self.decoder.hidden_size;
        let normalise = |row: &mut [f32], weight| {
            level.run(RmsNorm {
                row,
                weight,
                width,
                eps,
            });
        };
        let Workspace {
            residual,
            inputs,
            products: all,
            ..
        } = &mut *self.work;
        let residual = rows(residual, self.decoder, tokens);
        let forms = (width, next.forms());
        inputs.fill(level, self.pool, forms, residual, |token, x, row| {
            if let Some(post) = products {
                take(&all.all, (token, tokens), width, row);
                if let Some(post) = post {
                    normalise(row, post);
                }
                x.iter_mut().zip(&*row).for_each(|(x, row)| *x += row);
            }
            row.copy_from_slice(x);
            normalise(row, norm);
        });
    }

    /// One row of logits for each that is left.
    fn logits(&mut self, logits: &mut Vec<f32>) {
        let decoder = self.decoder;
        let post = decoder
            .layers
            .last()
            .and_then(|layer| layer.mlp_post_norm.as_deref());
        self.normalise(Some(post), &decoder.norm, &decoder.head);
        let Workspace {
            inputs, products, ..
        } = &mut *self.work;
        decoder
            .head
            .multiply(self.level, self.pool, inputs, products);
        let (level, count) = (self.level, self.count);
        let size = decoder.vocab_size;
        if let Some(cap) = decoder.logit_soft_cap {
            let tiles = Chunks::new(
                &mut products.all[..size.div_ceil(LANES) * count],
                64 * count,
            );
            self.pool
                .par_for(tiles, |_, values| level.run(SoftCap { cap, values }));
        }
        logits.extend(repeat_n(0.0, count * size));
        let all = &products.all;
        self.pool.par_for(Chunks::new(logits, size), |token, row| {
            take(all, (token, count), size, row);
        });
    }
}

/// The residual stream.
fn rows<'a>(residual: &'a mut [f32], decoder: &Decoder, count: usize) -> Rows<'a> {
    let stride = padded(decoder.hidden_size);
    Rows {
        all: &mut residual[..count * stride],
        stride,
        tokens: count,
    }
}

/// One token's row of `width` numbers out of products `[tile][token]`; padding becomes 0.
fn take(products: &[[f32; LANES]], (token, tokens): (usize, usize), width: usize, row: &mut [f32]) {
    for (tile, row) in row.chunks_mut(LANES).enumerate() {
        match tile < width.div_ceil(LANES) {
            true => row.copy_from_slice(&products[tile * tokens + token][..row.len()]),
            false => row.fill(0.0),
        }
    }
}
