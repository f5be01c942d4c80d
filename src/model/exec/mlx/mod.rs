//! The executor over MLX: Metal, CUDA and any CPU.
//!
//! All arrays belong to the thread that loaded the model. Work is lazy: a step builds the graph of
//! the whole batch and evaluates it once.

mod array;
mod attention;
mod backend;
mod blas;
mod cpu_streams;
mod dense;
mod kv;
mod layer;
mod linear;
mod load;
mod mask;
mod mlp;
mod norm;
mod rope;
mod step;
mod weights;

pub use backend::Backend;
pub use kv::MlxKv;

use cpu_streams::CpuStreams;
use kv::KvShape;
use layer::Layer;
use linear::Weight;
use norm::RmsNorm;
use rope::Heads;

use super::{ExecError, Executor, KvFormat, KvLayout, Slot};
use crate::{
    load::{LoadError, Tensors},
    model::spec::{DecoderSpec, Rope},
};

/// The type of numbers to compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dtype {
    /// The device's fast type: 32-bit floats on CPUs, the stored type on GPUs.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// Brain 16-bit floats.
    Bf16,
    /// IEEE 16-bit floats.
    F16,
}

/// Options for loading a model.
#[derive(Clone, Copy, Default)]
pub struct MlxOptions<'a> {
    /// The type to compute in.
    pub dtype: Dtype,
    /// The kind of device to compute for; `None` asks MLX.
    pub backend: Option<Backend>,
    /// Told after each layer how many are loaded, and of how many.
    pub progress: Option<&'a dyn Fn(usize, usize)>,
}

/// A decoder on MLX arrays.
pub struct MlxExecutor {
    backend: Backend,
    lanes: CpuStreams,
    vocab_size: usize,
    context_length: usize,
    kv_shape: KvShape,
    heads: Heads,
    /// The distinct rotary embeddings; layers refer to them by number.
    ropes: Vec<Rope>,
    embeddings: Weight,
    embedding_scale: f32,
    layers: Vec<Layer>,
    norm: RmsNorm,
    /// The output projection, where it is not the embedding matrix.
    head: Option<Weight>,
    logit_soft_cap: Option<f32>,
}

impl MlxExecutor {
    /// Loads the weights of a description, on the thread that will run the model.
    ///
    /// # Errors
    /// If a tensor is missing, has another shape than the description, or has a type that cannot be
    /// read; the error names file and tensor. Errors of MLX carry its message.
    pub fn load(
        spec: &DecoderSpec,
        tensors: &dyn Tensors,
        options: &MlxOptions<'_>,
    ) -> Result<Self, LoadError> {
        load::load(spec, tensors, options)
    }
}

impl Executor for MlxExecutor {
    type Kv = MlxKv;

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn context_length(&self) -> usize {
        self.context_length
    }

    fn kv_bytes_per_token(&self) -> usize {
        self.kv_shape.bytes_per_token()
    }

    fn new_kv(&self) -> MlxKv {
        MlxKv::new(self.kv_shape)
    }

    fn kv_format(&self) -> Option<KvFormat> {
        let shape = self.kv_shape;
        Some(KvFormat {
            layout: KvLayout {
                layers: shape.layer_count,
                heads: shape.head_count,
                head_dim: shape.head_dim,
                element: shape.element(),
            },
            compute_id: format!("MLX on a {:?}", self.backend),
        })
    }

    fn step(
        &mut self,
        slots: &mut [Slot<'_, MlxKv>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        self.run(slots, logits)
    }
}
