//! Export and import of KV pages as plain bytes, token by token, for snapshots.
//!
//! Pages keep the tokens of a tile side by side; bytes keep each token's numbers together. So any
//! range of tokens can be written, and ranges can be joined again.

use std::{ops::Range, sync::Arc};

use super::{CpuKv, KvElement, KvShape, PAIR, Page, STRIP};
use crate::model::exec::{ExecError, KvExport, cpu::kernels::simd::LANES};

/// The pages of some tokens. Shared pages do not change.
struct PageExport<E: KvElement> {
    pages: Vec<Arc<Page<E>>>,
    /// The first token of the first page.
    first: usize,
    page_tokens: usize,
    shape: KvShape,
}

/// Some tokens of one strip.
#[derive(Debug, Clone)]
struct Part {
    /// Its number among those of all strips, counted from the first page at hand.
    strip: usize,
    /// Tokens of the strip.
    tokens: Range<usize>,
    /// Position of the page's first token among the tokens that are copied.
    row: usize,
}

pub(super) fn of<E: KvElement>(kv: &CpuKv<E>, tokens: Range<usize>) -> Box<dyn KvExport> {
    let page_tokens = kv.store.page_tokens();
    let pages = tokens.start / page_tokens..tokens.end.div_ceil(page_tokens);
    Box::new(PageExport {
        first: pages.start * page_tokens,
        pages: kv.pages[pages].to_vec(),
        page_tokens,
        shape: kv.store.shape,
    })
}

impl<E: KvElement> KvExport for PageExport<E> {
    fn write(&self, tokens: Range<usize>, out: &mut Vec<u8>) {
        let width = self.shape.bytes_per_token::<E>();
        let start = out.len();
        out.resize(start + tokens.len() * width, 0);
        let out = &mut out[start..];
        let strips = self.page_tokens / STRIP;
        for part in parts(tokens.start - self.first..tokens.end - self.first) {
            let page = &self.pages[part.strip / strips];
            for (layer, head) in self.shape.places() {
                let strip = page.strip(layer, head, part.strip % strips);
                let [keys, values] = self.shape.offsets::<E>(layer, head);
                for (row, token) in (part.row..).zip(part.tokens.clone()) {
                    let bytes = &mut out[row * width..(row + 1) * width];
                    let (half, lane) = (token / LANES, token % LANES);
                    let key = strip.keys.iter().map(|pair| pair.0[half][lane]);
                    put_all(key, &mut bytes[keys..]);
                    let across = self.shape.head_dim / PAIR;
                    let pairs = &strip.values[token * across..(token + 1) * across];
                    let value = pairs.iter().flat_map(|pair| pair.0.iter().flatten());
                    put_all(value.copied(), &mut bytes[values..]);
                }
            }
        }
    }
}

/// Implements [`KvCache::import`](crate::model::exec::KvCache::import).
pub(super) fn append<E: KvElement>(
    kv: &mut CpuKv<E>,
    count: usize,
    bytes: &[u8],
) -> Result<(), ExecError> {
    let shape = kv.store.shape;
    let width = shape.bytes_per_token::<E>();
    if count.checked_mul(width) != Some(bytes.len()) {
        let what = format!("{} bytes are not {count} tokens of {width}", bytes.len());
        return Err(ExecError(what));
    }
    let start = kv.len;
    kv.extend(count)
        .map_err(|error| ExecError(format!("no memory for keys and values: {error}")))?;
    let page_tokens = kv.store.page_tokens();
    let strips = page_tokens / STRIP;
    let pages = kv.newest(start);
    let inside = start % page_tokens;
    for part in parts(inside..inside + count) {
        // `extend` has made these pages this memory's own.
        let Some(page) = Arc::get_mut(&mut pages[part.strip / strips]) else {
            unreachable!("a page that is written is shared")
        };
        for (layer, head) in shape.places() {
            let (into_keys, into_values) = page.strip_mut(layer, head, part.strip % strips);
            let [keys, values] = shape.offsets::<E>(layer, head);
            for (row, token) in (part.row..).zip(part.tokens.clone()) {
                let bytes = &bytes[row * width..(row + 1) * width];
                let (half, lane) = (token / LANES, token % LANES);
                for (pair, key) in into_keys.iter_mut().zip(all::<E>(&bytes[keys..])) {
                    pair.0[half][lane] = key;
                }
                let across = shape.head_dim / PAIR;
                let pairs = &mut into_values[token * across..(token + 1) * across];
                let elements = pairs
                    .iter_mut()
                    .flat_map(|pair| pair.0.iter_mut().flatten());
                for (element, value) in elements.zip(all::<E>(&bytes[values..])) {
                    *element = value;
                }
            }
        }
    }
    Ok(())
}

/// Cuts tokens, counted from the start of a page, at the bounds of strips.
fn parts(tokens: Range<usize>) -> impl Iterator<Item = Part> {
    let strips = tokens.start / STRIP..tokens.end.div_ceil(STRIP);
    strips.map(move |strip| {
        let first = tokens.start.max(strip * STRIP);
        let end = tokens.end.min((strip + 1) * STRIP);
        Part {
            strip,
            tokens: first - strip * STRIP..end - strip * STRIP,
            row: first - tokens.start,
        }
    })
}

fn put_all<E: KvElement>(elements: impl Iterator<Item = E>, bytes: &mut [u8]) {
    for (element, bytes) in elements.zip(bytes.chunks_exact_mut(size_of::<E>())) {
        element.put(bytes);
    }
}

fn all<E: KvElement>(bytes: &[u8]) -> impl Iterator<Item = E> {
    bytes.chunks_exact(size_of::<E>()).map(E::of)
}

impl KvShape {
    /// Every layer with every head of it.
    fn places(self) -> impl Iterator<Item = (usize, usize)> {
        let heads = self.head_count;
        (0..self.layer_count).flat_map(move |layer| (0..heads).map(move |head| (layer, head)))
    }

    /// Returns the offsets of a layer's and head's keys and values in a token's bytes.
    fn offsets<E>(self, layer: usize, head: usize) -> [usize; 2] {
        let both = [0, 1].map(|which| (2 * layer + which) * self.head_count + head);
        both.map(|number| number * self.head_dim * size_of::<E>())
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{super::PagePool, *};
    use crate::model::exec::KvCache as _;

    const SHAPE: KvShape = KvShape {
        layer_count: 3,
        head_count: 2,
        head_dim: 64,
    };

    /// Bytes that differ from place to place.
    fn bytes(tokens: Range<usize>, width: usize) -> Vec<u8> {
        let of = |token: usize| (0..width).map(move |at| (token * 31 + at * 7 + at / 251) as u8);
        tokens.flat_map(of).collect()
    }

    fn check<E: KvElement>() {
        let store = Arc::new(PagePool::<E>::new(SHAPE));
        let width = SHAPE.bytes_per_token::<E>();
        let mut kv = CpuKv::new(Arc::clone(&store));
        let mut ends = vec![0];
        for count in [1, 30, 1, 1, 64, 200, 5, 333] {
            let start = kv.len();
            kv.import(count, &bytes(start..start + count, width))
                .unwrap();
            ends.push(kv.len());
        }
        let len = kv.len();
        for (&start, end) in ends.iter().zip((1..=len).rev().step_by(37)) {
            if start >= end {
                continue;
            }
            let mut out = vec![7];
            let exported = kv.export(start..end).unwrap();
            let middle = start + (end - start) / 3;
            exported.write(start..middle, &mut out);
            exported.write(middle..end, &mut out);
            assert!(out[1..] == bytes(start..end, width), "{start}..{end}");
        }
        assert!(kv.export(0..len + 1).is_none());
    }

    #[test]
    fn what_is_appended_is_written_whatever_the_cuts() {
        check::<f16>();
        check::<f32>();
    }

    #[test]
    fn an_export_stays_when_a_fork_continues() {
        let store = Arc::new(PagePool::<f16>::new(SHAPE));
        let width = SHAPE.bytes_per_token::<f16>();
        let mut kv = CpuKv::new(store);
        kv.import(40, &bytes(0..40, width)).unwrap();
        let exported = kv.export(10..40).unwrap();
        let mut fork = kv.fork(20);
        fork.import(30, &bytes(500..530, width)).unwrap();
        kv.import(9, &bytes(900..909, width)).unwrap();
        let mut out = Vec::new();
        exported.write(10..40, &mut out);
        assert!(out == bytes(10..40, width));
        let mut other = Vec::new();
        fork.export(15..25).unwrap().write(15..25, &mut other);
        assert!(other == [bytes(15..20, width), bytes(500..505, width)].concat());
    }

    #[test]
    fn bytes_of_another_size_are_refused() {
        let mut kv = CpuKv::new(Arc::new(PagePool::<f16>::new(SHAPE)));
        for (count, size) in [(1, 1), (2, SHAPE.bytes_per_token::<f16>()), (usize::MAX, 8)] {
            assert!(kv.import(count, &vec![0; size]).is_err());
        }
        assert_eq!(kv.len(), 0);
    }
}
