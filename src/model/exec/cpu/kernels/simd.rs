//! The vector operations that kernels need: sixteen lanes, on any register width.
//!
//! A kernel is written once, over [`Simd`], and compiled for each SIMD level. All functions between
//! [`Simd::vectorize`] and an intrinsic must be inlined, so that they are compiled with the level's
//! instructions: hence `#[inline(always)]` throughout this folder.

use half::f16;

/// Lanes of a vector, and rows of a tile of weights.
pub(in crate::model::exec::cpu) const LANES: usize = 16;

/// Work that is compiled once for each processor: a struct of its arguments.
pub(in crate::model::exec::cpu) trait Kernel {
    /// The result of the kernel.
    type Output;

    /// Does it. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// A SIMD level's vector operations. A value of the type exists only if the processor has the
/// instructions, so the methods are safe to call.
pub(in crate::model::exec::cpu) trait Simd: Copy {
    /// Sixteen 32-bit floats.
    type F: Copy;
    /// Sixteen 32-bit integers.
    type I: Copy;
    /// Sixteen lanes of four unsigned bytes.
    type B: Copy;

    /// Columns that a product of matrices keeps in registers at once: 1, 2, 4 or 8.
    const COLUMNS: usize;

    /// True if [`Self::dot_bytes`] subtracts 128 from each unsigned byte before it multiplies.
    const TAKES_128: bool;

    /// Runs a kernel compiled for this processor.
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, value: f32) -> Self::F;
    fn load(self, from: &[f32; LANES]) -> Self::F;
    fn load_f16(self, from: &[f16; LANES]) -> Self::F;
    /// Brain floats, as their bits.
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F;
    fn store(self, value: Self::F, to: &mut [f32; LANES]);
    /// Rounds to the nearest; what is too large becomes the largest number, not infinity.
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]);

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger one; `b` where either is not a number.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller one; `b` where either is not a number.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// To the nearest whole number, of two the even one.
    fn round(self, a: Self::F) -> Self::F;
    /// 2 to the power of whole numbers from -127, which gives 0, to 127.
    fn exp2(self, a: Self::F) -> Self::F;
    /// The sum of all lanes, in an order that is the same each time.
    fn sum(self, a: Self::F) -> f32;
    /// The largest lane.
    fn largest(self, a: Self::F) -> f32;

    fn splat_int(self, value: i32) -> Self::I;
    /// Divided by a power of 2, down.
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I;
    fn int_to_float(self, a: Self::I) -> Self::F;
    /// To the nearest whole number, of two the even one.
    fn float_to_int(self, a: Self::F) -> Self::I;
    /// Numbers that fit into a signed byte each.
    fn store_i8(self, a: Self::I, to: &mut [i8; LANES]);
    /// The sum of all lanes.
    fn sum_int(self, a: Self::I) -> i32;

    fn load_bytes(self, from: &[u8; 64]) -> Self::B;
    /// Of every byte its low four bits.
    fn low_nibbles(self, a: Self::B) -> Self::B;
    /// Of every byte its high four bits.
    fn high_nibbles(self, a: Self::B) -> Self::B;
    /// Adds 16 to every byte whose bit is set; the lowest bit stands for the first byte.
    fn with_fifth_bits(self, a: Self::B, bits: u64) -> Self::B;
    /// Adds to each lane the four products of its bytes, at most 31 each, with the four bytes of
    /// `x`, at least -127 each.
    fn dot_small(self, sum: Self::I, weights: Self::B, x: &[i8; 4]) -> Self::I;
    /// The same for any bytes, 128 taken from each first if [`Self::TAKES_128`].
    fn dot_bytes(self, sum: Self::I, weights: Self::B, x: &[i8; 4]) -> Self::I;
}

/// e to the power of each lane, to within two units in the last place; exactly 0 below -88, exactly
/// 1 at 0.
///
/// The polynomial and the split of ln 2 are those of Cephes' `expf`.
#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    const COEFFICIENTS: [f32; 6] = [
        1.987_569_1e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        5e-1,
    ];
    let x = s.max(s.splat(-88.2), s.min(s.splat(88.3), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fma(n, s.splat(-0.693_359_4), x);
    let r = s.fma(n, s.splat(2.121_944_4e-4), r);
    let mut p = s.splat(COEFFICIENTS[0]);
    for c in &COEFFICIENTS[1..] {
        p = s.fma(p, r, s.splat(*c));
    }
    let y = s.fma(s.mul(r, r), p, s.add(r, s.splat(1.0)));
    s.mul(y, s.exp2(n))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// The hyperbolic tangent, as `2 sigmoid(2x) - 1`.
#[inline(always)]
pub(super) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    s.fma(s.splat(2.0), sigmoid(s, s.add(x, x)), s.splat(-1.0))
}

/// `cap · tanh(x / cap)`.
#[inline(always)]
pub(super) fn soft_cap<S: Simd>(s: S, x: S::F, cap: f32) -> S::F {
    s.mul(tanh(s, s.div(x, s.splat(cap))), s.splat(cap))
}
