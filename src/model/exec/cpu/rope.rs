//! Rotary position embedding, from tables made once a step.

use crate::model::{exec::rope_frequencies::frequencies, spec::Rope};

/// The distinct rotary embeddings of a model, and their tables for one step.
pub(super) struct RopeTables {
    /// For each embedding the angle of each pair from one position to the next.
    frequencies: Vec<Vec<f64>>,
    /// `[embedding][token][pair]` of cosine and sine.
    tables: Vec<(f32, f32)>,
    tokens: usize,
}

/// The table of one embedding, `[token][pair]`.
#[derive(Clone, Copy)]
pub(super) struct RopeTable<'a> {
    table: &'a [(f32, f32)],
    pairs: usize,
}

impl RopeTables {
    pub(super) fn new(ropes: &[Rope], width: usize) -> Self {
        Self {
            frequencies: ropes.iter().map(|rope| frequencies(rope, width)).collect(),
            tables: Vec::new(),
            tokens: 0,
        }
    }

    /// Makes the tables for tokens at these positions.
    pub(super) fn prepare(&mut self, positions: &(impl Iterator<Item = usize> + Clone)) {
        self.tables.clear();
        self.tokens = positions.clone().count();
        for frequencies in &self.frequencies {
            for position in positions.clone() {
                let turn = |frequency: &f64| {
                    let (sine, cosine) = (position as f64 * frequency).sin_cos();
                    (cosine as f32, sine as f32)
                };
                self.tables.extend(frequencies.iter().map(turn));
            }
        }
    }

    /// The table of an embedding.
    pub(super) fn of(&self, number: usize) -> RopeTable<'_> {
        let pairs = self.frequencies[number].len();
        let len = self.tokens * pairs;
        RopeTable {
            table: &self.tables[number * len..(number + 1) * len],
            pairs,
        }
    }
}

impl RopeTable<'_> {
    /// Applies RoPE to a head of one token, and scales it. A pair is an element of the first half
    /// and one of the second.
    pub(super) fn apply(&self, token: usize, scale: f32, head: &mut [f32]) {
        let table = &self.table[token * self.pairs..(token + 1) * self.pairs];
        let (first, second) = head.split_at_mut(self.pairs);
        for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(table) {
            let (x, y) = (*a, *b);
            *a = (x * cosine - y * sine) * scale;
            *b = (y * cosine + x * sine) * scale;
        }
    }
}
