//! What tells one prefix of tokens from another: a small number to find it by, a hash to be sure.

use sha2::{Digest as _, Sha256};

use crate::{cache::CacheScope, id::TokenId};

/// Whose tokens they are: a model's, as a digest of all that its keys and values depend on, and
/// within it a scope's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Realm {
    pub(super) model: [u8; 32],
    pub(super) scope: CacheScope,
}

/// A number that grows with tokens. Two prefixes may have the same, so it only finds candidates.
/// It is kept in files, so it must never change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rolling(u64);

impl Rolling {
    pub(super) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn push(&mut self, token: TokenId) {
        let mixed = (self.0 ^ u64::from(token)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 29);
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }

    pub(super) fn of(tokens: &[TokenId]) -> u64 {
        let mut rolling = Self::new();
        tokens.iter().for_each(|&token| rolling.push(token));
        rolling.value()
    }
}

/// SHA-256 over the first tokens, for each of these lengths, which must rise.
pub(super) fn hashes(
    tokens: &[TokenId],
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut done = 0;
    let hash = |length: usize| {
        for token in tokens.get(done..length).unwrap_or_default() {
            hasher.update(token.to_le_bytes());
        }
        done = length;
        hasher.clone().finalize().into()
    };
    lengths.into_iter().map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_prefixes() {
        let tokens: Vec<TokenId> = (0..50).collect();
        let all = hashes(&tokens, [0, 7, 50]);
        for (length, hash) in [0, 7, 50].into_iter().zip(all) {
            assert_eq!(hashes(&tokens[..length], [length]), [hash]);
        }
        assert_ne!(hashes(&[1, 2], [2]), hashes(&[2, 1], [2]));
    }

    #[test]
    fn the_number_in_files_does_not_change() {
        assert_eq!(Rolling::of(&[]), 0x9e37_79b9_7f4a_7c15);
        assert_ne!(Rolling::of(&[1, 2]), Rolling::of(&[2, 1]));
        assert_eq!(Rolling::of(&[1, 2, 3]), GOLDEN);
    }

    const GOLDEN: u64 = 0x5f47_20be_d097_035e;
}
