//! Key/value memory of sequences: pages of 32 tokens, shared by forks.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    KvElement,
    kernels::attention::{PAGE, PAIR, Pair, Strip},
};
use crate::model::exec::KvMemory;

/// Pages that are kept for later when nobody holds them.
const SPARE_PAGES_MAX: usize = 64;

/// What every page of one model has in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct KvShape {
    pub(super) layer_count: usize,
    /// Key heads, and as many of values.
    pub(super) head_count: usize,
    /// Elements of a head, with padding: whole pairs of vectors.
    pub(super) head_dim: usize,
}

impl KvShape {
    /// Pairs of vectors of one head's keys in a page, and as many of its values.
    fn head_pairs(self) -> usize {
        self.head_dim * PAGE / PAIR
    }

    /// Pairs of vectors of a page.
    fn pairs(self) -> usize {
        self.layer_count * self.head_count * 2 * self.head_pairs()
    }

    /// Bytes of one token over all layers.
    pub(super) fn bytes_per_token<E>(self) -> usize {
        self.pairs() * PAIR / PAGE * size_of::<E>()
    }
}

/// Where memories take pages from and leave them.
pub(super) struct Store<E> {
    pub(super) shape: KvShape,
    spare: Mutex<Vec<Vec<Pair<E>>>>,
}

impl<E: KvElement> Store<E> {
    pub(super) fn new(shape: KvShape) -> Self {
        Self {
            shape,
            spare: Mutex::new(Vec::with_capacity(SPARE_PAGES_MAX)),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<Pair<E>>>> {
        // Whoever panicked left a list of whole pages.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(self: &Arc<Self>) -> Page<E> {
        let spare = self.spare().pop();
        Page {
            pairs: spare.unwrap_or_else(|| vec![Pair::default(); self.shape.pairs()]),
            home: Arc::clone(self),
        }
    }
}

/// 32 tokens of all layers and heads: `[layer][head]` of keys and values as
/// [`super::kernels::attention`] draws them.
pub(super) struct Page<E: KvElement> {
    pairs: Vec<Pair<E>>,
    home: Arc<Store<E>>,
}

impl<E: KvElement> Page<E> {
    fn copy(&self) -> Self {
        let mut copy = self.home.page();
        copy.pairs.copy_from_slice(&self.pairs);
        copy
    }

    fn place(&self, layer: usize, head: usize) -> Range<usize> {
        let shape = self.home.shape;
        let len = 2 * shape.head_pairs();
        let number = layer * shape.head_count + head;
        number * len..(number + 1) * len
    }

    /// What the page holds for a layer and a key head.
    pub(super) fn strip(&self, layer: usize, head: usize) -> Strip<'_, E> {
        let both = &self.pairs[self.place(layer, head)];
        let (keys, values) = both.split_at(both.len() / 2);
        Strip { keys, values }
    }

    /// The same, to write: keys `[element]`, values `[token][element / 32]`.
    pub(super) fn strip_mut(
        &mut self,
        layer: usize,
        head: usize,
    ) -> (&mut [Pair<E>], &mut [Pair<E>]) {
        let place = self.place(layer, head);
        let middle = place.len() / 2;
        self.pairs[place].split_at_mut(middle)
    }
}

impl<E: KvElement> Drop for Page<E> {
    fn drop(&mut self) {
        let mut spare = self.home.spare();
        if spare.len() < SPARE_PAGES_MAX {
            spare.push(std::mem::take(&mut self.pairs));
        }
    }
}

/// Keys and values of one sequence.
///
/// A fork shares all pages. Whoever extends a page that it shares, which is the last one if at all,
/// copies that page first.
pub struct CpuKv<E: KvElement> {
    pages: Vec<Arc<Page<E>>>,
    len: usize,
    store: Arc<Store<E>>,
}

impl<E: KvElement> CpuKv<E> {
    pub(super) fn new(store: Arc<Store<E>>) -> Self {
        Self {
            pages: Vec::new(),
            len: 0,
            store,
        }
    }

    /// Makes room for `count` more tokens and counts them as held; every layer must then write
    /// them.
    pub(super) fn extend(&mut self, count: usize) {
        if let Some(last) = self.pages.get_mut(self.len / PAGE)
            && Arc::get_mut(last).is_none()
        {
            *last = Arc::new(last.copy());
        }
        self.len += count;
        while self.pages.len() * PAGE < self.len {
            self.pages.push(Arc::new(self.store.page()));
        }
    }

    pub(super) fn page(&self, number: usize) -> &Page<E> {
        &self.pages[number]
    }

    /// The pages of tokens `from` and following, which [`Self::extend`] made this memory's own.
    pub(super) fn newest(&mut self, from: usize) -> &mut [Arc<Page<E>>] {
        &mut self.pages[from / PAGE..]
    }
}

impl<E: KvElement> KvMemory for CpuKv<E> {
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        self.pages.len() * PAGE * self.store.shape.bytes_per_token::<E>()
    }

    fn fork(&self, len: usize) -> Self {
        let len = len.min(self.len);
        Self {
            pages: self.pages[..len.div_ceil(PAGE)].to_vec(),
            len,
            store: Arc::clone(&self.store),
        }
    }
}
