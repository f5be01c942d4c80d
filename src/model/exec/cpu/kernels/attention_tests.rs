//! Attention against a plain 64-bit one, on all instructions that this processor has.

use half::f16;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{
    SimdBackend,
    attention::{
        Attend, AttendSplit, Element, KvTile, MaskSpec, MergeSplits, PAIR, Pair, STATE, STRIP,
    },
    rows::WriteKv,
};

/// Keys and values of a strip.
type Keys<E> = (Vec<Pair<E>>, Vec<Pair<E>>);

/// A sequence's keys and values, plainly and in strips.
struct Memory<E> {
    dim: usize,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    strips: Vec<Keys<E>>,
}

impl<E: Element> Memory<E> {
    fn new(random: &mut ChaCha8Rng, tokens: usize, dim: usize) -> Self {
        let mut row = || -> Vec<f32> {
            let number = |_| f16::from_f32(random.random_range(-2.0..2.0)).to_f32();
            (0..dim).map(number).collect()
        };
        let keys: Vec<_> = (0..tokens).map(|_| row()).collect();
        let values: Vec<_> = (0..tokens).map(|_| row()).collect();
        let empty = || vec![Pair([[E::default(); 16]; 2]); dim * STRIP / PAIR];
        let mut strips: Vec<_> = (0..tokens.div_ceil(STRIP))
            .map(|_| (empty(), empty()))
            .collect();
        for (position, (key, value)) in keys.iter().zip(&values).enumerate() {
            let (strip_keys, strip_values) = &mut strips[position / STRIP];
            let token = position % STRIP;
            let across = dim / PAIR;
            SimdBackend::all()[0].run(WriteKv {
                key,
                value,
                token,
                keys: strip_keys,
                values: &mut strip_values[token * across..(token + 1) * across],
            });
        }
        Self {
            dim,
            keys,
            values,
            strips,
        }
    }

    fn strip(&self, number: usize) -> KvTile<'_, E> {
        let (keys, values) = &self.strips[number];
        KvTile { keys, values }
    }

    fn attend(&self, level: SimdBackend, mask_spec: MaskSpec, queries: &[f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; queries.len()];
        level.run(Attend {
            mask_spec,
            dim: self.dim,
            queries,
            strips: |number| self.strip(number),
            out: &mut out,
        });
        out
    }

    /// The same, by segments that are joined afterwards.
    fn attend_in_parts(
        &self,
        level: SimdBackend,
        mask_spec: MaskSpec,
        queries: &[f32],
    ) -> Vec<f32> {
        let (rows, record) = (queries.len() / self.dim, self.dim + STATE);
        let segments = mask_spec.segments(0..rows);
        let mut found = vec![f32::NAN; segments.len() * rows * record];
        for (number, out) in segments.zip(found.chunks_mut(rows * record)) {
            let whole = Attend {
                mask_spec,
                dim: self.dim,
                queries,
                strips: |number| self.strip(number),
                out,
            };
            level.run(AttendSplit { whole, number });
        }
        let mut out = vec![f32::NAN; queries.len()];
        for (row, out) in out.chunks_mut(self.dim).enumerate() {
            let parts = found
                .chunks(rows * record)
                .map(|segment| &segment[row * record..(row + 1) * record]);
            level.run(MergeSplits { parts, out });
        }
        out
    }

    fn plain(&self, mask_spec: MaskSpec, row: usize, query: &[f32]) -> Vec<f64> {
        let score = |key: &Vec<f32>| {
            let products = key.iter().zip(query);
            let sum: f64 = products.map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
            let cap = mask_spec.soft_cap.map(f64::from);
            cap.map_or(sum, |cap| cap * (sum / cap).tanh())
        };
        let seen = mask_spec.keys(row);
        let scores: Vec<f64> = self.keys[seen.clone()].iter().map(score).collect();
        let largest = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let weighted = |element: usize| {
            let values = self.values[seen.clone()].iter();
            let terms = values
                .zip(&weights)
                .map(|(value, weight)| f64::from(value[element]) * weight);
            terms.sum::<f64>() / total
        };
        (0..self.dim).map(weighted).collect()
    }
}

fn check<E: Element>(mask_spec: MaskSpec, queries_count: usize, dim: usize) {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let tokens = mask_spec.first + queries_count;
    let memory = Memory::<E>::new(&mut random, tokens, dim);
    let rows = queries_count * mask_spec.group;
    let queries: Vec<f32> = (0..rows * dim)
        .map(|_| random.random_range(-0.6..0.6))
        .collect();
    for level in SimdBackend::all() {
        let out = memory.attend(level, mask_spec, &queries);
        let what = format!("{} {mask_spec:?} {queries_count} {dim}", level.name());
        for row in 0..rows {
            let place = row * dim..(row + 1) * dim;
            let expected = memory.plain(mask_spec, row, &queries[place.clone()]);
            for (got, expected) in out[place].iter().zip(expected) {
                let apart = (f64::from(*got) - expected).abs();
                assert!(apart < 2e-5, "{what}: {got}, not {expected}");
            }
        }
        // The same bits, however the work is split.
        let bits = |out: &[f32]| -> Vec<u32> { out.iter().map(|x| x.to_bits()).collect() };
        let parts = memory.attend_in_parts(level, mask_spec, &queries);
        assert_eq!(bits(&out), bits(&parts), "{what}");
        for query in 0..queries_count {
            let alone = MaskSpec {
                first: mask_spec.first + query,
                ..mask_spec
            };
            let place = query * mask_spec.group * dim..(query + 1) * mask_spec.group * dim;
            let row = memory.attend(level, alone, &queries[place.clone()]);
            assert_eq!(bits(&out[place]), bits(&row), "{what} at {query}");
        }
    }
}

#[test]
fn attention_is_the_plain_one_and_the_same_however_it_is_cut() {
    for (first, queries, group, dim) in [
        (0, 1, 1, 32),
        (0, 16, 3, 64),
        (31, 2, 1, 32),
        (250, 16, 7, 64),
        (255, 1, 3, 96),
        (256, 1, 9, 32),
        (700, 3, 2, 128),
    ] {
        for window in [None, Some(1), Some(40), Some(300)] {
            let mask_spec = MaskSpec {
                first,
                group,
                window,
                soft_cap: None,
            };
            check::<f32>(mask_spec, queries, dim);
            check::<f16>(mask_spec, queries, dim);
        }
    }
}

#[test]
fn scores_are_capped() {
    let mask_spec = MaskSpec {
        first: 300,
        group: 2,
        window: Some(290),
        soft_cap: Some(1.5),
    };
    check::<f16>(mask_spec, 5, 64);
}
