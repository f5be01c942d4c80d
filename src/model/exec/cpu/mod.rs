//! The executor over CPU kernels: quantised weights stay quantised.
//!
//! A step runs layer by layer over all its tokens. Each parallel loop is one round of the thread
//! pool: activations by panels of eight tokens, products by tiles of sixteen rows, attention by
//! heads and queries. Buffers are reused between steps.

mod attention;
mod kernels;
mod kv;
mod layer;
mod linear;
mod load;
mod matrix;
mod pack;
mod rope;
mod step;
mod threads;
mod weights;

use std::sync::Arc;

use half::f16;

pub use kv::CpuKv;
pub use threads::physical_cores;

use attention::Heads;
use kernels::{SimdBackend, attention::Element, thread_pool::Pool};
use kv::PagePool;
use layer::Layer;
use linear::Projection;
use matrix::Matrix;
use rope::RopeTables;
use step::Workspace;

use super::{ExecError, Executor, KvElementType, KvFormat, KvLayout, Slot};
use crate::{
    load::{LoadError, Tensors},
    model::spec::DecoderSpec,
};

/// The numbers that key/value memory is made of: [`half::f16`] or [`f32`].
#[expect(private_bounds, reason = "there are only these two such types")]
pub trait KvElement: Element {
    /// The element type.
    const TYPE: KvElementType;

    /// Writes the number, little-endian.
    fn put(self, bytes: &mut [u8]);

    /// Decodes a number from the bytes that [`Self::put`] writes.
    fn of(bytes: &[u8]) -> Self;
}

impl KvElement for f16 {
    const TYPE: KvElementType = KvElementType::F16;

    #[inline(always)]
    fn put(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }

    #[inline(always)]
    fn of(bytes: &[u8]) -> Self {
        Self::from_le_bytes([bytes[0], bytes[1]])
    }
}

impl KvElement for f32 {
    const TYPE: KvElementType = KvElementType::F32;

    #[inline(always)]
    fn put(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }

    #[inline(always)]
    fn of(bytes: &[u8]) -> Self {
        Self::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// Version of the kernels: raised by each change that changes a bit of their results, so that older
/// KV snapshots are not continued.
const KERNELS: u32 = 1;

/// The instructions to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimdLevel {
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2, and AVX-VNNI where there is that.
    Avx2,
    /// None in particular.
    Portable,
}

impl SimdLevel {
    /// Returns the SIMD levels of this processor, the fastest first.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = SimdBackend::all()
            .into_iter()
            .map(SimdBackend::instructions)
            .collect();
        all.dedup();
        all
    }
}

impl std::str::FromStr for SimdLevel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "avx512" => Ok(Self::Avx512),
            "avx2" => Ok(Self::Avx2),
            "portable" => Ok(Self::Portable),
            _ => Err(format!("`{name}` is none of avx512, avx2 and portable")),
        }
    }
}

/// The type to which plain weights are quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantize {
    /// 8 bits, in blocks of 32 with a scale.
    Q8,
    /// 4 bits, in blocks of 32 with a scale and a minimum.
    Q4,
}

/// Bits of the activations that meet quantised weights, in blocks of 32 with one scale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ActivationBits {
    /// 8 bits, as most engines do.
    #[default]
    Eight,
    /// 16 bits: results equal those of 32-bit floats, up to rounding.
    Sixteen,
}

/// Options for loading a model.
#[derive(Clone, Copy, Default)]
pub struct CpuOptions<'a> {
    /// Number of threads; `None` takes one for each physical core.
    pub threads: Option<usize>,
    /// The type to which plain weights are quantised; `None` keeps them.
    pub quantize: Option<Quantize>,
    /// Bits of the activations that meet quantised weights.
    pub activation_bits: ActivationBits,
    /// The instructions to use; `None` takes the fastest there are.
    pub instructions: Option<SimdLevel>,
    /// Told after each layer how many are loaded, and of how many.
    pub progress: Option<&'a dyn Fn(usize, usize)>,
}

/// A decoder in memory, with key/value memory of `E`.
pub struct CpuExecutor<E: KvElement = f16> {
    level: SimdBackend,
    pool: Pool,
    decoder: Decoder,
    store: Arc<PagePool<E>>,
    rotations: RopeTables,
    work: Workspace,
    /// Everything besides the model's files that the results depend on.
    made_by: String,
}

/// The weights, and what else a description calls for.
struct Decoder {
    vocab_size: usize,
    context_length: usize,
    hidden_size: usize,
    heads: Heads,
    embeddings: Embeddings,
    embedding_scale: f32,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    eps: f32,
    /// The output projection, which may be the embedding matrix.
    head: Projection,
    logit_soft_cap: Option<f32>,
}

/// Storage of the embedding rows.
enum Embeddings {
    /// The output projection.
    Head,
    /// A matrix of their own.
    Own(Matrix),
}

impl<E: KvElement> CpuExecutor<E> {
    /// Loads the weights of a description.
    ///
    /// # Errors
    /// If a tensor is missing, has another shape than the description, or has a type that cannot be
    /// read; the error names file and tensor. Also if the processor lacks the requested SIMD level.
    pub fn load(
        spec: &DecoderSpec,
        tensors: &dyn Tensors,
        options: &CpuOptions<'_>,
    ) -> Result<Self, LoadError> {
        load::load(spec, tensors, options)
    }
}

impl<E: KvElement> Executor for CpuExecutor<E> {
    type Kv = CpuKv<E>;

    fn vocab_size(&self) -> usize {
        self.decoder.vocab_size
    }

    fn context_length(&self) -> usize {
        self.decoder.context_length
    }

    fn kv_bytes_per_token(&self) -> usize {
        self.store.shape.bytes_per_token::<E>()
    }

    fn new_kv(&self) -> CpuKv<E> {
        CpuKv::new(Arc::clone(&self.store))
    }

    fn kv_format(&self) -> Option<KvFormat> {
        let shape = self.store.shape;
        Some(KvFormat {
            layout: KvLayout {
                layers: shape.layer_count,
                heads: shape.head_count,
                head_dim: shape.head_dim,
                element: E::TYPE,
            },
            compute_id: self.made_by.clone(),
        })
    }

    fn step(
        &mut self,
        slots: &mut [Slot<'_, CpuKv<E>>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        self.run(slots, logits)
    }
}
