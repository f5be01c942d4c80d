//! Resend index: token prefixes that the log has.
//!
//! A client that resends its whole conversation is logged as a fork of its earlier request. So the
//! log does not store the same tokens again.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Mutex,
};

use crate::{
    id::TokenId,
    lock::IgnorePoison as _,
    session::{ForkPoint, SessionId, SessionLog},
    weighted_lru::WeightedLru,
};

/// Most ends of token sequences in the index, some 64 bytes each.
const ENDS_MAX: usize = 1 << 14;

/// Ends of logged token sequences, by a digest of all tokens up to there. It lives in this process
/// only; each hit is checked against the log.
pub(crate) struct ResendIndex {
    ends: Mutex<WeightedLru<u64, End>>,
}

impl Default for ResendIndex {
    fn default() -> Self {
        Self {
            ends: Mutex::new(WeightedLru::new(ENDS_MAX)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    session: SessionId,
    /// Tokens of the session itself up to there.
    own_tokens: usize,
}

/// Scope of a token sequence: tokens belong to one model, and owners share nothing.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct ResendScope<'a> {
    pub(crate) model: &'a str,
    pub(crate) owner: Option<&'a str>,
}

/// A digest of tokens that grows with them.
struct Digest(u64);

impl Digest {
    fn of(scope: ResendScope<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        scope.hash(&mut hasher);
        Self(hasher.finish())
    }

    fn push(&mut self, token: TokenId) {
        let mixed = (self.0 ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

impl ResendIndex {
    /// Adds the ends of a session's prompt and answer. The first `shared` tokens of the prompt are its
    /// parent's.
    pub(crate) fn insert(
        &self,
        scope: ResendScope<'_>,
        session: SessionId,
        prompt: &[TokenId],
        shared: usize,
        answer: &[TokenId],
    ) {
        let mut digest = Digest::of(scope);
        prompt.iter().for_each(|&token| digest.push(token));
        let at_prompt = digest.0;
        answer.iter().for_each(|&token| digest.push(token));
        let own_prompt = prompt.len() - shared;
        let mut ends = self.ends.lock().ignore_poison();
        let ends_of = [
            (at_prompt, own_prompt),
            (digest.0, own_prompt + answer.len()),
        ];
        for (digest, own_tokens) in ends_of {
            ends.insert(
                digest,
                End {
                    session,
                    own_tokens,
                },
                1,
            );
        }
    }

    /// Finds the longest logged token sequence that the prompt continues. Returns its fork point and
    /// its number of tokens.
    pub(crate) fn find(
        &self,
        log: &SessionLog,
        scope: ResendScope<'_>,
        prompt: &[TokenId],
    ) -> Option<(ForkPoint, usize)> {
        let (end, len) = self.candidate(scope, prompt)?;
        // The session may be deleted, and different tokens may have one digest.
        let (point, covered) = log
            .fork_point_at(end.session, end.own_tokens)
            .ok()
            .flatten()?;
        let same = covered == end.own_tokens
            && log
                .tokens(point)
                .is_ok_and(|tokens| tokens == prompt[..len]);
        same.then_some((point, len))
    }

    fn candidate(&self, scope: ResendScope<'_>, prompt: &[TokenId]) -> Option<(End, usize)> {
        let mut digest = Digest::of(scope);
        let mut ends = self.ends.lock().ignore_poison();
        let mut longest = None;
        for (index, &token) in prompt.iter().enumerate() {
            digest.push(token);
            if let Some(end) = ends.get(&digest.0)
                && index + 1 < prompt.len()
            {
                longest = Some((*end, index + 1));
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId([1; 16]);
    const B: SessionId = SessionId([2; 16]);
    const SCOPE: ResendScope<'_> = ResendScope {
        model: "m",
        owner: None,
    };

    fn candidate(lines: &ResendIndex, prompt: &[TokenId]) -> Option<(SessionId, usize, usize)> {
        let found = lines.candidate(SCOPE, prompt);
        found.map(|(end, len)| (end.session, end.own_tokens, len))
    }

    #[test]
    fn the_longest_sequence_that_the_prompt_continues_is_found() {
        let lines = ResendIndex::default();
        lines.insert(SCOPE, A, &[1, 2, 3], 0, &[4]);
        assert_eq!(candidate(&lines, &[1, 2, 3, 4, 5]), Some((A, 4, 4)));
        assert_eq!(candidate(&lines, &[1, 2, 3, 9, 9]), Some((A, 3, 3)));
        // At least one token is left to prefill.
        assert_eq!(candidate(&lines, &[1, 2, 3]), None);
        assert_eq!(candidate(&lines, &[1, 2, 9]), None);
        lines.insert(SCOPE, B, &[1, 2, 3, 4, 5], 4, &[6]);
        assert_eq!(candidate(&lines, &[1, 2, 3, 4, 5, 6, 7]), Some((B, 2, 6)));
        for other in [
            ResendScope {
                model: "n",
                ..SCOPE
            },
            ResendScope {
                owner: Some("anna"),
                ..SCOPE
            },
        ] {
            assert_eq!(lines.candidate(other, &[1, 2, 3, 4, 5]), None);
        }
    }

    #[test]
    fn the_oldest_ends_are_evicted() {
        let lines = ResendIndex::default();
        for n in 0..ENDS_MAX as TokenId {
            lines.insert(SCOPE, A, &[n], 0, &[0]);
        }
        assert_eq!(candidate(&lines, &[0, 5]), None);
        let last = ENDS_MAX as TokenId - 1;
        assert_eq!(candidate(&lines, &[last, 5]), Some((A, 1, 1)));
        let found = (0..ENDS_MAX as TokenId).filter(|&n| candidate(&lines, &[n, 5]).is_some());
        assert_eq!(found.count(), ENDS_MAX / 2);
    }
}
