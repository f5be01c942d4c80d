//! A description and named tensors → an executor.

use mlx_rs::memory;

use super::{
    MlxExecutor, MlxOptions,
    attention::Attention,
    backend::Backend,
    kv::KvShape,
    lanes::Lanes,
    layer::Layer,
    linear::Weight,
    mlp::Mlp,
    norm::RmsNorm,
    rotary::Heads,
    weights::{Part, Weights},
};
use crate::{
    load::{Encoding, LoadError, Tensors},
    model::spec::{DecoderSpec, Rope},
};

/// Bytes of freed buffers that MLX keeps for later ones.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// See [`MlxExecutor::load`].
pub(super) fn load(
    spec: &DecoderSpec,
    tensors: &dyn Tensors,
    options: &MlxOptions<'_>,
) -> Result<MlxExecutor, LoadError> {
    memory::set_cache_limit(CACHE_BYTES_MAX)
        .map_err(|error| LoadError(format!("MLX does not start: {error}")))?;
    let backend = options.backend.unwrap_or_else(Backend::of_default_device);
    let embeddings = format!("{}embed_tokens", spec.names.decoder);
    let dtype = backend.compute_type(options.dtype, stored_type(tensors, &embeddings));
    let weights = Weights {
        tensors,
        backend,
        dtype,
    };
    Loader {
        spec,
        weights,
        ropes: distinct_ropes(spec),
    }
    .executor(&embeddings, options)
}

/// How a matrix's numbers are stored; for an MLX-quantised one, how its scales are.
fn stored_type(tensors: &dyn Tensors, name: &str) -> Encoding {
    let encoding = |ending| {
        tensors
            .info(&format!("{name}.{ending}"))
            .map(|info| info.encoding)
    };
    encoding("scales")
        .or_else(|| encoding("weight"))
        .unwrap_or(Encoding::F32)
}

fn distinct_ropes(spec: &DecoderSpec) -> Vec<Rope> {
    let mut ropes: Vec<Rope> = Vec::new();
    for layer in &spec.layers {
        if !ropes.contains(&layer.rope) {
            ropes.push(layer.rope.clone());
        }
    }
    ropes
}

struct Loader<'a> {
    spec: &'a DecoderSpec,
    weights: Weights<'a>,
    ropes: Vec<Rope>,
}

impl Loader<'_> {
    fn executor(
        self,
        embeddings: &str,
        options: &MlxOptions<'_>,
    ) -> Result<MlxExecutor, LoadError> {
        let spec = self.spec;
        let head = (!spec.tied_embeddings)
            .then(|| self.vocabulary(&spec.names.head))
            .transpose()?;
        let mut layers = Vec::with_capacity(spec.layers.len());
        for index in 0..spec.layers.len() {
            layers.push(self.layer(index)?);
            if let Some(progress) = options.progress {
                progress(layers.len(), spec.layers.len());
            }
        }
        Ok(MlxExecutor {
            backend: self.weights.backend,
            lanes: Lanes::new(self.weights.backend),
            vocab_size: spec.vocab_size,
            context_length: spec.context_length,
            kv_shape: KvShape {
                layer_count: spec.layers.len(),
                head_count: spec.kv_head_count,
                head_dim: spec.head_dim,
                dtype: self.weights.dtype,
            },
            heads: self.heads(),
            embeddings: self.vocabulary(embeddings)?,
            embedding_scale: spec.embedding_scale,
            layers,
            norm: self.norm(&format!("{}norm", spec.names.decoder), spec.hidden_size)?,
            head,
            logit_soft_cap: spec.logit_soft_cap,
            ropes: self.ropes,
        })
    }

    /// A matrix `[vocabulary, hidden]`.
    fn vocabulary(&self, name: &str) -> Result<Weight, LoadError> {
        let part = Part {
            name,
            rows: self.spec.vocab_size,
        };
        self.weights.matrix(&[part], self.spec.hidden_size)
    }

    fn norm(&self, name: &str, width: usize) -> Result<RmsNorm, LoadError> {
        let norm = self.spec.norm;
        let offset = if norm.unit_offset { 1.0 } else { 0.0 };
        let weight = self
            .weights
            .vector(&format!("{name}.weight"), width, offset)?;
        Ok(RmsNorm {
            weight,
            eps: norm.eps,
        })
    }

    fn heads(&self) -> Heads {
        Heads {
            query_count: self.spec.head_count,
            key_count: self.spec.kv_head_count,
            dim: self.spec.head_dim,
            query_scale: self.spec.attention_scale,
        }
    }

    fn layer(&self, index: usize) -> Result<Layer, LoadError> {
        let (spec, names) = (self.spec, &self.spec.names);
        let prefix = format!("{}layers.{index}.", names.decoder);
        let norm = |name: &str| self.norm(&format!("{prefix}{name}"), spec.hidden_size);
        let post = |name: Option<&str>| name.map(norm).transpose();
        let rope = &spec.layers[index].rope;
        Ok(Layer {
            attention_norm: norm("input_layernorm")?,
            attention: self.attention(index, &format!("{prefix}self_attn."))?,
            attention_post_norm: post(names.post_norms.map(|names| names.attention))?,
            mlp_norm: norm(names.feed_forward_norm)?,
            mlp: self.mlp(&format!("{prefix}mlp."))?,
            mlp_post_norm: post(names.post_norms.map(|names| names.feed_forward))?,
            rotation: self
                .ropes
                .iter()
                .position(|known| known == rope)
                .unwrap_or(0),
        })
    }

    fn attention(&self, index: usize, prefix: &str) -> Result<Attention, LoadError> {
        let spec = self.spec;
        let (queries, keys) = (
            spec.head_count * spec.head_dim,
            spec.kv_head_count * spec.head_dim,
        );
        let name = |name: &str| format!("{prefix}{name}");
        let parts = [
            Part {
                name: &name("q_proj"),
                rows: queries,
            },
            Part {
                name: &name("k_proj"),
                rows: keys,
            },
            Part {
                name: &name("v_proj"),
                rows: keys,
            },
        ];
        let norm = |name: &str| self.norm(&format!("{prefix}{name}"), spec.head_dim);
        let qk_norm = match spec.qk_norm {
            true => Some((norm("q_norm")?, norm("k_norm")?)),
            false => None,
        };
        let output = name("o_proj");
        Ok(Attention {
            qkv: self
                .weights
                .projection(&parts, spec.hidden_size, spec.qkv_bias)?,
            output: self
                .weights
                .linear(&output, spec.hidden_size, queries, spec.output_bias)?,
            qk_norm,
            heads: self.heads(),
            scale: spec.attention_scale,
            soft_cap: spec.attention_soft_cap,
            window: spec.layers[index].window,
            is_fused: self.weights.backend.has_fused_kernels(),
        })
    }

    fn mlp(&self, prefix: &str) -> Result<Mlp, LoadError> {
        let (hidden, intermediate) = (self.spec.hidden_size, self.spec.intermediate_size);
        let name = |name: &str| format!("{prefix}{name}");
        let parts = [
            Part {
                name: &name("gate_proj"),
                rows: intermediate,
            },
            Part {
                name: &name("up_proj"),
                rows: intermediate,
            },
        ];
        let (bias, down) = (self.spec.mlp_bias, name("down_proj"));
        Ok(Mlp {
            gate_up: self.weights.projection(&parts, hidden, bias)?,
            down: self.weights.linear(&down, hidden, intermediate, bias)?,
            activation: self.spec.activation,
            intermediate_size: intermediate,
        })
    }
}
