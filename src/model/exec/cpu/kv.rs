//! Key/value memory of sequences: pages of a fixed number of tokens, shared by forks.

mod export;

use std::{
    collections::BTreeMap,
    io, mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    KvElement,
    kernels::{
        attention::{KvTile, PAIR, Pair, STRIP},
        huge_page_arena::{Arena, Slice},
    },
};
use crate::{
    lock::IgnorePoison as _,
    model::exec::{ExecError, KvCache, KvExport},
};

/// Bytes of contiguous keys of one layer and head in a page, followed by as many of values. Longer
/// runs are read faster; the cost of a fork's copy and the waste in the last page grow with them.
const STRETCH: usize = 32 << 10;

/// Strips of a page at most.
const STRIPS_MAX: usize = 8;

/// Unused pages that the pool keeps before it returns memory to the system.
const SPARE_PAGES_MAX: usize = 64;

/// The page layout of one model.
#[derive(Debug, Clone, Copy)]
pub(super) struct KvShape {
    pub(super) layer_count: usize,
    /// Key heads, and as many of values.
    pub(super) head_count: usize,
    /// Elements of a head, with padding: whole pairs of vectors.
    pub(super) head_dim: usize,
}

impl KvShape {
    /// Pairs of vectors of a strip's keys, and as many of its values.
    fn strip_pairs(self) -> usize {
        self.head_dim * STRIP / PAIR
    }

    /// Bytes of one token over all layers.
    pub(super) fn bytes_per_token<E>(self) -> usize {
        self.layer_count * self.head_count * 2 * self.head_dim * size_of::<E>()
    }

    /// Strips of a page, for each layer and head.
    fn strips<E>(self) -> usize {
        let strip = self.strip_pairs() * size_of::<Pair<E>>();
        (STRETCH / strip).clamp(1, STRIPS_MAX)
    }
}

/// The pool from which KV caches take pages and to which they return them.
pub(super) struct PagePool<E> {
    pub(super) shape: KvShape,
    /// Strips of a page, for each layer and head.
    strips: usize,
    pages: Mutex<Pages<E>>,
}

struct Pages<E> {
    arena: Arena,
    spare: Vec<Slice<Pair<E>>>,
}

impl<E: KvElement> PagePool<E> {
    pub(super) fn new(shape: KvShape) -> Self {
        Self {
            shape,
            strips: shape.strips::<E>(),
            pages: Mutex::new(Pages {
                arena: Arena::new(),
                spare: Vec::new(),
            }),
        }
    }

    /// Tokens of a page.
    pub(super) fn page_tokens(&self) -> usize {
        self.strips * STRIP
    }

    /// Bytes of a page.
    fn page_bytes(&self) -> usize {
        self.page_tokens() * self.shape.bytes_per_token::<E>()
    }

    fn pages(&self) -> MutexGuard<'_, Pages<E>> {
        // A thread that panicked left a list of whole pages.
        self.pages.lock().ignore_poison()
    }

    fn page(self: &Arc<Self>) -> io::Result<Page<E>> {
        let mut pages = self.pages();
        let pairs = match pages.spare.pop() {
            Some(pairs) => pairs,
            None => pages
                .arena
                .zeroed(self.page_bytes() / size_of::<Pair<E>>())?,
        };
        drop(pages);
        Ok(Page {
            pairs,
            home: Arc::clone(self),
        })
    }
}

impl<E: KvElement> Pages<E> {
    /// Returns an unused page to the pool. If the pool is full, pages whose whole chunk is unused
    /// are freed.
    fn keep(&mut self, page: Slice<Pair<E>>) {
        self.spare.push(page);
        if !self.spare.len().is_multiple_of(SPARE_PAGES_MAX) {
            return;
        }
        let mut counts = BTreeMap::new();
        for page in &self.spare {
            *counts.entry(page.chunk()).or_insert(0) += 1;
        }
        counts.retain(|chunk, count| {
            let one = self.spare.iter().find(|page| page.chunk() == *chunk);
            one.is_some_and(|page| !page.has_others_than(*count))
        });
        self.spare
            .retain(|page| !counts.contains_key(&page.chunk()));
    }
}

/// Some tokens of all layers and heads: `[layer][head][keys, values][strip]`, as
/// [`super::kernels::attention`] draws them.
pub(super) struct Page<E: KvElement> {
    pairs: Slice<Pair<E>>,
    home: Arc<PagePool<E>>,
}
impl<E: KvElement> Page<E> {
    fn copy(&self) -> io::Result<Self> {
        let mut copy = self.home.page()?;
        copy.pairs.copy_from_slice(&self.pairs);
        Ok(copy)
    }

    /// Returns the offsets of a tile's keys and values in the page.
    fn places(&self, layer: usize, head: usize, strip: usize) -> [usize; 2] {
        let shape = self.home.shape;
        let number = 2 * (layer * shape.head_count + head);
        [number, number + 1].map(|both| (both * self.home.strips + strip) * shape.strip_pairs())
    }

    /// Returns a tile of a layer and KV head, by its number in the page.
    fn strip(&self, layer: usize, head: usize, strip: usize) -> KvTile<'_, E> {
        let len = self.home.shape.strip_pairs();
        let [keys, values] = self.places(layer, head, strip);
        KvTile {
            keys: &self.pairs[keys..keys + len],
            values: &self.pairs[values..values + len],
        }
    }

    /// The same, to write: keys `[element]`, values `[token][element / 32]`.
    pub(super) fn strip_mut(
        &mut self,
        layer: usize,
        head: usize,
        strip: usize,
    ) -> (&mut [Pair<E>], &mut [Pair<E>]) {
        let len = self.home.shape.strip_pairs();
        let [keys, values] = self.places(layer, head, strip);
        let (before, after) = self.pairs.split_at_mut(values);
        (&mut before[keys..keys + len], &mut after[..len])
    }
}

impl<E: KvElement> Drop for Page<E> {
    fn drop(&mut self) {
        self.home.pages().keep(mem::take(&mut self.pairs));
    }
}

/// The KV cache of one sequence.
///
/// A fork shares all pages. A sequence that appends to a shared page, which can only be the last
/// one, copies that page first.
pub struct CpuKv<E: KvElement> {
    pages: Vec<Arc<Page<E>>>,
    len: usize,
    store: Arc<PagePool<E>>,
}

impl<E: KvElement> CpuKv<E> {
    pub(super) fn new(store: Arc<PagePool<E>>) -> Self {
        Self {
            pages: Vec::new(),
            len: 0,
            store,
        }
    }

    /// Makes room for `count` more tokens and counts them as cached; every layer must then write
    /// them.
    ///
    /// # Errors
    /// If memory runs out; nothing has changed then.
    pub(super) fn extend(&mut self, count: usize) -> io::Result<()> {
        let (len, held) = (self.len + count, self.pages.len());
        if let Some(last) = self.pages.get_mut(self.len / self.store.page_tokens())
            && Arc::get_mut(last).is_none()
        {
            *last = Arc::new(last.copy()?);
        }
        while self.pages.len() * self.store.page_tokens() < len {
            match self.store.page() {
                Ok(page) => self.pages.push(Arc::new(page)),
                Err(error) => {
                    self.pages.truncate(held);
                    return Err(error);
                }
            }
        }
        self.len = len;
        Ok(())
    }

    /// The strip of tokens `STRIP · number` and following.
    pub(super) fn strip(&self, layer: usize, head: usize, number: usize) -> KvTile<'_, E> {
        let strips = self.store.strips;
        self.pages[number / strips].strip(layer, head, number % strips)
    }

    /// Tokens of a page.
    pub(super) fn page_tokens(&self) -> usize {
        self.store.page_tokens()
    }

    /// The pages of tokens `from` and following, which [`Self::extend`] made this memory's own.
    pub(super) fn newest(&mut self, from: usize) -> &mut [Arc<Page<E>>] {
        let first = from / self.page_tokens();
        &mut self.pages[first..]
    }
}

impl<E: KvElement> KvCache for CpuKv<E> {
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        self.pages.len() * self.store.page_bytes()
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        let pages = self.len.div_ceil(self.store.page_tokens());
        self.pages.truncate(pages);
    }

    fn fork(&self, len: usize) -> Self {
        let len = len.min(self.len);
        Self {
            pages: self.pages[..len.div_ceil(self.store.page_tokens())].to_vec(),
            len,
            store: Arc::clone(&self.store),
        }
    }

    fn export(&self, tokens: Range<usize>) -> Option<Box<dyn KvExport>> {
        (tokens.end <= self.len).then(|| export::of(self, tokens))
    }

    fn import(&mut self, tokens: usize, bytes: &[u8]) -> Result<(), ExecError> {
        export::append(self, tokens, bytes)
    }
}
