//! Vectors as 512-bit registers: AVX-512 with VNNI (Ice Lake, Zen 4 and later).

use std::arch::{asm, is_x86_feature_detected, x86_64::*};

use half::f16;

use super::simd::{Kernel, LANES, Simd};

/// Proof that the processor has the instructions.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::exec::cpu) struct Avx512(());

impl Avx512 {
    /// The proof, where the processor has them.
    pub(super) fn detect() -> Option<Self> {
        let all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        all.then_some(Self(()))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma,f16c")]
fn run<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// Calls an intrinsic of the features that [`Avx512::detect`] asks for.
macro_rules! have {
    ($call:expr) => {{
        #[expect(unsafe_code, reason = "intrinsics")]
        // SAFETY: `self` exists only where the processor has the instructions, and every pointer is
        // made of a reference to as many bytes as the instruction reads or writes, unaligned.
        unsafe {
            $call
        }
    }};
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type B = __m512i;

    // 8 integer and 8 float sums, which leaves half of the 32 registers for weights and scales.
    const COLUMNS: usize = 8;
    const TAKES_128: bool = false;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        have!(run(self, kernel))
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        have!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> __m512 {
        have!(_mm512_loadu_ps(from.as_ptr()))
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> __m512 {
        have!(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; LANES]) -> __m512 {
        have!(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()))
        )))
    }

    #[inline(always)]
    fn store(self, value: __m512, to: &mut [f32; LANES]) {
        have!(_mm512_storeu_ps(to.as_mut_ptr(), value));
    }

    #[inline(always)]
    fn store_f16(self, value: __m512, to: &mut [f16; LANES]) {
        let least = self.splat(f16::MIN.to_f32_const());
        let most = self.splat(f16::MAX.to_f32_const());
        let value = self.max(least, self.min(most, value));
        have!(_mm256_storeu_si256(
            to.as_mut_ptr().cast(),
            _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)
        ));
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        have!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        have!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        have!(_mm512_roundscale_ps::<
            { _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC },
        >(a))
    }

    #[inline(always)]
    fn exp2(self, a: __m512) -> __m512 {
        have!(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(
            _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127))
        )))
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        have!(_mm512_reduce_add_ps(a))
    }

    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        have!(_mm512_reduce_max_ps(a))
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> __m512i {
        have!(_mm512_set1_epi32(value))
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: __m512i) -> __m512i {
        have!(_mm512_srai_epi32::<BITS>(a))
    }

    #[inline(always)]
    fn int_to_float(self, a: __m512i) -> __m512 {
        have!(_mm512_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn float_to_int(self, a: __m512) -> __m512i {
        have!(_mm512_cvtps_epi32(a))
    }

    #[inline(always)]
    fn store_i8(self, a: __m512i, to: &mut [i8; LANES]) {
        have!(_mm_storeu_si128(
            to.as_mut_ptr().cast(),
            _mm512_cvtepi32_epi8(a)
        ));
    }

    #[inline(always)]
    fn sum_int(self, a: __m512i) -> i32 {
        have!(_mm512_reduce_add_epi32(a))
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> __m512i {
        have!(_mm512_loadu_si512(from.as_ptr().cast()))
    }

    #[inline(always)]
    fn low_nibbles(self, a: __m512i) -> __m512i {
        have!(_mm512_and_si512(a, _mm512_set1_epi8(0xF)))
    }

    #[inline(always)]
    fn high_nibbles(self, a: __m512i) -> __m512i {
        have!(_mm512_and_si512(
            _mm512_srli_epi16::<4>(a),
            _mm512_set1_epi8(0xF)
        ))
    }

    #[inline(always)]
    fn with_fifth_bits(self, a: __m512i, bits: u64) -> __m512i {
        have!(_mm512_mask_add_epi8(a, bits, a, _mm512_set1_epi8(16)))
    }

    #[inline(always)]
    fn dot_small(self, sum: __m512i, weights: __m512i, x: &[i8; 4]) -> __m512i {
        self.dot_bytes(sum, weights, x)
    }

    #[inline(always)]
    fn dot_bytes(self, sum: __m512i, weights: __m512i, x: &[i8; 4]) -> __m512i {
        have!(dot(sum, weights, x))
    }
}

/// `vpdpbusd` with the four bytes of `x` in every lane, which the instruction reads itself.
///
/// Written out because the compiler, given the intrinsics, reads the operands of a whole block ahead
/// of its products; there are more of them than registers, so they went by way of the stack and took
/// twice the time.
#[target_feature(enable = "avx512f,avx512vnni")]
#[inline]
fn dot(mut sum: __m512i, weights: __m512i, x: &[i8; 4]) -> __m512i {
    #[expect(unsafe_code, reason = "an instruction")]
    // SAFETY: reads four bytes at `x`, which is a reference to four, and writes `sum` only.
    unsafe {
        asm!(
            "vpdpbusd {sum}, {weights}, dword ptr [{x}]{{1to16}}",
            sum = inout(zmm_reg) sum,
            weights = in(zmm_reg) weights,
            x = in(reg) x,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    sum
}
