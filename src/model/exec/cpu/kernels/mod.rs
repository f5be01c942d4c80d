//! All intrinsics and all `unsafe` of this executor: vectors, what is computed with them, and
//! threads.
//!
//! A kernel is a struct of its arguments and is run by [`SimdBackend::run`], with the instructions of the
//! processor. It asserts that its arguments fit each other; layouts are drawn where they are
//! declared.

pub(super) mod activations;
pub(super) mod attention;
#[cfg(test)]
mod attention_tests;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod dense_matmul;
pub(super) mod disjoint;
pub(super) mod huge_page_arena;
pub(super) mod layout;
mod portable;
#[cfg(test)]
mod products_tests;
pub(super) mod quant_matmul;
pub(super) mod rows;
#[cfg(test)]
mod rows_tests;
pub(super) mod simd;
pub(super) mod thread_pool;

use portable::Portable;
use simd::{Kernel, Simd as _};

use super::SimdLevel;

/// The instructions that kernels use.
#[derive(Debug, Clone, Copy)]
pub(super) enum SimdBackend {
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2Vnni(avx2::Avx2<true>),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2<false>),
    Portable(Portable),
}

impl SimdBackend {
    /// All that this processor has, the fastest first.
    pub(super) fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let special = [
            avx512::Avx512::detect().map(Self::Avx512),
            avx2::Avx2::detect().map(Self::Avx2Vnni),
            avx2::Avx2::detect().map(Self::Avx2),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let special = [None];
        let portable = Some(Self::Portable(Portable));
        special.into_iter().chain([portable]).flatten().collect()
    }

    /// The instructions by the name that is asked for.
    pub(super) fn instructions(self) -> SimdLevel {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => SimdLevel::Avx512,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(_) | Self::Avx2(_) => SimdLevel::Avx2,
            Self::Portable(_) => SimdLevel::Portable,
        }
    }

    /// For logs.
    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(_) => "avx2 with avxvnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            Self::Portable(_) => "portable",
        }
    }

    /// Runs a kernel.
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(kernel),
            Self::Portable(simd) => simd.vectorize(kernel),
        }
    }
}
