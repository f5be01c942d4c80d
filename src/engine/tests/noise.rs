//! A model whose logits depend on every token before, so that a token lost, repeated, misplaced or
//! read from another sequence changes the answer.

use std::{cell::RefCell, ops::Range, rc::Rc};

use crate::{
    id::TokenId,
    model::exec::{
        ExecError, Executor, KvCache, KvElementType, KvExport, KvFormat, KvLayout, Slot,
    },
};

/// Vocabulary size.
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

/// A KV cache that is shared and extended as a device's buffers are. The fork that stands at the
/// end extends in place, which others do not see; other forks copy.
pub(super) struct NoiseKv {
    buffer: Rc<RefCell<Vec<TokenId>>>,
    len: usize,
}

impl NoiseKv {
    fn tokens(&self) -> Vec<TokenId> {
        self.buffer.borrow()[..self.len].to_vec()
    }

    fn extend(&mut self, tokens: &[TokenId]) {
        if self.buffer.borrow().len() != self.len {
            self.buffer = Rc::new(RefCell::new(self.tokens()));
        }
        self.buffer.borrow_mut().extend_from_slice(tokens);
        self.len += tokens.len();
    }
}

impl KvCache for NoiseKv {
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        self.buffer.borrow().len()
    }

    fn fork(&self, len: usize) -> Self {
        assert!(len <= self.len, "a fork of {len} of {} tokens", self.len);
        Self {
            buffer: Rc::clone(&self.buffer),
            len,
        }
    }

    fn export(&self, tokens: Range<usize>) -> Option<Box<dyn KvExport>> {
        Some(Box::new(TokensExport {
            first: tokens.start,
            tokens: self.tokens()[tokens].to_vec(),
        }))
    }

    fn import(&mut self, tokens: usize, bytes: &[u8]) -> Result<(), ExecError> {
        let read: Vec<TokenId> = bytes.chunks_exact(8).map(token_of).collect();
        assert_eq!((read.len(), bytes.len()), (tokens, 8 * tokens));
        self.extend(&read);
        Ok(())
    }
}

/// Half of a token is its key, half its value.
struct TokensExport {
    first: usize,
    tokens: Vec<TokenId>,
}

impl KvExport for TokensExport {
    fn write(&self, tokens: Range<usize>, out: &mut Vec<u8>) {
        for token in &self.tokens[tokens.start - self.first..tokens.end - self.first] {
            out.extend((token / 8).to_le_bytes());
            out.extend((token % 8).to_le_bytes());
        }
    }
}

fn token_of(both: &[u8]) -> TokenId {
    let [key, value] = [&both[..4], &both[4..]].map(|half| {
        let half: [u8; 4] = half.try_into().expect("four bytes");
        TokenId::from_le_bytes(half)
    });
    key * 8 + value
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
        NoiseKv {
            buffer: Rc::default(),
            len: 0,
        }
    }

    fn kv_format(&self) -> Option<KvFormat> {
        Some(KvFormat {
            layout: KvLayout {
                layers: 1,
                heads: 1,
                head_dim: 1,
                element: KvElementType::F32,
            },
            compute_id: "noise".to_owned(),
        })
    }

    fn step(
        &mut self,
        slots: &mut [Slot<'_, NoiseKv>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ExecError> {
        logits.clear();
        for slot in slots {
            if !slot.tokens.contains(&FORGOTTEN) {
                slot.kv.extend(slot.tokens);
            }
            if !slot.tokens.contains(&OMITTED) {
                let tokens = slot.kv.tokens();
                let wanted = tokens.len().saturating_sub(slot.logit_rows)..tokens.len();
                wanted.for_each(|last| logits.extend(row(&tokens[..=last])));
            }
        }
        Ok(())
    }
}

/// Returns logits from -4 to 4 from a hash of all tokens. The special tokens are nearly impossible.
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

/// SplitMix64 finaliser.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
