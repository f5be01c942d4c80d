//! Attention of a step: each sequence over its own pages.
//!
//! Queries, and then what attention makes of them, lie where the work is cut:
//!
//! ```text
//! |              slot 0               | slot 1 …
//! |   key head 0    |   key head 1    |
//! | 16 queries | 16 |                     a piece of work: up to 16 queries of one key head
//! | group · dim numbers a query |
//! ```

use std::sync::Arc;

use super::{
    KvElement,
    kernels::{
        SimdBackend,
        attention::{Attend, AttendSplit, MaskSpec, MergeSplits, PAIR, SEGMENT, STATE, STRIP},
        disjoint::{Chunks, Cut},
        rows::{RmsNorm, WriteKv},
        simd::LANES,
        thread_pool::Pool,
    },
    kv::CpuKv,
    linear::grow,
    rope::RopeTable,
};
use crate::model::exec::{KvCache as _, Slot};

/// Queries of one piece of work at most.
const QUERIES: usize = 16;
/// Scores of a step's attention below which other threads are not worth waking.
const SCORES_ALONE_MAX: usize = 2048;

/// The heads of one layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// Key heads, and as many of values.
    pub(super) keys: usize,
    /// Query heads for each key head.
    pub(super) group: usize,
    /// Elements of a head.
    pub(super) width: usize,
    /// The same with padding.
    pub(super) dim: usize,
    /// Factor on queries.
    pub(super) scale: f32,
}

/// Attention of one layer, without its linear layers.
pub(super) struct Attention {
    /// Weights over each query head and each key head, padded.
    pub(super) qk_norm: Option<[Vec<f32>; 2]>,
    pub(super) eps: f32,
    pub(super) window: Option<usize>,
    pub(super) soft_cap: Option<f32>,
    /// Index of the layer's RoPE table.
    pub(super) rotation: usize,
}

/// A layer's attention, its index, and the offsets of its projections.
pub(super) struct AttentionLayer<'a> {
    pub(super) attention: &'a Attention,
    pub(super) layer: usize,
    /// The first tiles of queries, keys and values among the products.
    pub(super) tiles: [usize; 3],
}

/// A piece of work: consecutive queries of one slot, for one key head.
#[derive(Debug, Clone, Copy)]
struct AttentionTask {
    slot: usize,
    head: usize,
    /// Rows of the step.
    row: usize,
    /// Position of the first query in its sequence.
    position: usize,
    count: usize,
}

/// Buffers of one step.
#[derive(Default)]
pub(super) struct Workspace {
    pieces: Vec<AttentionTask>,
    /// End of each task among the queries.
    bounds: Vec<usize>,
    /// For each slot its first row.
    slots: Vec<usize>,
    queries: Vec<f32>,
    mixed: Vec<f32>,
    /// `[slot][key head][token][key, value]`.
    fresh: Vec<f32>,
    fresh_bounds: Vec<usize>,
    segments: Segments,
    tokens: usize,
}

/// Single queries cut into segments of their keys.
#[derive(Default)]
struct Segments {
    /// Piece and number of segment.
    all: Vec<(usize, usize)>,
    /// `[segment][row][dim + STATE]`.
    found: Vec<f32>,
}

impl Workspace {
    /// Cuts a step into tasks. The KV caches of the step are already extended.
    pub(super) fn cut<E: KvElement>(&mut self, slots: &[Slot<'_, CpuKv<E>>], heads: Heads) {
        self.pieces.clear();
        self.slots.clear();
        self.tokens = 0;
        for (slot, part) in slots.iter().enumerate() {
            let count = part.tokens.len();
            self.slots.push(self.tokens);
            for head in 0..heads.keys {
                for first in (0..count).step_by(QUERIES) {
                    self.pieces.push(AttentionTask {
                        slot,
                        head,
                        row: self.tokens + first,
                        position: part.kv.len() - count + first,
                        count: QUERIES.min(count - first),
                    });
                }
            }
            self.tokens += count;
        }
        let numbers = heads.group * heads.dim;
        ends(&mut self.bounds, &self.pieces, numbers);
        ends(&mut self.fresh_bounds, &self.pieces, 2 * heads.dim);
        let rows = self.tokens * heads.keys;
        grow(&mut self.queries, rows * numbers);
        grow(&mut self.mixed, rows * numbers);
        grow(&mut self.fresh, rows * 2 * heads.dim);
    }

    /// Attention of one layer, out of the products of its projections.
    pub(super) fn run<E: KvElement>(
        &mut self,
        (level, pool): (SimdBackend, &mut Pool),
        (place, heads): (&AttentionLayer<'_>, Heads),
        (products, rotation): (&[[f32; LANES]], RopeTable<'_>),
        slots: &mut [Slot<'_, CpuKv<E>>],
    ) {
        let turn = QkvPrepare {
            level,
            place,
            heads,
            products,
            rotation,
            tokens: self.tokens,
        };
        let parts = (
            Cut::new(&mut self.queries, &self.bounds),
            Cut::new(&mut self.fresh, &self.fresh_bounds),
        );
        let pieces = &self.pieces;
        pool.par_for(parts, |index, (queries, fresh)| {
            turn.piece(&pieces[index], queries, fresh);
        });
        self.write_kv((level, pool), place.layer, heads, slots);
        self.attend((level, pool), place, heads, slots);
    }

    /// Writes the new keys and values into the pages of their sequences.
    fn write_kv<E: KvElement>(
        &self,
        (level, pool): (SimdBackend, &mut Pool),
        layer: usize,
        heads: Heads,
        slots: &mut [Slot<'_, CpuKv<E>>],
    ) {
        let across = heads.dim / PAIR;
        for (slot, row) in slots.iter_mut().zip(&self.slots) {
            let count = slot.tokens.len();
            let start = slot.kv.len() - count;
            let fresh = &self.fresh[row * heads.keys * 2 * heads.dim..];
            let page_tokens = slot.kv.page_tokens();
            let pages = Chunks::new(slot.kv.newest(start), 1);
            pool.par_for(pages, |page, shared| {
                let page_start = (start / page_tokens + page) * page_tokens;
                // `extend` has made these pages this sequence's own.
                let Some(page) = Arc::get_mut(&mut shared[0]) else {
                    unreachable!("a page that is written is shared")
                };
                let own = start.max(page_start)..(start + count).min(page_start + page_tokens);
                for head in 0..heads.keys {
                    for position in own.clone() {
                        let (strip, token) = ((position - page_start) / STRIP, position % STRIP);
                        let (keys, values) = page.strip_mut(layer, head, strip);
                        let number = head * count + position - start;
                        let both = &fresh[number * 2 * heads.dim..(number + 1) * 2 * heads.dim];
                        let (key, value) = both.split_at(heads.dim);
                        level.run(WriteKv {
                            key,
                            value,
                            token,
                            keys,
                            values: &mut values[token * across..(token + 1) * across],
                        });
                    }
                }
            });
        }
    }

    fn attend<E: KvElement>(
        &mut self,
        (level, pool): (SimdBackend, &mut Pool),
        place: &AttentionLayer<'_>,
        heads: Heads,
        slots: &[Slot<'_, CpuKv<E>>],
    ) {
        let (pieces, bounds) = (&self.pieces, &self.bounds);
        let mask_spec = |piece: &AttentionTask| MaskSpec {
            first: piece.position,
            group: heads.group,
            window: place.attention.window,
            soft_cap: place.attention.soft_cap,
        };
        let queries = &self.queries;
        let attend = |index: usize, out| {
            let piece: &AttentionTask = &pieces[index];
            let (kv, layer) = (&*slots[piece.slot].kv, place.layer);
            Attend {
                mask_spec: mask_spec(piece),
                dim: heads.dim,
                queries: &queries[bounds[index]..bounds[index + 1]],
                strips: move |number| kv.strip(layer, piece.head, number),
                out,
            }
        };
        let segments_of =
            |piece: &AttentionTask| mask_spec(piece).segments(0..piece.count * heads.group);
        self.segments.all.clear();
        let few = pieces.len() < 4 * pool.threads() && pieces.iter().all(|piece| piece.count == 1);
        if few && pieces.iter().any(|piece| segments_of(piece).len() > 1) {
            for (index, piece) in pieces.iter().enumerate() {
                let segments = segments_of(piece).map(|number| (index, number));
                self.segments.all.extend(segments);
            }
        }
        if self.segments.all.is_empty() {
            let scores: usize = pieces
                .iter()
                .map(|piece| piece.count * (piece.position + piece.count).min(SEGMENT))
                .sum();
            let parts = Cut::new(&mut self.mixed, bounds);
            let work = |index, out| level.run(attend(index, out));
            match scores <= SCORES_ALONE_MAX {
                true => Pool::here(parts, work),
                false => pool.par_for(parts, work),
            }
            return;
        }
        let record = heads.group * (heads.dim + STATE);
        let Segments { all, found } = &mut self.segments;
        grow(found, all.len() * record);
        let found = &mut found[..all.len() * record];
        pool.par_for(Chunks::new(found, record), |index, out| {
            let (piece, number) = all[index];
            let whole = attend(piece, out);
            level.run(AttendSplit { whole, number });
        });
        let record = heads.dim + STATE;
        for (index, piece) in pieces.iter().enumerate() {
            let first = all.partition_point(|(piece, _)| *piece < index);
            let count = segments_of(piece).len();
            let rows = &mut self.mixed[bounds[index]..bounds[index + 1]];
            for (row, out) in rows.chunks_exact_mut(heads.dim).enumerate() {
                let parts = (first..first + count).map(|segment| {
                    let number = segment * heads.group + row;
                    &found[number * record..(number + 1) * record]
                });
                level.run(MergeSplits { parts, out });
            }
        }
    }

    /// Writes the attention output of a token, `[query head][width]`, to the beginning of `out`.
    pub(super) fn mixed<E: KvElement>(
        &self,
        token: usize,
        heads: Heads,
        slots: &[Slot<'_, CpuKv<E>>],
        out: &mut [f32],
    ) {
        let slot = self.slots.partition_point(|first| *first <= token) - 1;
        let (first, count) = (self.slots[slot], slots[slot].tokens.len());
        let numbers = heads.group * heads.dim;
        for (head, out) in out
            .chunks_exact_mut(heads.group * heads.width)
            .take(heads.keys)
            .enumerate()
        {
            let row = first * heads.keys + head * count + token - first;
            let rows = self.mixed[row * numbers..(row + 1) * numbers].chunks_exact(heads.dim);
            for (out, row) in out.chunks_exact_mut(heads.width).zip(rows) {
                out.copy_from_slice(&row[..heads.width]);
            }
        }
    }
}

/// Computes the end of each task, `numbers` for each query.
fn ends(bounds: &mut Vec<usize>, pieces: &[AttentionTask], numbers: usize) {
    bounds.clear();
    bounds.push(0);
    let mut end = 0;
    for piece in pieces {
        end += piece.count * numbers;
        bounds.push(end);
    }
}

/// Takes heads out of products, normalises and turns them.
struct QkvPrepare<'a> {
    level: SimdBackend,
    place: &'a AttentionLayer<'a>,
    heads: Heads,
    products: &'a [[f32; LANES]],
    rotation: RopeTable<'a>,
    tokens: usize,
}

impl QkvPrepare<'_> {
    /// Queries `[query][head of the group][dim]`, and `[query][key, value][dim]`.
    fn piece(&self, piece: &AttentionTask, queries: &mut [f32], fresh: &mut [f32]) {
        let Heads { group, dim, .. } = self.heads;
        let queries = queries.chunks_exact_mut(group * dim);
        for (index, (queries, fresh)) in queries.zip(fresh.chunks_exact_mut(2 * dim)).enumerate() {
            let token = piece.row + index;
            for (number, query) in queries.chunks_exact_mut(dim).enumerate() {
                self.take(0, piece.head * group + number, token, query);
                self.finish(0, token, query);
            }
            let (key, value) = fresh.split_at_mut(dim);
            self.take(1, piece.head, token, key);
            self.finish(1, token, key);
            self.take(2, piece.head, token, value);
        }
    }

    /// One head of one token: queries, keys or values by `part`.
    fn take(&self, part: usize, head: usize, token: usize, out: &mut [f32]) {
        let width = self.heads.width;
        out[width..].fill(0.0);
        let (mut from, end) = (head * width, (head + 1) * width);
        let mut out = &mut out[..width];
        while from < end {
            let tile = self.place.tiles[part] + from / LANES;
            let lanes = &self.products[tile * self.tokens + token][from % LANES..];
            let count = lanes.len().min(end - from);
            let (now, rest) = out.split_at_mut(count);
            now.copy_from_slice(&lanes[..count]);
            out = rest;
            from += count;
        }
    }

    fn finish(&self, part: usize, token: usize, head: &mut [f32]) {
        let Heads { width, scale, .. } = self.heads;
        if let Some(weights) = &self.place.attention.qk_norm {
            self.level.run(RmsNorm {
                weight: &weights[part],
                width,
                eps: self.place.attention.eps,
                row: head,
            });
        }
        let scale = if part == 0 { scale } else { 1.0 };
        self.rotation.apply(token, scale, &mut head[..width]);
    }
}
