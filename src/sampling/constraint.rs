//! Constraints: token masks for the sampler.

use std::{
    fmt::Debug,
    task::{Context, Poll},
};

use super::workspace::Workspace;
use crate::id::TokenId;

/// Computes the token masks of one sequence.
///
/// A mask may take a while and must not be computed on the caller's thread. As with a future, a
/// caller that polls too early is woken when the mask is ready.
pub trait Constraint: Send + Debug {
    /// Returns the token mask after the last [accepted](Self::poll_accept) token, or at the start.
    /// The sequence may have `left` more tokens, at least one.
    ///
    /// # Errors
    /// If the mask cannot be computed, or no token may follow; the sequence then ends.
    fn poll_mask(
        &mut self,
        left: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<TokenMask<'_>, ConstraintError>>;

    /// Accepts a sampled token. It must be in the mask with as many tokens left, itself included,
    /// and no EOS token.
    ///
    /// `false` rejects the token, because its shortest completion does not fit: the next mask
    /// excludes it.
    fn poll_accept(&mut self, token: TokenId, left: usize, context: &mut Context<'_>)
    -> Poll<bool>;
}

/// A token mask.
#[derive(Debug, Clone, Copy)]
pub enum TokenMask<'a> {
    /// Every token.
    All,
    /// The tokens of a set, which is not empty.
    Only(&'a TokenBitmask),
}

/// The reason why a constrained sequence ends; the text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(pub String);

/// A set of tokens, a bit for each. Tokens beyond its end are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenBitmask {
    words: Vec<u32>,
}

impl TokenBitmask {
    /// Builds the set of the tokens whose bits are set, the lowest id in the lowest bit of the
    /// first word.
    #[must_use]
    pub fn of_words(words: Vec<u32>) -> Self {
        Self { words }
    }

    /// Builds the set of all tokens below `count`.
    #[must_use]
    pub fn all(count: usize) -> Self {
        let mut words = vec![u32::MAX; count.div_ceil(32)];
        if let Some(last) = words.last_mut() {
            *last >>= (32 - count % 32) % 32;
        }
        Self { words }
    }

    /// True if a token is in the set.
    #[must_use]
    pub fn contains(&self, token: TokenId) -> bool {
        let word = self.words.get(token as usize / 32).copied().unwrap_or(0);
        word >> (token % 32) & 1 == 1
    }

    /// Adds a token, if the set is long enough for it.
    pub fn insert(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token as usize / 32) {
            *word |= 1 << (token % 32);
        }
    }

    /// Removes a token.
    pub fn remove(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token as usize / 32) {
            *word &= !(1 << (token % 32));
        }
    }

    /// Returns those of `tokens` that are in this set, as a set of the same length.
    #[must_use]
    pub fn only(&self, tokens: &[TokenId]) -> Self {
        let mut only = Self::of_words(vec![0; self.words.len()]);
        let inside = tokens.iter().filter(|&&token| self.contains(token));
        inside.for_each(|&token| only.insert(token));
        only
    }

    /// Iterates over the tokens, ascending.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> {
        let ids = 0..TokenId::try_from(self.words.len() * 32).unwrap_or(TokenId::MAX);
        ids.filter(|&id| self.contains(id))
    }
}

impl Workspace {
    /// Masks the logits: tokens outside the mask get no probability.
    pub(super) fn allow(&mut self, allowed: TokenMask<'_>) {
        let TokenMask::Only(set) = allowed else {
            return;
        };
        let mut logits = self.values.chunks_mut(32);
        for &word in &set.words {
            let Some(chunk) = logits.next() else {
                return;
            };
            if word == u32::MAX {
                continue;
            }
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        for chunk in logits {
            chunk.fill(f32::NEG_INFINITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = TokenBitmask::of_words(vec![0b101, 0]);
        set.insert(33);
        set.insert(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 33]);
        assert!(set.contains(33) && !set.contains(1) && !set.contains(64));
        assert_eq!(
            set.only(&[33, 1, 2, 64]).iter().collect::<Vec<_>>(),
            [2, 33]
        );
        set.remove(33);
        set.remove(1000);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2]);
        for count in [0, 1, 31, 32, 33] {
            assert_eq!(TokenBitmask::all(count).iter().count(), count);
        }
    }

    #[test]
    fn only_allowed_tokens_keep_their_logits() {
        let kept = |allowed: TokenMask<'_>| {
            let mut work = Workspace::default();
            work.fill(&[1.0; 70]);
            work.allow(allowed);
            let logits = (0u32..).zip(work.values.clone());
            let kept = logits.filter(|&(_, logit)| logit == 1.0);
            kept.map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(kept(TokenMask::All).len(), 70);
        let set = TokenBitmask::of_words(vec![1 << 31, u32::MAX, 1 << 5]);
        let expected: Vec<u32> = [31].into_iter().chain(32..64).chain([69]).collect();
        assert_eq!(kept(TokenMask::Only(&set)), expected);
        let short = TokenBitmask::of_words(vec![0b10]);
        assert_eq!(
            kept(TokenMask::Only(&short)),
            [1],
            "what is beyond the set is out"
        );
    }
}
