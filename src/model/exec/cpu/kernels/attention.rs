//! Attention of a few query heads that share one key head, over the pages of one sequence.
//!
//! Pages are made of strips. A strip holds, for a layer and a key head, 32 tokens: their keys with
//! the tokens across, so that one vector has the same element of sixteen keys, and their values with
//! the elements across.
//!
//! ```text
//!  keys      token 0 … 15 | 16 … 31        values     element 0 … 15 | 16 … 31 | …
//!  element 0 |            |                token 0    |              |         |
//!  element 1 |            |                token 1    |              |         |
//!  …                                       …
//! ```
//!
//! Both products are then the same: numbers of a row, one by one, times vectors.
//!
//! Keys are taken in segments of 256, counted from the start of the sequence. Within a segment all
//! scores are made first, then their softmax, then the weighted sum of values; segments are joined
//! in order. A query's arithmetic so depends on its position only, not on which queries are computed
//! beside it or which thread has which segment: keys that it does not see add exact zeros.

use std::ops::Range;

use half::f16;

use super::simd::{Kernel, LANES, Simd, exp, soft_cap};

/// Tokens of a strip.
pub(in crate::model::exec::cpu) const STRIP: usize = 32;
/// Tokens of a segment.
pub(in crate::model::exec::cpu) const SEGMENT: usize = 256;
/// Largest width of a head.
pub(in crate::model::exec::cpu) const HEAD_DIM_MAX: usize = 512;
/// Rows whose scores are held at once.
const ROWS: usize = 8;
/// Numbers of a row's result for one segment, beyond the weighted sum: largest score, sum of weights.
pub(in crate::model::exec::cpu) const STATE: usize = 2;

/// A number of key/value memory.
pub(in crate::model::exec::cpu) trait Element:
    Copy + Default + Send + Sync + 'static
{
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
    fn store<S: Simd>(s: S, value: S::F, to: &mut [Self; LANES]);
}

impl Element for f16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load_f16(from)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, value: S::F, to: &mut [Self; LANES]) {
        s.store_f16(value, to);
    }
}

impl Element for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F {
        s.load(from)
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, value: S::F, to: &mut [Self; LANES]) {
        s.store(value, to);
    }
}

/// Two vectors in whole cache lines.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(in crate::model::exec::cpu) struct Pair<E>(pub(in crate::model::exec::cpu) [[E; LANES]; 2]);

/// Elements of a pair of vectors. Heads are padded to whole pairs.
pub(in crate::model::exec::cpu) const PAIR: usize = 2 * LANES;

/// Keys and values of 32 tokens for one layer and key head.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::exec::cpu) struct KvTile<'a, E> {
    /// `[element]`, of all tokens.
    pub(in crate::model::exec::cpu) keys: &'a [Pair<E>],
    /// `[token][element / 32]`.
    pub(in crate::model::exec::cpu) values: &'a [Pair<E>],
}

/// Positions of a group of queries, and the sliding window: which keys they read.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::exec::cpu) struct MaskSpec {
    /// Position of the first query.
    pub(in crate::model::exec::cpu) first: usize,
    /// Query heads that share the key head: rows for each position.
    pub(in crate::model::exec::cpu) group: usize,
    /// Number of most recent tokens seen, the query's own included.
    pub(in crate::model::exec::cpu) window: Option<usize>,
    /// `cap · tanh(x / cap)` on scores.
    pub(in crate::model::exec::cpu) soft_cap: Option<f32>,
}

impl MaskSpec {
    /// The keys that a row sees.
    pub(in crate::model::exec::cpu) fn keys(&self, row: usize) -> Range<usize> {
        let end = self.first + row / self.group + 1;
        self.window.map_or(0, |window| end.saturating_sub(window))..end
    }

    /// Returns the splits that hold keys of any of these rows.
    pub(in crate::model::exec::cpu) fn segments(&self, rows: Range<usize>) -> Range<usize> {
        self.keys(rows.start).start / SEGMENT..self.keys(rows.end - 1).end.div_ceil(SEGMENT)
    }
}

/// Attention of rows `[query][head of the group]`, each of `dim` elements.
pub(in crate::model::exec::cpu) struct Attend<'a, P> {
    pub(in crate::model::exec::cpu) mask_spec: MaskSpec,
    /// Whole pairs.
    pub(in crate::model::exec::cpu) dim: usize,
    /// Scaled queries, `[row][dim]`.
    pub(in crate::model::exec::cpu) queries: &'a [f32],
    /// Gives the strip of a number, counted from the start of the sequence.
    pub(in crate::model::exec::cpu) strips: P,
    /// `[row][dim]`.
    pub(in crate::model::exec::cpu) out: &'a mut [f32],
}

impl<'a, 'p, E: Element, P: Fn(usize) -> KvTile<'p, E>> Kernel for Attend<'a, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.queries.len() / self.dim;
        assert_eq!(self.out.len(), rows * self.dim);
        assert!(self.dim <= HEAD_DIM_MAX && self.dim.is_multiple_of(PAIR));
        let mut sums = [0.0; ROWS * HEAD_DIM_MAX];
        let mut queries = [[0.0; HEAD_DIM_MAX]; ROWS];
        for first in (0..rows).step_by(ROWS) {
            let rows = first..rows.min(first + ROWS);
            let place = rows.start * self.dim..rows.end * self.dim;
            let out = &mut self.out[place.clone()];
            take(&self.queries[place], self.dim, &mut queries);
            out.fill(0.0);
            let mut states = [State::NONE; ROWS];
            for number in self.mask_spec.segments(rows.clone()) {
                let segment = Segment {
                    mask_spec: self.mask_spec,
                    dim: self.dim,
                    rows: rows.clone(),
                    number,
                };
                let found = segment.attend(s, &queries, &self.strips, &mut sums);
                for (row, out) in out.chunks_exact_mut(self.dim).enumerate() {
                    let sums = &sums[row * self.dim..(row + 1) * self.dim];
                    states[row].join(s, found[row], sums, out);
                }
            }
            for (state, out) in states.iter().zip(out.chunks_exact_mut(self.dim)) {
                state.finish(s, out);
            }
        }
    }
}

/// As [`Attend`], over one segment only, which is joined with the others by [`MergeSplits`].
pub(in crate::model::exec::cpu) struct AttendSplit<'a, P> {
    /// `out` is `[row][dim + STATE]`.
    pub(in crate::model::exec::cpu) whole: Attend<'a, P>,
    pub(in crate::model::exec::cpu) number: usize,
}

impl<'a, 'p, E: Element, P: Fn(usize) -> KvTile<'p, E>> Kernel for AttendSplit<'a, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Attend {
            mask_spec,
            dim,
            queries,
            strips,
            out,
        } = self.whole;
        let rows = queries.len() / dim;
        assert_eq!(out.len(), rows * (dim + STATE));
        assert!(dim <= HEAD_DIM_MAX && dim.is_multiple_of(PAIR));
        let mut sums = [0.0; ROWS * HEAD_DIM_MAX];
        let mut taken = [[0.0; HEAD_DIM_MAX]; ROWS];
        for first in (0..rows).step_by(ROWS) {
            let rows = first..rows.min(first + ROWS);
            let segment = Segment {
                mask_spec,
                dim,
                rows: rows.clone(),
                number: self.number,
            };
            take(&queries[rows.start * dim..rows.end * dim], dim, &mut taken);
            let found = segment.attend(s, &taken, &strips, &mut sums);
            for row in rows.clone() {
                let local = row - rows.start;
                let out = &mut out[row * (dim + STATE)..(row + 1) * (dim + STATE)];
                out[..dim].copy_from_slice(&sums[local * dim..(local + 1) * dim]);
                out[dim..].copy_from_slice(&[found[local].largest, found[local].total]);
            }
        }
    }
}

/// Joins one row's results of all segments, in order.
pub(in crate::model::exec::cpu) struct MergeSplits<'a, I> {
    /// Each `[dim + STATE]`.
    pub(in crate::model::exec::cpu) parts: I,
    /// `[dim]`.
    pub(in crate::model::exec::cpu) out: &'a mut [f32],
}

impl<'a, I: Iterator<Item = &'a [f32]>> Kernel for MergeSplits<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let dim = self.out.len();
        self.out.fill(0.0);
        let mut state = State::NONE;
        for part in self.parts {
            let found = State {
                largest: part[dim],
                total: part[dim + 1],
            };
            state.join(s, found, &part[..dim], self.out);
        }
        state.finish(s, self.out);
    }
}

/// Running softmax of one row beside its weighted sum of values: maximum and sum (online softmax,
/// Milakov and Gimelshein 2018).
#[derive(Debug, Clone, Copy)]
struct State {
    /// Largest score; weights are relative to its.
    largest: f32,
    /// Sum of weights.
    total: f32,
}

impl State {
    const NONE: Self = Self {
        largest: f32::MIN,
        total: 0.0,
    };

    /// Adds what another segment found.
    #[inline(always)]
    fn join<S: Simd>(&mut self, s: S, found: Self, sums: &[f32], out: &mut [f32]) {
        let largest = if found.largest > self.largest {
            found.largest
        } else {
            self.largest
        };
        let factor = |from: f32| exp(s, s.splat(from - largest));
        let (old, new) = (factor(self.largest), factor(found.largest));
        let sums = sums.as_chunks::<LANES>().0;
        for (out, sum) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(sums) {
            let joined = s.fma(s.load(sum), new, s.mul(s.load(out), old));
            s.store(joined, out);
        }
        let total = s.fma(s.splat(found.total), new, s.mul(s.splat(self.total), old));
        *self = Self {
            largest,
            total: s.largest(total),
        };
    }

    /// Divides the weighted sum by the sum of weights.
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, out: &mut [f32]) {
        let total = s.splat(self.total);
        for out in out.as_chunks_mut::<LANES>().0 {
            s.store(s.div(s.load(out), total), out);
        }
    }
}

/// Up to eight rows over one segment.
struct Segment {
    mask_spec: MaskSpec,
    dim: usize,
    rows: Range<usize>,
    number: usize,
}

/// Queries of up to eight rows. Their size is fixed, as that of the scores is. So one register
/// addresses all rows, and no index needs a bounds check.
type Queries = [[f32; HEAD_DIM_MAX]; ROWS];
type Scores = [[f32; SEGMENT]; ROWS];

/// Copies rows of `dim` numbers; what is left is the last row once more.
fn take(rows: &[f32], dim: usize, queries: &mut Queries) {
    let last = rows.len() / dim - 1;
    for (row, query) in queries.iter_mut().enumerate() {
        let row = row.min(last);
        query[..dim].copy_from_slice(&rows[row * dim..(row + 1) * dim]);
    }
}

impl Segment {
    /// Writes the weighted sums of values, `[row][dim]`, and gives what belongs to them.
    #[inline(always)]
    fn attend<'p, S: Simd, E: Element>(
        &self,
        s: S,
        queries: &Queries,
        strips: &impl Fn(usize) -> KvTile<'p, E>,
        sums: &mut [f32],
    ) -> [State; ROWS] {
        let mut scores = [[f32::NEG_INFINITY; SEGMENT]; ROWS];
        let count = self.rows.len();
        let width = match count {
            3 if S::COLUMNS > 3 => 3,
            _ => count.next_power_of_two().min(S::COLUMNS),
        };
        for at in 0..count.div_ceil(width) {
            match width {
                1 => self.qk_scores::<S, E, 1>(s, at, queries, strips, &mut scores),
                2 => self.qk_scores::<S, E, 2>(s, at, queries, strips, &mut scores),
                3 => self.qk_scores::<S, E, 3>(s, at, queries, strips, &mut scores),
                4 => self.qk_scores::<S, E, 4>(s, at, queries, strips, &mut scores),
                _ => self.qk_scores::<S, E, 8>(s, at, queries, strips, &mut scores),
            }
        }
        let mut states = [State::NONE; ROWS];
        for row in 0..count {
            self.apply_mask(row, &mut scores[row]);
            states[row] = self.softmax(s, &mut scores[row]);
        }
        for at in 0..count.div_ceil(width) {
            match width {
                1 => self.weighted_values::<S, E, 1>(s, at, &scores, strips, sums),
                2 => self.weighted_values::<S, E, 2>(s, at, &scores, strips, sums),
                3 => self.weighted_values::<S, E, 3>(s, at, &scores, strips, sums),
                4 => self.weighted_values::<S, E, 4>(s, at, &scores, strips, sums),
                _ => self.weighted_values::<S, E, 8>(s, at, &scores, strips, sums),
            }
        }
        states
    }

    /// The keys of the segment that any row sees, counted from its start.
    fn keys(&self) -> Range<usize> {
        let seen =
            self.mask_spec.keys(self.rows.start).start..self.mask_spec.keys(self.rows.end - 1).end;
        self.within(seen)
    }

    /// Returns the part of a range of keys that lies in this split, counted from its start.
    fn within(&self, keys: Range<usize>) -> Range<usize> {
        let first = self.number * SEGMENT;
        let place = |key: usize| key.clamp(first, first + SEGMENT) - first;
        place(keys.start)..place(keys.end)
    }

    /// The vectors of scores that any row needs.
    fn vectors(&self) -> Range<usize> {
        let keys = self.keys();
        keys.start / LANES..keys.end.div_ceil(LANES)
    }

    /// The strips of the segment that any row sees keys of.
    fn strips(&self) -> Range<usize> {
        let keys = self.keys();
        keys.start / STRIP..keys.end.div_ceil(STRIP)
    }

    /// The scores of rows `N · at` and following: queries times keys.
    #[inline(always)]
    fn qk_scores<'p, S: Simd, E: Element, const N: usize>(
        &self,
        s: S,
        at: usize,
        queries: &Queries,
        strips: &impl Fn(usize) -> KvTile<'p, E>,
        scores: &mut Scores,
    ) {
        let queries = &queries.as_chunks::<N>().0[at];
        for strip in self.strips() {
            let keys = strips(self.number * (SEGMENT / STRIP) + strip).keys;
            assert_eq!(keys.len(), self.dim);
            let mut sums = [[s.splat(0.0); N]; 2];
            for (element, keys) in keys.iter().enumerate() {
                let keys = [E::load(s, &keys.0[0]), E::load(s, &keys.0[1])];
                for (c, query) in queries.iter().enumerate() {
                    let query = s.splat(query[element % HEAD_DIM_MAX]);
                    sums[0][c] = s.fma(query, keys[0], sums[0][c]);
                    sums[1][c] = s.fma(query, keys[1], sums[1][c]);
                }
            }
            for (half, sums) in sums.into_iter().enumerate() {
                for (row, sum) in sums.into_iter().enumerate() {
                    let sum = match self.mask_spec.soft_cap {
                        Some(cap) => soft_cap(s, sum, cap),
                        None => sum,
                    };
                    let row = &mut scores[(N * at + row) % ROWS];
                    s.store(sum, &mut row.as_chunks_mut::<LANES>().0[2 * strip + half]);
                }
            }
        }
    }

    /// Makes the scores of keys that a row does not see infinitely small.
    fn apply_mask(&self, row: usize, scores: &mut [f32; SEGMENT]) {
        let seen = self.within(self.mask_spec.keys(self.rows.start + row));
        let vectors = self.vectors();
        let all = vectors.start * LANES..vectors.end * LANES;
        scores[all.start..seen.start.max(all.start)].fill(f32::NEG_INFINITY);
        scores[seen.end.min(all.end)..all.end].fill(f32::NEG_INFINITY);
    }

    /// Scores → weights relative to the largest score.
    #[inline(always)]
    fn softmax<S: Simd>(&self, s: S, scores: &mut [f32; SEGMENT]) -> State {
        let scores = &mut scores.as_chunks_mut::<LANES>().0[self.vectors()];
        let mut largest = s.splat(f32::MIN);
        for vector in scores.iter() {
            largest = s.max(largest, s.load(vector));
        }
        let largest = s.largest(largest);
        let mut total = s.splat(0.0);
        for vector in scores.iter_mut() {
            let weight = exp(s, s.sub(s.load(vector), s.splat(largest)));
            total = s.add(total, weight);
            s.store(weight, vector);
        }
        State {
            largest,
            total: s.sum(total),
        }
    }

    /// The sums of rows `N · at` and following: weights times values.
    #[inline(always)]
    fn weighted_values<'p, S: Simd, E: Element, const N: usize>(
        &self,
        s: S,
        at: usize,
        weights: &Scores,
        strips: &impl Fn(usize) -> KvTile<'p, E>,
        sums: &mut [f32],
    ) {
        let across = self.dim / PAIR;
        let weights = &weights.as_chunks::<N>().0[at];
        let keys = self.keys();
        for pair in 0..across {
            let mut mixed = [[s.splat(0.0); N]; 2];
            for strip in self.strips() {
                let values = strips(self.number * (SEGMENT / STRIP) + strip).values;
                assert_eq!(values.len(), STRIP * across);
                let first = strip * STRIP;
                for key in keys.start.max(first)..keys.end.min(first + STRIP) {
                    let pair = &values[(key - first) * across + pair];
                    let values = [E::load(s, &pair.0[0]), E::load(s, &pair.0[1])];
                    for (c, weights) in weights.iter().enumerate() {
                        let weight = s.splat(weights[key % SEGMENT]);
                        mixed[0][c] = s.fma(weight, values[0], mixed[0][c]);
                        mixed[1][c] = s.fma(weight, values[1], mixed[1][c]);
                    }
                }
            }
            for (half, mixed) in mixed.into_iter().enumerate() {
                for (row, sum) in mixed.into_iter().enumerate() {
                    let row = N * at + row;
                    if row < self.rows.len() {
                        let place = row * self.dim + pair * PAIR + half * LANES;
                        let out = &mut sums[place..place + LANES];
                        s.store(sum, &mut out.as_chunks_mut::<LANES>().0[0]);
                    }
                }
            }
        }
    }
}
