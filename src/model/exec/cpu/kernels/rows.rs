//! Work on single rows of 32-bit floats, whose lengths are multiples of 16: padding is 0.

use super::{
    attention::{Element, Pair},
    simd::{Kernel, LANES, Simd, sigmoid, soft_cap, tanh},
};
use crate::model::spec::Activation;

/// `x / √(mean of x² + eps) · weight`, in place.
pub(in crate::model::exec::cpu) struct RmsNorm<'a> {
    pub(in crate::model::exec::cpu) row: &'a mut [f32],
    pub(in crate::model::exec::cpu) weight: &'a [f32],
    /// Number of elements that are not padding.
    pub(in crate::model::exec::cpu) width: usize,
    pub(in crate::model::exec::cpu) eps: f32,
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.row.len(), self.weight.len());
        let row = self.row.as_chunks_mut::<LANES>().0;
        let mut squares = s.splat(0.0);
        for x in row.iter() {
            let x = s.load(x);
            squares = s.fma(x, x, squares);
        }
        let mean = s.sum(squares) / self.width as f32;
        let factor = s.splat(1.0 / (mean + self.eps).sqrt());
        for (x, weight) in row.iter_mut().zip(self.weight.as_chunks::<LANES>().0) {
            s.store(s.mul(s.mul(s.load(x), factor), s.load(weight)), x);
        }
    }
}

/// `activation(gate) · up` of one token, out of products `[tile][token]`.
pub(in crate::model::exec::cpu) struct GatedActivation<'a> {
    pub(in crate::model::exec::cpu) activation: Activation,
    pub(in crate::model::exec::cpu) gate: &'a [[f32; LANES]],
    pub(in crate::model::exec::cpu) up: &'a [[f32; LANES]],
    pub(in crate::model::exec::cpu) tokens: usize,
    pub(in crate::model::exec::cpu) token: usize,
    /// Elements beyond the tiles become 0.
    pub(in crate::model::exec::cpu) out: &'a mut [f32],
}

impl Kernel for GatedActivation<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let of_token =
            |all: &'_ [[f32; LANES]], tile: usize| s.load(&all[tile * self.tokens + self.token]);
        let tiles = self.gate.len() / self.tokens;
        for (tile, out) in self.out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            if tile >= tiles {
                out.fill(0.0);
                continue;
            }
            let (gate, up) = (of_token(self.gate, tile), of_token(self.up, tile));
            let gate = match self.activation {
                Activation::Silu => s.mul(gate, sigmoid(s, gate)),
                Activation::GeluTanh => gelu_tanh(s, gate),
            };
            s.store(s.mul(gate, up), out);
        }
    }
}

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.
#[inline(always)]
fn gelu_tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let cubic = s.mul(s.mul(x, x), s.mul(x, s.splat(0.044_715)));
    let slope = s.splat(std::f32::consts::FRAC_2_PI.sqrt());
    let inner = tanh(s, s.mul(s.add(x, cubic), slope));
    s.mul(s.mul(x, s.splat(0.5)), s.add(s.splat(1.0), inner))
}

/// `cap · tanh(x / cap)` in place.
pub(in crate::model::exec::cpu) struct SoftCap<'a> {
    pub(in crate::model::exec::cpu) cap: f32,
    pub(in crate::model::exec::cpu) values: &'a mut [[f32; LANES]],
}

impl Kernel for SoftCap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for values in self.values {
            s.store(soft_cap(s, s.load(values), self.cap), values);
        }
    }
}

/// Writes one token's key and value of one head into a page; see [`super::attention`].
pub(in crate::model::exec::cpu) struct WriteKv<'a, E> {
    pub(in crate::model::exec::cpu) key: &'a [f32],
    pub(in crate::model::exec::cpu) value: &'a [f32],
    /// The token's place in the page.
    pub(in crate::model::exec::cpu) token: usize,
    /// `[element]`, of all tokens.
    pub(in crate::model::exec::cpu) keys: &'a mut [Pair<E>],
    /// `[element / 32]`, of this token.
    pub(in crate::model::exec::cpu) values: &'a mut [Pair<E>],
}

impl<E: Element> Kernel for WriteKv<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut elements = [E::default(); LANES];
        let key = self.key.as_chunks::<LANES>().0;
        let keys = self.keys.as_chunks_mut::<LANES>().0;
        for (key, keys) in key.iter().zip(keys) {
            E::store(s, s.load(key), &mut elements);
            for (element, row) in elements.iter().zip(keys) {
                row.0.as_flattened_mut()[self.token] = *element;
            }
        }
        let value = self.value.as_chunks::<LANES>().0;
        let values = self.values.iter_mut().flat_map(|pair| &mut pair.0);
        for (value, out) in value.iter().zip(values) {
            E::store(s, s.load(value), out);
        }
    }
}
