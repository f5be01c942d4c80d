//! A description and named tensors → an executor.

use std::cell::Cell;

use mlx_rs::memory;

use super::{
    MlxExecutor, MlxOptions,
    attention::Attention,
    backend::Backend,
    blas,
    cpu_streams::CpuStreams,
    kv::KvShape,
    layer::Layer,
    linear::Weight,
    mlp::Mlp,
    norm::RmsNorm,
    rope::Heads,
    weights::{TensorRows, Weights},
};
use crate::{
    load::{LoadError, TensorType, Tensors},
    model::{
        exec::{rope_frequencies::distinct_ropes, tensors::Checked},
        spec::{DecoderSpec, Rope},
    },
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
    if backend == Backend::Cpu {
        blas::use_one_thread();
    }
    let lanes = CpuStreams::new(backend);
    let weights = Weights {
        tensors: Checked(tensors),
        backend,
        dtype,
        lanes: &lanes,
        buffer: Cell::default(),
    };
    let loader = Loader {
        spec,
        weights,
        ropes: distinct_ropes(spec),
    };
    let layers = loader.layers(options.progress)?;
    Ok(MlxExecutor {
        backend,
        vocab_size: spec.vocab_size,
        context_length: spec.context_length,
        kv_shape: loader.kv_shape(),
        heads: loader.heads(),
        embeddings: loader.vocabulary(&embeddings)?,
        embedding_scale: spec.embedding_scale,
        layers,
        norm: loader.norm(&format!("{}norm", spec.names.decoder), spec.hidden_size)?,
        head: loader.head()?,
        logit_soft_cap: spec.logit_soft_cap,
        ropes: loader.ropes,
        lanes,
    })
}

/// Returns the type of a matrix's numbers; for an MLX-quantised matrix, that of its scales.
fn stored_type(tensors: &dyn Tensors, name: &str) -> TensorType {
    let encoding = |ending| {
        tensors
            .info(&format!("{name}.{ending}"))
            .map(|info| info.encoding)
    };
    encoding("scales")
        .or_else(|| encoding("weight"))
        .unwrap_or(TensorType::F32)
}

struct Loader<'a> {
    spec: &'a DecoderSpec,
    weights: Weights<'a>,
    ropes: Vec<Rope>,
}

impl Loader<'_> {
    fn layers(&self, progress: Option<&dyn Fn(usize, usize)>) -> Result<Vec<Layer>, LoadError> {
        let count = self.spec.layers.len();
        let mut layers = Vec::with_capacity(count);
        for index in 0..count {
            layers.push(self.layer(index)?);
            if let Some(progress) = progress {
                progress(layers.len(), count);
            }
        }
        Ok(layers)
    }

    fn kv_shape(&self) -> KvShape {
        KvShape {
            layer_count: self.spec.layers.len(),
            head_count: self.spec.kv_head_count,
            head_dim: self.spec.head_dim,
            dtype: self.weights.dtype,
        }
    }

    /// The output projection, where it is not the embedding matrix.
    fn head(&self) -> Result<Option<Weight>, LoadError> {
        match self.spec.tied_embeddings {
            true => Ok(None),
            false => self.vocabulary(&self.spec.names.head).map(Some),
        }
    }

    /// A matrix `[vocabulary, hidden]`.
    fn vocabulary(&self, name: &str) -> Result<Weight, LoadError> {
        let part = TensorRows {
            name,
            rows: self.spec.vocab_size,
        };
        self.weights.matrix(&[part], self.spec.hidden_size, None)
    }

    /// A norm with factors of its own.
    fn norm(&self, name: &str, width: usize) -> Result<RmsNorm, LoadError> {
        let name = format!("{name}.weight");
        let weight = self
            .weights
            .vector(&name, self.norm_factors(&name, width)?)?;
        Ok(RmsNorm::Weighted {
            weight,
            eps: self.spec.norm.eps,
        })
    }

    /// Returns a norm before linear layers, and the factors that these layers take over from it, if
    /// any.
    fn leading_norm(&self, name: &str) -> Result<(RmsNorm, Option<Vec<f32>>), LoadError> {
        let width = self.spec.hidden_size;
        if !self.weights.backend.folds_norms() {
            return Ok((self.norm(name, width)?, None));
        }
        let mut factors = self.norm_factors(&format!("{name}.weight"), width)?;
        factors
            .iter_mut()
            .for_each(|factor| *factor *= (width as f32).sqrt());
        let norm = RmsNorm::folded(width, self.spec.norm.eps, self.weights.dtype)
            .map_err(|error| LoadError(format!("MLX failed: {error}")))?;
        Ok((norm, Some(factors)))
    }

    fn norm_factors(&self, name: &str, width: usize) -> Result<Vec<f32>, LoadError> {
        let mut factors = self.weights.tensors.vector(name, width)?;
        if self.spec.norm.unit_offset {
            factors.iter_mut().for_each(|factor| *factor += 1.0);
        }
        Ok(factors)
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
        let leading = |name: &str| self.leading_norm(&format!("{prefix}{name}"));
        let post = |name: Option<&str>| {
            name.map(|name| self.norm(&format!("{prefix}{name}"), spec.hidden_size))
                .transpose()
        };
        let (attention_norm, qkv_factors) = leading("input_layernorm")?;
        let (mlp_norm, gate_up_factors) = leading(names.feed_forward_norm)?;
        let rope = &spec.layers[index].rope;
        Ok(Layer {
            attention_norm,
            attention: self.attention(
                index,
                &format!("{prefix}self_attn."),
                qkv_factors.as_deref(),
            )?,
            attention_post_norm: post(names.post_norms.map(|names| names.attention))?,
            mlp_norm,
            mlp: self.mlp(&format!("{prefix}mlp."), gate_up_factors.as_deref())?,
            mlp_post_norm: post(names.post_norms.map(|names| names.feed_forward))?,
            rotation: self
                .ropes
                .iter()
                .position(|known| known == rope)
                .unwrap_or(0),
        })
    }

    fn attention(
        &self,
        index: usize,
        prefix: &str,
        factors: Option<&[f32]>,
    ) -> Result<Attention, LoadError> {
        let spec = self.spec;
        let (queries, keys) = (
            spec.head_count * spec.head_dim,
            spec.kv_head_count * spec.head_dim,
        );
        let name = |name: &str| format!("{prefix}{name}");
        let parts = [
            TensorRows {
                name: &name("q_proj"),
                rows: queries,
            },
            TensorRows {
                name: &name("k_proj"),
                rows: keys,
            },
            TensorRows {
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
                .projection(&parts, spec.hidden_size, spec.qkv_bias, factors)?,
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

    fn mlp(&self, prefix: &str, factors: Option<&[f32]>) -> Result<Mlp, LoadError> {
        let (hidden, intermediate) = (self.spec.hidden_size, self.spec.intermediate_size);
        let name = |name: &str| format!("{prefix}{name}");
        let parts = [
            TensorRows {
                name: &name("gate_proj"),
                rows: intermediate,
            },
            TensorRows {
                name: &name("up_proj"),
                rows: intermediate,
            },
        ];
        let (bias, down) = (self.spec.mlp_bias, name("down_proj"));
        Ok(Mlp {
            gate_up: self.weights.projection(&parts, hidden, bias, factors)?,
            down: self.weights.linear(&down, hidden, intermediate, bias)?,
            activation: self.spec.activation,
            intermediate_size: intermediate,
        })
    }
}
