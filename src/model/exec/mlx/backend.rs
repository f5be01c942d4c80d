//! Assumptions about the device: the only place that tells a CPU from a GPU.

use mlx_rs::{Device, DeviceType, Dtype as ArrayType};

use super::Dtype;
use crate::load::TensorType;

/// The kind of device that MLX runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Metal or CUDA: kernels for 16-bit floats, quantised weights, attention and rotary embedding.
    Gpu,
    /// MLX's CPU backend: only 32-bit matrix products are fast, and attention and rotary embedding
    /// are made of elementwise operations.
    Cpu,
}

impl Backend {
    /// The backend of MLX's default device.
    #[must_use]
    pub fn of_default_device() -> Self {
        match Device::try_default().and_then(|device| device.get_type()) {
            Ok(DeviceType::Gpu) => Self::Gpu,
            Ok(DeviceType::Cpu) | Err(_) => Self::Cpu,
        }
    }

    /// The type to compute in, `stored` being how the embeddings are stored (for an MLX-quantised
    /// tensor, their scales).
    pub(super) fn compute_type(self, asked: Dtype, stored: TensorType) -> ArrayType {
        match (asked, self) {
            (Dtype::F32, _) | (Dtype::Auto, Self::Cpu) => ArrayType::Float32,
            (Dtype::F16, _) => ArrayType::Float16,
            (Dtype::Bf16, _) => ArrayType::Bfloat16,
            (Dtype::Auto, Self::Gpu) => match stored {
                TensorType::F32 => ArrayType::Float32,
                TensorType::F16 => ArrayType::Float16,
                // Block types are decoded, and bf16 holds activations of any size.
                TensorType::Bf16 | TensorType::U32 | TensorType::Block(_) => ArrayType::Bfloat16,
            },
        }
    }

    /// True if MLX-quantised weights stay so; otherwise they are decoded at load.
    pub(super) fn keeps_quantised(self) -> bool {
        self == Self::Gpu
    }

    /// True if the factors of norms go into the linear layers that follow: one operation less on
    /// backends that have no kernel for norms.
    pub(super) fn folds_norms(self) -> bool {
        self == Self::Cpu
    }

    /// True if MLX can make arrays of memory that it did not allocate.
    pub(super) fn adopts_memory(self) -> bool {
        self == Self::Gpu
    }

    /// True if attention and rotary embedding are single kernels.
    pub(super) fn has_fused_kernels(self) -> bool {
        self == Self::Gpu
    }
}
