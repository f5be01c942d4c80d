//! The executor over own kernels, for processors: quantised weights stay quantised.
//!
//! A step runs layer by layer over all its tokens. What is shared out over threads is one round of
//! the pool: activations by panels of eight tokens, products by tiles of sixteen rows, attention by
//! heads and queries. Buffers are kept from step to step.

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
    /// Which of them it is.
    const TYPE: KvElementType;

    /// Writes it, little-endian, into as many bytes as it has.
    fn put(self, bytes: &mut [u8]);

    /// The number that these bytes spell, as [`Self::put`] writes them.
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

/// Counts changes of the kernels that change a bit of what they compute, so that keys and values
/// that were written down before are not gone on with.
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
    /// What this processor has, the fastest first.
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

/// What plain weights are quantised to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantize {
    /// 8 bits, in blocks of 32 with a scale.
    Q8,
    /// 4 bits, in blocks of 32 with a scale and a minimum.
    Q4,
}

/// How finely activations are quantised before they meet quantised weights: in blocks of 32 with a
/// scale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ActivationBits {
    /// 8 bits, as most engines do.
    #[default]
    Eight,
    /// 16 bits: what comes out is that of 32-bit floats, to rounding.
    Sixteen,
}

/// How a model is loaded.
#[derive(Clone, Copy, Default)]
pub struct CpuOptions<'a> {
    /// Number of threads; `None` takes one for each physical core.
    pub threads: Option<usize>,
    /// What plain weights are quantised to; `None` leaves them as they are.
    pub quantize: Option<Quantize>,
    /// How finely activations are quantised, where weights are.
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
    /// What its numbers depend on beside the model's files.
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

/// Where the rows of tokens come from.
enum Embeddings {
    /// The output projection.
    Head,
    /// A matrix of their own.
    Own(Matrix),
}

impl<E: KvElement> CpuExecutor<E> {
    /// Loads the weights that a description calls for.
    ///
    /// # Errors
    /// Names the file and the tensor where one is missing, has another shape than the description
    /// says, or is stored in a way that cannot be read; says so where the processor lacks the
    /// instructions asked for.
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
