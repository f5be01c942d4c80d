//! Vectors as pairs of 256-bit registers: AVX2, with the instruction of AVX-VNNI where there is one.

use std::arch::{is_x86_feature_detected, x86_64::*};

use half::f16;

use super::simd::{Kernel, LANES, Simd};

/// Proof that the processor has AVX2, and AVX-VNNI if `VNNI`.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::exec::cpu) struct Avx2<const VNNI: bool>(());

impl<const VNNI: bool> Avx2<VNNI> {
    /// The proof, where the processor has them.
    pub(super) fn detect() -> Option<Self> {
        let all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && (!VNNI || is_x86_feature_detected!("avxvnni"));
        all.then_some(Self(()))
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn run<K: Kernel>(simd: Avx2<false>, kernel: K) -> K::Output {
    kernel.run(simd)
}

#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn run_vnni<K: Kernel>(simd: Avx2<true>, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// Calls intrinsics of the features that [`Avx2::detect`] asks for.
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

/// Both registers of a vector, each given its half of what is in memory.
macro_rules! halves {
    ($half:ident => $call:expr) => {
        have!({
            let first = {
                let $half = 0;
                $call
            };
            let second = {
                let $half = 1;
                $call
            };
            [first, second]
        })
    };
}

impl<const VNNI: bool> Avx2<VNNI> {
    /// Four products of unsigned bytes with signed ones, added up in each 32-bit lane. Pairs of
    /// products must fit into 16 bits.
    #[inline(always)]
    fn dot_pairs(self, sum: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        have!(_mm256_add_epi32(
            sum,
            _mm256_madd_epi16(_mm256_maddubs_epi16(unsigned, signed), _mm256_set1_epi16(1))
        ))
    }
}

/// The low half of both registers folded onto the high one.
macro_rules! fold {
    ($a:expr, $combine:ident, $combine128:ident) => {{
        let both = $combine($a[0], $a[1]);
        let four = $combine128(
            _mm256_castps256_ps128(both),
            _mm256_extractf128_ps::<1>(both),
        );
        let two = $combine128(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32($combine128(two, _mm_shuffle_ps::<1>(two, two)))
    }};
}

impl<const VNNI: bool> Simd for Avx2<VNNI> {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type B = [__m256i; 2];

    // 4 integer and 4 float registers of sums, of 16 registers.
    const COLUMNS: usize = 2;
    // Without VNNI, bytes are made signed, because pairs of products of large unsigned ones do not
    // fit into 16 bits.
    const TAKES_128: bool = !VNNI;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        if VNNI {
            have!(run_vnni(Avx2(()), kernel))
        } else {
            have!(run(Avx2(()), kernel))
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        have!([_mm256_set1_ps(value); 2])
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        halves!(half => _mm256_loadu_ps(from.as_ptr().add(8 * half)))
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::F {
        halves!(half => _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().add(8 * half).cast())))
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F {
        halves!(half => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(
            _mm_loadu_si128(from.as_ptr().add(8 * half).cast())
        ))))
    }

    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        halves!(half => _mm256_storeu_ps(to.as_mut_ptr().add(8 * half), value[half]));
    }

    #[inline(always)]
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]) {
        let least = self.splat(f16::MIN.to_f32_const());
        let most = self.splat(f16::MAX.to_f32_const());
        let value = self.max(least, self.min(most, value));
        halves!(half => _mm_storeu_si128(
            to.as_mut_ptr().add(8 * half).cast(),
            _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value[half])
        ));
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(half => _mm256_add_ps(a[half], b[half]))
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(half => _mm256_sub_ps(a[half], b[half]))
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(half => _mm256_mul_ps(a[half], b[half]))
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(half => _mm256_div_ps(a[half], b[half]))
    }

    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        halves!(half => _mm256_fmadd_ps(a[half], b[half], c[half]))
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(half => _mm256_max_ps(a[half], b[half]))
    }

    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(half => _mm256_min_ps(a[half], b[half]))
    }

    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        halves!(half => _mm256_andnot_ps(_mm256_set1_ps(-0.0), a[half]))
    }

    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        halves!(half => _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a[half]))
    }

    #[inline(always)]
    fn exp2(self, a: Self::F) -> Self::F {
        halves!(half => _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
            _mm256_cvtps_epi32(a[half]),
            _mm256_set1_epi32(127)
        ))))
    }

    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        have!(fold!(a, _mm256_add_ps, _mm_add_ps))
    }

    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        have!(fold!(a, _mm256_max_ps, _mm_max_ps))
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        have!([_mm256_set1_epi32(value); 2])
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I {
        let count = have!(_mm_cvtsi32_si128(BITS as i32));
        halves!(half => _mm256_sra_epi32(a[half], count))
    }

    #[inline(always)]
    fn int_to_float(self, a: Self::I) -> Self::F {
        halves!(half => _mm256_cvtepi32_ps(a[half]))
    }

    #[inline(always)]
    fn float_to_int(self, a: Self::F) -> Self::I {
        halves!(half => _mm256_cvtps_epi32(a[half]))
    }

    #[inline(always)]
    fn store_i8(self, a: Self::I, to: &mut [i8; LANES]) {
        have!({
            // Packing works within 128 bits: a quarter of each register in turn, put in order.
            let words = _mm256_packs_epi32(a[0], a[1]);
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packs_epi16(
                _mm256_castsi256_si128(words),
                _mm256_extracti128_si256::<1>(words),
            );
            _mm_storeu_si128(to.as_mut_ptr().cast(), bytes);
        });
    }

    #[inline(always)]
    fn sum_int(self, a: Self::I) -> i32 {
        have!({
            let both = _mm256_add_epi32(a[0], a[1]);
            let four = _mm_add_epi32(
                _mm256_castsi256_si128(both),
                _mm256_extracti128_si256::<1>(both),
            );
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)))
        })
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> Self::B {
        halves!(half => _mm256_loadu_si256(from.as_ptr().add(32 * half).cast()))
    }

    #[inline(always)]
    fn low_nibbles(self, a: Self::B) -> Self::B {
        halves!(half => _mm256_and_si256(a[half], _mm256_set1_epi8(0xF)))
    }

    #[inline(always)]
    fn high_nibbles(self, a: Self::B) -> Self::B {
        halves!(half => _mm256_and_si256(_mm256_srli_epi16::<4>(a[half]), _mm256_set1_epi8(0xF)))
    }

    #[inline(always)]
    fn with_fifth_bits(self, a: Self::B, bits: u64) -> Self::B {
        halves!(half => {
            // Every byte gets the byte of bits that contains its own bit, and keeps that bit.
            let word = _mm256_set1_epi32((bits >> (32 * half)) as i32);
            let places = _mm256_set_epi64x(
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0,
            );
            let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
            let kept = _mm256_and_si256(_mm256_shuffle_epi8(word, places), own);
            let set = _mm256_cmpeq_epi8(kept, own);
            _mm256_or_si256(a[half], _mm256_and_si256(set, _mm256_set1_epi8(16)))
        })
    }

    #[inline(always)]
    fn dot_small(self, sum: Self::I, weights: Self::B, x: &[i8; 4]) -> Self::I {
        if VNNI {
            return self.dot_bytes(sum, weights, x);
        }
        let x = i32::from_le_bytes(x.map(i8::cast_unsigned));
        halves!(half => self.dot_pairs(sum[half], weights[half], _mm256_set1_epi32(x)))
    }

    #[inline(always)]
    fn dot_bytes(self, sum: Self::I, weights: Self::B, x: &[i8; 4]) -> Self::I {
        let x = i32::from_le_bytes(x.map(i8::cast_unsigned));
        if VNNI {
            return halves!(half => {
                _mm256_dpbusd_avx_epi32(sum[half], weights[half], _mm256_set1_epi32(x))
            });
        }
        // |w - 128| · (x with the sign of w - 128): at most 2 · 128 · 127 in a pair.
        halves!(half => {
            let signed = _mm256_xor_si256(weights[half], _mm256_set1_epi8(-128));
            let x = _mm256_sign_epi8(_mm256_set1_epi32(x), signed);
            self.dot_pairs(sum[half], _mm256_abs_epi8(signed), x)
        })
    }
}
