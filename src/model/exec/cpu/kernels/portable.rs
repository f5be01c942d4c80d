//! Vectors as arrays, for any processor; the compiler makes of them what it can.

use std::array::from_fn;

use half::{bf16, f16};

use super::simd::{Kernel, LANES, Simd};

/// No instructions in particular.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::exec::cpu) struct Portable;

#[inline(always)]
fn zip<T: Copy>(a: [T; LANES], b: [T; LANES], f: impl Fn(T, T) -> T) -> [T; LANES] {
    from_fn(|lane| f(a[lane], b[lane]))
}

impl Simd for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type B = [u8; 64];

    const COLUMNS: usize = 2;
    const TAKES_128: bool = false;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        *from
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::F {
        from.map(f16::to_f32)
    }

    #[inline(always)]
    fn load_bf16(self, from: &[u16; LANES]) -> Self::F {
        from.map(|bits| bf16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        *to = value;
    }

    #[inline(always)]
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]) {
        let (least, most) = (f16::MIN.to_f32_const(), f16::MAX.to_f32_const());
        *to = value.map(|value| f16::from_f32(value.clamp(least, most)));
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Rounded twice: without an instruction for it, `mul_add` is a call into a library.
        from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        a.map(f32::abs)
    }

    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        a.map(f32::round_ties_even)
    }

    #[inline(always)]
    fn exp2(self, a: Self::F) -> Self::F {
        a.map(|a| f32::from_bits(((a as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        a.iter().sum()
    }

    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        a.into_iter()
            .fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        [value; LANES]
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I {
        a.map(|a| a >> BITS)
    }

    #[inline(always)]
    fn int_to_float(self, a: Self::I) -> Self::F {
        a.map(|a| a as f32)
    }

    #[inline(always)]
    fn float_to_int(self, a: Self::F) -> Self::I {
        a.map(|a| a.round_ties_even() as i32)
    }

    #[inline(always)]
    fn store_i8(self, a: Self::I, to: &mut [i8; LANES]) {
        *to = a.map(|a| a as i8);
    }

    #[inline(always)]
    fn sum_int(self, a: Self::I) -> i32 {
        a.iter().sum()
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 64]) -> Self::B {
        *from
    }

    #[inline(always)]
    fn low_nibbles(self, a: Self::B) -> Self::B {
        a.map(|a| a & 0xF)
    }

    #[inline(always)]
    fn high_nibbles(self, a: Self::B) -> Self::B {
        a.map(|a| a >> 4)
    }

    #[inline(always)]
    fn with_fifth_bits(self, a: Self::B, bits: u64) -> Self::B {
        from_fn(|byte| a[byte] + (((bits >> byte) & 1) as u8) * 16)
    }

    #[inline(always)]
    fn dot_small(self, sum: Self::I, weights: Self::B, x: &[i8; 4]) -> Self::I {
        self.dot_bytes(sum, weights, x)
    }

    #[inline(always)]
    fn dot_bytes(self, sum: Self::I, weights: Self::B, x: &[i8; 4]) -> Self::I {
        from_fn(|lane| {
            let own = &weights[4 * lane..4 * lane + 4];
            let product = |byte: usize| i32::from(own[byte]) * i32::from(x[byte]);
            sum[lane] + product(0) + product(1) + product(2) + product(3)
        })
    }
}
