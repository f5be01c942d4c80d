//! Executors, which run a [`DecoderSpec`](super::spec::DecoderSpec): the interface between the
//! engine and devices.

pub mod cpu;
pub mod mlx;
mod rope_frequencies;
mod tensors;

use std::ops::Range;

use crate::id::TokenId;

/// A loaded model on one device. It lives on the engine's thread only; its arrays never leave it.
pub trait Executor {
    /// Key/value memory of one sequence.
    type Kv: KvCache;

    /// Number of tokens in the vocabulary: the width of a row of logits.
    fn vocab_size(&self) -> usize;

    /// Largest number of tokens of one sequence.
    fn context_length(&self) -> usize;

    /// Returns the bytes of the KV cache of one token.
    fn kv_bytes_per_token(&self) -> usize;

    /// Empty memory for a new sequence.
    fn new_kv(&self) -> Self::Kv;

    /// Returns the format of the bytes of [`KvExport::write`]; `None` if KV caches cannot be
    /// exported.
    fn kv_format(&self) -> Option<KvFormat> {
        None
    }

    /// Runs one step over all slots, prefill chunks and decoding sequences alike. Appends each
    /// slot's tokens to its KV cache. Clears `logits` and writes the last `logit_rows` rows of each
    /// slot, `[slot][row][vocab_size]`.
    ///
    /// # Errors
    /// If the device fails. The KV caches of the slots are then undefined and must be dropped. So
    /// must caches that share pages with them: forks that have not been extended since.
    fn step(
        &mut self,
        slots: &mut [Slot<'_, Self::Kv>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError>;
}

/// One sequence's part of a step.
pub struct Slot<'a, K> {
    /// The tokens to run, at least one; the first stands at position `kv.len()`.
    pub tokens: &'a [TokenId],
    /// The sequence's memory, extended by the step.
    pub kv: &'a mut K,
    /// Number of last tokens whose logits are needed; at most the number of tokens.
    pub logit_rows: usize,
}

/// Key/value memory of one sequence, known to the cache and the scheduler by its length only.
pub trait KvCache: Sized {
    /// Number of tokens held.
    fn len(&self) -> usize;

    /// True if nothing is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held alone or shared.
    fn bytes(&self) -> usize;

    /// Returns a cache with the first `len` tokens of this one; shares pages where possible.
    fn fork(&self, len: usize) -> Self;

    /// Drops all but the first `len` tokens.
    fn truncate(&mut self, len: usize) {
        *self = self.fork(len);
    }

    /// The keys and values of some of its tokens, as they are now, for another thread to write down;
    /// `None` where they cannot be had.
    fn export(&self, tokens: Range<usize>) -> Option<Box<dyn KvExport>> {
        let _ = tokens;
        None
    }

    /// Appends `tokens` tokens from bytes that [`KvExport::write`] wrote for a cache of the same
    /// [`KvFormat`].
    ///
    /// # Errors
    /// If the bytes have the wrong size, or memory runs out. The cache must then be dropped.
    fn import(&mut self, tokens: usize, bytes: &[u8]) -> Result<(), ExecError> {
        let _ = (tokens, bytes);
        Err(ExecError("this memory cannot be read from bytes".into()))
    }
}

/// Keys and values that no longer change, to be written down on any thread.
pub trait KvExport: Send {
    /// Appends a range of the exported tokens to `out`: `[token][layer][keys,
    /// values][head][element]`, little-endian, as [`KvFormat`] says.
    fn write(&self, tokens: Range<usize>, out: &mut Vec<u8>);
}

/// The format of exported KV bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KvFormat {
    /// The layout of one token.
    pub layout: KvLayout,
    /// Identifies the computation, as far as the last bits of its results depend on it.
    pub compute_id: String,
}

/// The keys and values of one token: `[layer][keys, values][head][element]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvLayout {
    /// Number of layers.
    pub layers: usize,
    /// Key heads, and as many of values.
    pub heads: usize,
    /// Elements of a head, with any padding.
    pub head_dim: usize,
    /// The type of an element.
    pub element: KvElementType,
}

impl KvLayout {
    /// Bytes of one token.
    #[must_use]
    pub fn bytes_per_token(self) -> usize {
        self.layers * 2 * self.heads * self.head_dim * self.element.bytes()
    }
}

/// The type of an element of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvElementType {
    /// IEEE 16-bit floats.
    F16,
    /// Brain 16-bit floats.
    Bf16,
    /// 32-bit floats.
    F32,
}

impl KvElementType {
    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }

    /// Returns the type's name in safetensors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
        }
    }
}

/// A device failed; the text is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ExecError(pub String);

/// Checks a step's slots, so that an executor does not read beyond its arrays.
fn check_slots<K: KvCache>(
    slots: &[Slot<'_, K>],
    context_length: usize,
    vocab_size: usize,
) -> Result<(), ExecError> {
    for slot in slots {
        if slot.tokens.is_empty() {
            return Err(ExecError("a slot has no tokens".into()));
        }
        if slot.logit_rows > slot.tokens.len() {
            let what = "a slot wants logits of tokens that it does not run";
            return Err(ExecError(what.into()));
        }
        let end = slot.kv.len() + slot.tokens.len();
        if end > context_length {
            let what = format!("{end} tokens exceed the context of {context_length}");
            return Err(ExecError(what));
        }
        let is_foreign = |token: &&TokenId| **token as usize >= vocab_size;
        if let Some(token) = slot.tokens.iter().find(is_foreign) {
            let what = format!("token {token} is not in the vocabulary of {vocab_size}");
            return Err(ExecError(what));
        }
    }
    Ok(())
}
