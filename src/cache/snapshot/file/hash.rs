//! Hashes of token prefixes: a 64-bit rolling hash to find one, SHA-256 to be sure.

use sha2::{Digest as _, Sha256};

use crate::{cache::CacheScope, id::TokenId};

/// The namespace of tokens: a digest of all that a model's keys and values depend on, and a cache
/// scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Namespace {
    pub(crate) model: [u8; 32],
    pub(crate) scope: CacheScope,
}

/// 64-bit rolling hash of a token prefix. Collisions are possible, so a match is only a candidate.
/// Files store the value, so the function must never change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RollingHash(u64);

impl RollingHash {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn push(&mut self, token: TokenId) {
        let mixed = (self.0 ^ u64::from(token)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 29);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }

    pub(crate) fn of(tokens: &[TokenId]) -> u64 {
        let mut rolling = Self::new();
        tokens.iter().for_each(|&token| rolling.push(token));
        rolling.value()
    }
}

/// Returns the SHA-256 of the token ids in little-endian order.
pub(crate) fn hash(tokens: &[TokenId]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for token in tokens {
        hasher.update(token.to_le_bytes());
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_prefix_has_a_hash_of_its_own() {
        let tokens: Vec<TokenId> = (0..50).collect();
        let all: HashSet<_> = (0..=50).map(|length| hash(&tokens[..length])).collect();
        assert_eq!(all.len(), 51);
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
    }

    #[test]
    fn the_number_in_files_does_not_change() {
        assert_eq!(RollingHash::of(&[]), 0x9e37_79b9_7f4a_7c15);
        assert_ne!(RollingHash::of(&[1, 2]), RollingHash::of(&[2, 1]));
        assert_eq!(RollingHash::of(&[1, 2, 3]), GOLDEN);
    }

    const GOLDEN: u64 = 0x5f47_20be_d097_035e;
}
