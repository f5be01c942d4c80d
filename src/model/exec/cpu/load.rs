//! A description and named tensors → an executor.

use std::{cell::RefCell, sync::Arc};

use super::{
    CpuExecutor, CpuOptions, Decoder, Embeddings, KERNELS, KvElement, SimdLevel,
    attention::{Attention, Heads},
    kernels::{SimdBackend, attention::HEAD_DIM_MAX, huge_page_arena::Arena, thread_pool::Pool},
    kv::{KvShape, PagePool},
    layer::Layer,
    linear::padded,
    pack::Packer,
    rope::RopeTables,
    step::Workspace,
    threads::physical_cores,
    weights::Weights,
};
use crate::{
    load::{LoadError, Tensors},
    model::{
        exec::{rope_frequencies::distinct_ropes, tensors::Checked},
        spec::{DecoderSpec, Rope},
    },
};

/// See [`CpuExecutor::load`].
pub(super) fn load<E: KvElement>(
    spec: &DecoderSpec,
    tensors: &dyn Tensors,
    options: &CpuOptions<'_>,
) -> Result<CpuExecutor<E>, LoadError> {
    let level = level(options.instructions)?;
    if padded(spec.head_dim) > HEAD_DIM_MAX {
        let width = spec.head_dim;
        let what = format!("heads of {width} elements are wider than {HEAD_DIM_MAX}");
        return Err(LoadError(what));
    }
    let threads = options.threads.unwrap_or_else(physical_cores);
    let pool = Pool::new(threads)
        .map_err(|error| LoadError(format!("{threads} threads cannot be started: {error}")))?;
    let loader = Loader {
        spec,
        weights: Weights {
            tensors: Checked(tensors),
            quantize: options.quantize,
            bits: options.activation_bits,
            packer: RefCell::new(Packer {
                pool,
                arena: Arena::new(),
            }),
        },
        ropes: distinct_ropes(spec),
    };
    let decoder = loader.decoder(options.progress)?;
    let shape = KvShape {
        layer_count: spec.layers.len(),
        head_count: spec.kv_head_count,
        head_dim: decoder.heads.dim,
    };
    tracing::debug!(instructions = level.name(), threads, "weights loaded");
    Ok(CpuExecutor {
        level,
        store: Arc::new(PagePool::new(shape)),
        rotations: RopeTables::new(&loader.ropes, spec.head_dim),
        pool: loader.weights.packer.into_inner().pool,
        decoder,
        work: Workspace::default(),
        made_by: format!(
            "own kernels {KERNELS}, {:?}, activations {:?}, quantised {:?}",
            level.instructions(),
            options.activation_bits,
            options.quantize
        ),
    })
}

/// The fastest instructions, or those asked for.
fn level(asked: Option<SimdLevel>) -> Result<SimdBackend, LoadError> {
    let wanted = |level: &SimdBackend| asked.is_none_or(|asked| asked == level.instructions());
    SimdBackend::all()
        .into_iter()
        .find(wanted)
        .ok_or_else(|| LoadError(format!("this processor has no {asked:?} instructions")))
}

struct Loader<'a> {
    spec: &'a DecoderSpec,
    weights: Weights<'a>,
    ropes: Vec<Rope>,
}

impl Loader<'_> {
    fn decoder(&self, progress: Option<&dyn Fn(usize, usize)>) -> Result<Decoder, LoadError> {
        let spec = self.spec;
        let count = spec.layers.len();
        let mut layers = Vec::with_capacity(count);
        for index in 0..count {
            layers.push(self.layer(index)?);
            if let Some(progress) = progress {
                progress(layers.len(), count);
            }
        }
        let (rows, columns) = (spec.vocab_size, spec.hidden_size);
        let embedding = format!("{}embed_tokens", spec.names.decoder);
        let (head, embeddings) = match spec.tied_embeddings {
            true => (embedding.as_str(), Embeddings::Head),
            false => {
                let own = self.weights.matrix(&embedding, rows, columns)?;
                (spec.names.head.as_str(), Embeddings::Own(own))
            }
        };
        Ok(Decoder {
            vocab_size: spec.vocab_size,
            context_length: spec.context_length,
            hidden_size: spec.hidden_size,
            heads: self.heads(),
            embeddings,
            embedding_scale: spec.embedding_scale,
            norm: self.norm(&format!("{}norm", spec.names.decoder), spec.hidden_size)?,
            eps: spec.norm.eps,
            head: self.weights.projection(&[(head, rows)], columns, false)?,
            logit_soft_cap: spec.logit_soft_cap,
            layers,
        })
    }

    fn heads(&self) -> Heads {
        Heads {
            keys: self.spec.kv_head_count,
            group: self.spec.head_count / self.spec.kv_head_count,
            width: self.spec.head_dim,
            dim: padded(self.spec.head_dim),
            scale: self.spec.attention_scale,
        }
    }

    fn norm(&self, name: &str, width: usize) -> Result<Vec<f32>, LoadError> {
        let offset = if self.spec.norm.unit_offset { 1.0 } else { 0.0 };
        self.weights.norm(name, width, offset)
    }

    fn layer(&self, index: usize) -> Result<Layer, LoadError> {
        let (spec, names) = (self.spec, &self.spec.names);
        let (hidden, intermediate) = (spec.hidden_size, spec.intermediate_size);
        let (queries, keys) = (
            spec.head_count * spec.head_dim,
            spec.kv_head_count * spec.head_dim,
        );
        let prefix = format!("{}layers.{index}.", names.decoder);
        let name = |name: &str| format!("{prefix}{name}");
        let norm = |ending: &str| self.norm(&name(ending), hidden);
        let post = |ending: Option<&str>| ending.map(norm).transpose();
        let [q, k, v, o] = ["q", "k", "v", "o"].map(|part| name(&format!("self_attn.{part}_proj")));
        let [gate, up, down] = ["gate", "up", "down"].map(|part| name(&format!("mlp.{part}_proj")));
        let project = |parts: &[(&str, usize)], columns, has_bias| {
            self.weights.projection(parts, columns, has_bias)
        };
        Ok(Layer {
            attention_norm: norm("input_layernorm")?,
            qkv: project(
                &[(&q, queries), (&k, keys), (&v, keys)],
                hidden,
                spec.qkv_bias,
            )?,
            attention: self.attention(index, &prefix)?,
            output: project(&[(&o, hidden)], queries, spec.output_bias)?,
            attention_post_norm: post(names.post_norms.map(|names| names.attention))?,
            mlp_norm: norm(names.feed_forward_norm)?,
            gate_up: project(
                &[(&gate, intermediate), (&up, intermediate)],
                hidden,
                spec.mlp_bias,
            )?,
            activation: spec.activation,
            intermediate_size: intermediate,
            down: project(&[(&down, hidden)], intermediate, spec.mlp_bias)?,
            mlp_post_norm: post(names.post_norms.map(|names| names.feed_forward))?,
        })
    }

    fn attention(&self, index: usize, prefix: &str) -> Result<Attention, LoadError> {
        let spec = self.spec;
        let norm = |name: &str| self.norm(&format!("{prefix}self_attn.{name}"), spec.head_dim);
        let qk_norm = match spec.qk_norm {
            true => Some([norm("q_norm")?, norm("k_norm")?]),
            false => None,
        };
        let layer = &spec.layers[index];
        Ok(Attention {
            qk_norm,
            eps: spec.norm.eps,
            window: layer.window,
            soft_cap: spec.attention_soft_cap,
            rotation: self
                .ropes
                .iter()
                .position(|known| *known == layer.rope)
                .unwrap_or(0),
        })
    }
}
