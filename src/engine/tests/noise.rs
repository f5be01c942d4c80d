//! A model whose logits depend on every token before, so that a token lost, repeated, misplaced or
//! read from another sequence changes the answer.

use crate::{
    id::TokenId,
    model::exec::{ExecError, Executor, KvMemory, Slot},
};

/// Vocabulary of the model.
pub(super) const VOCAB_SIZE: usize = 64;
/// A prompt with this token gets logits that are not numbers.
pub(super) const POISON: TokenId = 63;
/// A prompt with this token gets no logits at all.
pub(super) const OMITTED: TokenId = 62;
/// A prompt with this token is not remembered.
pub(super) const FORGOTTEN: TokenId = 61;
/// Tokens below this do no harm.
pub(super) const HARMLESS_END: TokenId = 61;

pub(super) struct NoiseExecutor;

pub(super) struct NoiseKv(Vec<TokenId>);

impl KvMemory for NoiseKv {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn fork(&self, len: usize) -> Self {
        Self(self.0[..len].to_vec())
    }
}

impl Executor for NoiseExecutor {
    type Kv = NoiseKv;

    fn vocab_size(&self) -> usize {
        VOCAB_SIZE
    }

    fn context_length(&self) -> usize {
        512
    }

    fn kv_bytes_per_token(&self) -> usize {
        1
    }

    fn new_kv(&self) -> NoiseKv {
        NoiseKv(Vec::new())
    }

    fn step(
        &mut self,
        slots: &mut [Slot<'_, NoiseKv>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        logits.clear();
        for slot in slots {
            if !slot.tokens.contains(&FORGOTTEN) {
                slot.kv.0.extend_from_slice(slot.tokens);
            }
            if slot.wants_logits && !slot.tokens.contains(&OMITTED) {
                logits.extend(row(&slot.kv.0));
            }
        }
        Ok(())
    }
}

/// Logits from -4 to 4 out of a hash of all tokens; those that do harm are all but impossible.
fn row(tokens: &[TokenId]) -> impl Iterator<Item = f32> {
    let poisoned = tokens.contains(&POISON);
    let hash = tokens
        .iter()
        .fold(1, |hash: u64, &token| mixed(hash ^ u64::from(token)));
    (0..VOCAB_SIZE as TokenId).map(move |id| match id {
        _ if poisoned => f32::NAN,
        HARMLESS_END.. => -1000.0,
        _ => (mixed(hash ^ u64::from(id)) >> 40) as f32 / 2.0f32.powi(21) - 4.0,
    })
}

/// The finaliser of SplitMix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
