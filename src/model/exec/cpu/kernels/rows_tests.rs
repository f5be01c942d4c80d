//! Work on rows against plain 64-bit arithmetic, on all instructions that this processor has.

use half::f16;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{
    SimdBackend,
    activations::{PanelBlock, Quantise},
    attention::{Pair, STRIP},
    layout::BLOCK,
    rows::{GatedActivation, RmsNorm, SoftCap, WriteKv},
    simd::{Kernel, LANES, Simd, exp},
};
use crate::model::spec::Activation;

struct Exp<'a>(&'a mut [f32; LANES]);

impl Kernel for Exp<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let powers = exp(s, s.load(self.0));
        s.store(powers, self.0);
    }
}

#[test]
fn exponentials_are_near_everywhere_and_exact_where_it_matters() {
    for level in SimdBackend::all() {
        for step in -5600..5600 {
            let x = step as f32 / 64.0;
            let mut values = [x; LANES];
            level.run(Exp(&mut values));
            let expected = f64::from(x).exp();
            let apart = (f64::from(values[3]) / expected - 1.0).abs();
            assert!(apart < 3e-7 || x < -87.0, "{}: e^{x}", level.name());
        }
        let mut values = [0.0; LANES];
        values[0] = 0.0;
        values[1] = f32::NEG_INFINITY;
        values[2] = f32::MIN;
        values[3] = f32::NAN;
        level.run(Exp(&mut values));
        assert_eq!(values[..3], [1.0, 0.0, 0.0], "{}", level.name());
        assert!(values[3].is_nan(), "{}", level.name());
    }
}

#[test]
fn activations_are_quantised_to_the_nearest() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for level in SimdBackend::all() {
        for magnitude in [1e-20_f32, 1.0, 1e20] {
            let row: Vec<f32> = (0..3 * BLOCK)
                .map(|_| random.random_range(-magnitude..magnitude))
                .collect();
            let mut panel = [PanelBlock::default(); 3];
            level.run(Quantise {
                remainders: None,
                row: &row,
                panel: &mut panel,
                token: 5,
            });
            for (values, block) in row.chunks(BLOCK).zip(&panel) {
                let scale = block.scales[5];
                let mut totals = [0; 3];
                for (i, value) in values.iter().enumerate() {
                    let quant = block.quants[i / 4][5][i % 4];
                    assert!(quant.unsigned_abs() <= 127);
                    let apart = (scale * f32::from(quant) - value).abs();
                    assert!(apart <= 0.5001 * scale, "{}: {value}", level.name());
                    totals[0] += i32::from(quant);
                    totals[1 + i / 16] += i32::from(quant);
                }
                for (part, total) in totals.into_iter().enumerate() {
                    assert_eq!(block.shifts[part][5], -128 * total);
                    assert_eq!(block.sums[part][5], scale * total as f32);
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for level in SimdBackend::all() {
        for (value, is_zero) in [(f32::NAN, false), (f32::INFINITY, false), (0.0, true)] {
            let mut panel = [PanelBlock::default()];
            level.run(Quantise {
                remainders: None,
                row: &[value; BLOCK],
                panel: &mut panel,
                token: 0,
            });
            let scale = panel[0].scales[0];
            assert_eq!(scale == 0.0, is_zero);
            assert_eq!(scale.is_finite(), is_zero, "{}", level.name());
        }
    }
}

#[test]
fn norms_divide_by_the_root_of_the_mean_square() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    for level in SimdBackend::all() {
        let width = 90;
        let mut row: Vec<f32> = (0..width).map(|_| random.random_range(-4.0..4.0)).collect();
        let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / width as f64;
        let expected: Vec<f64> = row
            .iter()
            .enumerate()
            .map(|(i, x)| f64::from(*x) / (mean + 1e-5).sqrt() * (i as f64 / 10.0))
            .collect();
        row.resize(96, 0.0);
        let weight: Vec<f32> = (0..96).map(|i| i as f32 / 10.0).collect();
        level.run(RmsNorm {
            row: &mut row,
            weight: &weight,
            width,
            eps: 1e-5,
        });
        for (got, expected) in row.iter().zip(expected) {
            assert!((f64::from(*got) - expected).abs() <= 1e-5 * expected.abs().max(1.0));
        }
        assert_eq!(row[width..], [0.0; 6]);
    }
}

#[test]
fn gates_and_caps_follow_their_formulas() {
    let inputs: Vec<f32> = (-48..48).map(|i| i as f32 / 6.0).collect();
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let gelu = |x: f64| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
        x / 2.0 * (1.0 + inner.tanh())
    };
    let cases: [(Activation, &dyn Fn(f64) -> f64); 2] =
        [(Activation::Silu, &silu), (Activation::GeluTanh, &gelu)];
    for level in SimdBackend::all() {
        for (activation, formula) in cases {
            // Two tokens, of which the second is asked for.
            let gate: Vec<[f32; LANES]> = inputs
                .as_chunks()
                .0
                .iter()
                .flat_map(|tile| [[9.0; LANES], *tile])
                .collect();
            let up = vec![[3.0; LANES]; gate.len()];
            let mut out = vec![f32::NAN; inputs.len() + 32];
            level.run(GatedActivation {
                activation,
                gate: &gate,
                up: &up,
                tokens: 2,
                token: 1,
                out: &mut out,
            });
            for (got, x) in out.iter().zip(&inputs) {
                let expected = 3.0 * formula(f64::from(*x));
                assert!((f64::from(*got) - expected).abs() < 1e-5, "{activation:?}");
            }
            assert_eq!(out[inputs.len()..], [0.0; 32]);
        }
        let mut values = [[0.0; LANES]; 6];
        values.as_flattened_mut().copy_from_slice(&inputs);
        level.run(SoftCap {
            cap: 2.5,
            values: &mut values,
        });
        for (got, x) in values.as_flattened().iter().zip(&inputs) {
            assert!((f64::from(*got) - 2.5 * (f64::from(*x) / 2.5).tanh()).abs() < 1e-6);
        }
    }
}

#[test]
fn keys_stand_across_and_values_along() {
    let key: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let mut value = vec![0.25_f32; 64];
    (value[0], value[1], value[63]) = (1e6, -1e6, 7.0);
    for level in SimdBackend::all() {
        let mut keys = [Pair([[f16::ZERO; LANES]; 2]); 64];
        let mut values = [Pair([[f16::ZERO; LANES]; 2]); 2];
        level.run(WriteKv {
            key: &key,
            value: &value,
            token: 19,
            keys: &mut keys,
            values: &mut values,
        });
        for (element, row) in keys.iter().enumerate() {
            for (token, number) in row.0.as_flattened().iter().enumerate() {
                let expected = if token == 19 { element as f32 } else { 0.0 };
                assert_eq!(number.to_f32(), expected);
            }
        }
        assert_eq!(keys[0].0.as_flattened().len(), STRIP);
        let written = values[0].0.as_flattened();
        // What is too large becomes the largest number, so that it stays out of others' sums.
        assert_eq!([written[0], written[1]], [f16::MAX, f16::MIN]);
        assert_eq!(values[1].0[1][15].to_f32(), 7.0);
    }
}
