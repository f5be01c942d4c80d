//! Key/value memory of sequences: buffers that grow in place and are shared by forks.

mod export;

use std::{cell::RefCell, ops::Range, rc::Rc};

use mlx_rs::{Array, Dtype as ArrayType, ops};

use super::array::{Result, dim, slice, updated};
use crate::model::exec::{ExecError, KvCache, KvExport};

/// Tokens by which buffers grow at least.
const GROWTH_MIN: usize = 256;

/// The buffer layout of one model.
#[derive(Debug, Clone, Copy)]
pub(super) struct KvShape {
    pub(super) layer_count: usize,
    pub(super) head_count: usize,
    pub(super) head_dim: usize,
    pub(super) dtype: ArrayType,
}

impl KvShape {
    /// Bytes of one token over all layers.
    pub(super) fn bytes_per_token(&self) -> usize {
        2 * self.layer_count * self.head_count * self.head_dim * item_size(self.dtype)
    }
}

fn item_size(dtype: ArrayType) -> usize {
    if dtype == ArrayType::Float32 { 4 } else { 2 }
}

/// The KV cache of one sequence.
///
/// A fork shares the buffers. The sequence at their end extends them in place; other forks do not
/// notice, because each reads its own first tokens only. Any other sequence copies first.
pub struct MlxKv {
    buffers: Rc<RefCell<Buffers>>,
    len: usize,
}

impl MlxKv {
    pub(super) fn new(shape: KvShape) -> Self {
        Self {
            buffers: Rc::new(RefCell::new(Buffers::new(shape))),
            len: 0,
        }
    }

    /// Makes room for `count` more tokens and counts them as held; [`Self::append`] must then fill
    /// it for every layer.
    pub(super) fn extend(&mut self, count: usize) -> Result<()> {
        let end = self.len + count;
        if self.buffers.borrow().used != self.len {
            let copy = self.buffers.borrow().copy(self.len, end)?;
            self.buffers = Rc::new(RefCell::new(copy));
        }
        let mut buffers = self.buffers.borrow_mut();
        buffers.reserve(end)?;
        buffers.used = end;
        self.len = end;
        Ok(())
    }

    /// Writes the newest keys and values of a layer, `[tokens, 2 · heads, dim]`, keys before
    /// values, and gives the whole buffer `[1, 2 · heads, capacity, dim]`.
    pub(super) fn append(&mut self, layer: usize, newest: &Array) -> Result<Array> {
        let buffer = &mut self.buffers.borrow_mut().layers[layer];
        let count = newest.dim(0) as usize;
        let by_head = newest.transpose_axes(&[1, 0, 2])?.expand_dims(0)?;
        *buffer = updated(buffer, &by_head, 2, self.len - count)?;
        Ok(buffer.clone())
    }

    /// Hands all arrays to `visit`, for evaluation.
    pub(super) fn visit(&self, mut visit: impl FnMut(&Array)) {
        self.buffers.borrow().layers.iter().for_each(&mut visit);
    }
}

impl KvCache for MlxKv {
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        let buffers = self.buffers.borrow();
        buffers.capacity * buffers.shape.bytes_per_token()
    }

    fn truncate(&mut self, len: usize) {
        let len = self.len.min(len);
        let mut buffers = self.buffers.borrow_mut();
        if buffers.used == self.len && buffers.shared <= len {
            buffers.used = len;
        }
        self.len = len;
    }

    fn fork(&self, len: usize) -> Self {
        let mut buffers = self.buffers.borrow_mut();
        buffers.shared = buffers.shared.max(self.len);
        drop(buffers);
        Self {
            buffers: Rc::clone(&self.buffers),
            len: len.min(self.len),
        }
    }

    fn export(&self, tokens: Range<usize>) -> Option<Box<dyn KvExport>> {
        if tokens.is_empty() || tokens.end > self.len {
            return None;
        }
        let exported = export::of(self, tokens);
        exported
            .inspect_err(|error| tracing::error!(%error, "KV cache export failed"))
            .ok()
    }

    fn import(&mut self, tokens: usize, bytes: &[u8]) -> std::result::Result<(), ExecError> {
        export::append(self, tokens, bytes)
    }
}

/// Buffers of all layers, all of one capacity.
struct Buffers {
    shape: KvShape,
    /// Keys and values of each layer, `[1, 2 · heads, capacity, dim]`.
    layers: Vec<Array>,
    /// Tokens that there is room for.
    capacity: usize,
    /// Tokens written.
    used: usize,
    /// Tokens that more than one sequence may look at.
    shared: usize,
}

impl Buffers {
    fn new(shape: KvShape) -> Self {
        Self {
            shape,
            layers: Vec::new(),
            capacity: 0,
            used: 0,
            shared: 0,
        }
    }

    /// The first `len` tokens in new buffers with room for `capacity`.
    fn copy(&self, len: usize, capacity: usize) -> Result<Self> {
        let mut copy = Self::new(self.shape);
        copy.reserve(capacity)?;
        if len == 0 {
            return Ok(copy);
        }
        for (new, old) in copy.layers.iter_mut().zip(&self.layers) {
            *new = updated(new, &slice(old, 2, 0..len)?, 2, 0)?;
        }
        copy.used = len;
        Ok(copy)
    }

    /// Grows to at least `capacity` tokens, by an eighth at least, so that copying stays
    /// proportional to writing.
    fn reserve(&mut self, capacity: usize) -> Result<()> {
        if capacity <= self.capacity {
            return Ok(());
        }
        let wanted = capacity.max(self.capacity + self.capacity / 8);
        let grown = wanted.next_multiple_of(GROWTH_MIN);
        let empty = |tokens| {
            let KvShape {
                head_count,
                head_dim,
                dtype,
                ..
            } = self.shape;
            ops::zeros_dtype(&[1, dim(2 * head_count), dim(tokens), dim(head_dim)], dtype)
        };
        if self.layers.is_empty() {
            self.layers = (0..self.shape.layer_count)
                .map(|_| empty(grown))
                .collect::<Result<_>>()?;
        } else {
            let added = grown - self.capacity;
            for buffer in &mut self.layers {
                *buffer = ops::concatenate(&[&*buffer, &empty(added)?], 2)?;
            }
        }
        self.capacity = grown;
        Ok(())
    }
}
