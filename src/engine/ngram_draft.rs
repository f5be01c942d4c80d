//! N-gram drafting: drafts the tokens that followed the last occurrence of the current 3-gram, in
//! the prompt or the answer (prompt lookup decoding, Saxena 2023). Agents copy code, names and
//! arguments.
//!
//! A draft is run behind the last token, in one step. The engine accepts a drafted token only if
//! the sampler samples the same one. So drafts change when tokens come, never which.

use std::collections::HashMap;

use crate::id::TokenId;

/// Tokens of the n-gram that must occur earlier.
const NGRAM_LEN: usize = 3;

/// Most tokens of a draft. With the last token they fill the eight rows that the CPU kernels
/// multiply at once.
pub(super) const DRAFT_TOKENS_MAX: usize = 7;

/// Most tokens of the first draft.
const DRAFT_TOKENS_FIRST: usize = 3;

/// Most tokens that are decoded without a draft after rejected drafts.
const PAUSE_MAX: usize = 8;

/// Drafts for one sequence.
#[derive(Debug)]
pub(super) struct NgramDrafter {
    /// Position after the last occurrence of each n-gram.
    places: HashMap<[TokenId; NGRAM_LEN], usize>,
    /// Tokens whose predecessors are in `places`.
    seen: usize,
    /// Most tokens of the next draft.
    length_max: usize,
    /// Consecutive drafts that were rejected at their first token.
    misses: usize,
    /// Length of the sequence at which drafting resumes.
    paused_until: usize,
}

impl NgramDrafter {
    pub(super) fn new() -> Self {
        Self {
            places: HashMap::new(),
            seen: NGRAM_LEN,
            length_max: DRAFT_TOKENS_FIRST,
            misses: 0,
            paused_until: 0,
        }
    }

    /// Replaces `draft` by at most `room` tokens that followed the last occurrence of the current
    /// n-gram.
    pub(super) fn draft(&mut self, tokens: &[TokenId], room: usize, draft: &mut Vec<TokenId>) {
        draft.clear();
        while self.seen < tokens.len() {
            if let Some(gram) = gram_before(tokens, self.seen) {
                self.places.insert(gram, self.seen);
            }
            self.seen += 1;
        }
        if tokens.len() < self.paused_until {
            return;
        }
        let place = gram_before(tokens, tokens.len()).and_then(|gram| self.places.get(&gram));
        if let Some(&place) = place {
            // What repeats goes on repeating.
            let coming = tokens[place..].iter().cycle();
            draft.extend(coming.take(room.min(self.length_max)));
        }
    }

    /// Records that the sampler accepted the first `accepted` of `drafted` tokens; the sequence now
    /// has `len` tokens.
    pub(super) fn record_acceptance(&mut self, drafted: usize, right: usize, len: usize) {
        if right == 0 {
            self.paused_until = len + (1 << self.misses.min(8)).min(PAUSE_MAX);
            self.misses += 1;
            self.length_max = (self.length_max / 2).max(1);
            return;
        }
        self.misses = 0;
        self.length_max = match right == drafted {
            true => (2 * self.length_max).min(DRAFT_TOKENS_MAX),
            false => right + 1,
        };
    }
}

/// The tokens before a place.
fn gram_before(tokens: &[TokenId], place: usize) -> Option<[TokenId; NGRAM_LEN]> {
    tokens[..place].last_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafts(drafter: &mut NgramDrafter, tokens: &[TokenId], room: usize) -> Vec<TokenId> {
        let mut draft = vec![99];
        drafter.draft(tokens, room, &mut draft);
        draft
    }

    fn check(tokens: &[TokenId], expected: &[TokenId]) {
        let mut drafter = NgramDrafter::new();
        drafter.length_max = 4;
        assert_eq!(drafts(&mut drafter, tokens, 100), expected, "{tokens:?}");
        assert_eq!(drafts(&mut drafter, tokens, 100), expected, "again");
        let short = &expected[..expected.len().min(2)];
        assert_eq!(drafts(&mut drafter, tokens, 2), short, "with little room");
    }

    #[test]
    fn the_tokens_after_the_last_occurrence_are_drafted() {
        check(&[], &[]);
        check(&[1, 2, 3], &[]);
        check(&[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3], &[4, 5, 6, 7]);
        check(&[1, 2, 3, 4, 9, 1, 2, 3, 5, 9, 1, 2, 3], &[5, 9, 1, 2]);
        check(&[1, 2, 3, 4, 2, 3], &[]);
    }

    #[test]
    fn what_repeats_goes_on_repeating() {
        check(&[7, 7, 7, 7], &[7, 7, 7, 7]);
        check(&[1, 2, 1, 2, 1], &[2, 1, 2, 1]);
    }

    #[test]
    fn tokens_may_come_one_by_one() {
        let tokens = [1, 2, 3, 4, 5, 1, 2, 3, 4];
        let mut drafter = NgramDrafter::new();
        let found: Vec<_> = (0..=tokens.len())
            .map(|len| drafts(&mut drafter, &tokens[..len], 1))
            .collect();
        let expected: [&[TokenId]; 10] = [&[], &[], &[], &[], &[], &[], &[], &[], &[4], &[5]];
        assert_eq!(found, expected);
    }

    #[test]
    fn accepted_drafts_grow_and_rejected_ones_pause() {
        let mut drafter = NgramDrafter::new();
        let tokens = [7; 100];
        let length =
            |drafter: &mut NgramDrafter, len: usize| drafts(drafter, &tokens[..len], 100).len();
        assert_eq!(length(&mut drafter, 10), DRAFT_TOKENS_FIRST);
        drafter.record_acceptance(3, 3, 14);
        assert_eq!(length(&mut drafter, 14), 6);
        drafter.record_acceptance(6, 6, 21);
        assert_eq!(length(&mut drafter, 21), DRAFT_TOKENS_MAX);
        drafter.record_acceptance(7, 2, 24);
        assert_eq!(length(&mut drafter, 24), 3);
        drafter.record_acceptance(3, 0, 25);
        assert_eq!(length(&mut drafter, 25), 0, "a pause of one token");
        assert_eq!(length(&mut drafter, 26), 1);
        for len in 27..60 {
            drafter.record_acceptance(1, 0, len);
        }
        assert_eq!(length(&mut drafter, 59 + PAUSE_MAX - 1), 0);
        assert_eq!(length(&mut drafter, 59 + PAUSE_MAX), 1);
    }
}
