//! What runs a [`DecoderSpec`](super::spec::DecoderSpec): the seam between the engine and devices.

pub mod cpu;
pub mod mlx;
mod rope;
mod tensors;

use crate::id::TokenId;

/// A loaded model on one device. Lives on the engine's thread only; its arrays never leave it.
pub trait Executor {
    /// Key/value memory of one sequence.
    type Kv: KvMemory;

    /// Number of tokens in the vocabulary: the width of a row of logits.
    fn vocab_size(&self) -> usize;

    /// Largest number of tokens of one sequence.
    fn context_length(&self) -> usize;

    /// Bytes of key/value memory that one token takes.
    fn kv_bytes_per_token(&self) -> usize;

    /// Empty memory for a new sequence.
    fn new_kv(&self) -> Self::Kv;

    /// Runs one step over all slots at once, prefill chunks and decoding sequences alike: appends
    /// each slot's tokens to its memory and writes the logits after the last tokens of each slot, as
    /// many as it wants, one row of `vocab_size` a token, in the order of slots and tokens, into
    /// `logits` (cleared first).
    ///
    /// # Errors
    /// When the device fails. The memories of the slots are then undefined and must be dropped, and
    /// so must memories that share with them: forks that have not been extended since.
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
    /// How many of the last tokens' logits are needed; at most as many as there are tokens.
    pub wanted: usize,
}

/// Key/value memory of one sequence, known to the cache and the scheduler by its length only.
pub trait KvMemory: Sized {
    /// Number of tokens held.
    fn len(&self) -> usize;

    /// Whether nothing is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held alone or shared.
    fn bytes(&self) -> usize;

    /// A memory with the first `len` tokens of this one; shares what it can.
    fn fork(&self, len: usize) -> Self;

    /// Drops all but the first `len` tokens.
    fn truncate(&mut self, len: usize) {
        *self = self.fork(len);
    }
}

/// A device failed; the text is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ExecError(pub String);

/// Refuses a step that an executor would read beyond its arrays for.
fn check_slots<K: KvMemory>(
    slots: &[Slot<'_, K>],
    context_length: usize,
    vocab_size: usize,
) -> Result<(), ExecError> {
    for slot in slots {
        if slot.tokens.is_empty() {
            return Err(ExecError("a slot has no tokens".into()));
        }
        if slot.wanted > slot.tokens.len() {
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
