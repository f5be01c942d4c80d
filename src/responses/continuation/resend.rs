//! Resend index: token prefixes that the log has.
//!
//! A client that resends its whole conversation is logged as a fork of its earlier request. So the
//! log does not store the same tokens again.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Mutex,
};

use crate::{
    id::TokenId,
    lock::IgnorePoison as _,
    session::{ForkPoint, SessionId, SessionLog},
};

/// Ends of lines that are remembered, oldest forgotten first: some 64 bytes each.
const ENDS_MAX: usize = 1 << 14;

/// Ends of logged token sequences, by a digest of all tokens up to there. It lives in this process
/// only; each hit is checked against the log.
#[derive(Default)]
pub(crate) struct ResendIndex {
    ends: Mutex<Ends>,
}

#[derive(Default)]
struct Ends {
    by_digest: HashMap<u64, End>,
    oldest_first: VecDeque<u64>,
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
    fn of(line: ResendScope<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        Self(hasher.finish())
    }

    fn push(&mut self, token: TokenId) {
        let mixed = (self.0 ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

impl ResendIndex {
    /// Remembers where a session's prompt and its answer end. The first `shared` tokens of the prompt
    /// are its parent's.
    pub(crate) fn insert(
        &self,
        line: ResendScope<'_>,
        session: SessionId,
        prompt: &[TokenId],
        shared: usize,
        answer: &[TokenId],
    ) {
        let mut digest = Digest::of(line);
        prompt.iter().for_each(|&token| digest.push(token));
        let at_prompt = digest.0;
        answer.iter().for_each(|&token| digest.push(token));
        let own_prompt = prompt.len() - shared;
        let mut ends = self.ends.lock().ignore_poison();
        for (digest, own_tokens) in [
            (at_prompt, own_prompt),
            (digest.0, own_prompt + answer.len()),
        ] {
            let end = End {
                session,
                own_tokens,
            };
            if ends.by_digest.insert(digest, end).is_none() {
                ends.oldest_first.push_back(digest);
            }
            if ends.oldest_first.len() > ENDS_MAX
                && let Some(oldest) = ends.oldest_first.pop_front()
            {
                ends.by_digest.remove(&oldest);
            }
        }
    }

    /// The longest line of the log that a prompt begins with and goes on from: where to fork it, and
    /// how many tokens it has.
    pub(crate) fn find(
        &self,
        log: &SessionLog,
        line: ResendScope<'_>,
        prompt: &[TokenId],
    ) -> Option<(ForkPoint, usize)> {
        let (end, len) = self.candidate(line, prompt)?;
        // The session may have gone, and different tokens may have one digest.
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

    fn candidate(&self, line: ResendScope<'_>, prompt: &[TokenId]) -> Option<(End, usize)> {
        let mut digest = Digest::of(line);
        let ends = self.ends.lock().ignore_poison();
        let mut longest = None;
        for (index, &token) in prompt.iter().enumerate() {
            digest.push(token);
            if let Some(end) = ends.by_digest.get(&digest.0)
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
    const LINE: ResendScope<'_> = ResendScope {
        model: "m",
        owner: None,
    };

    fn candidate(lines: &ResendIndex, prompt: &[TokenId]) -> Option<(SessionId, usize, usize)> {
        let found = lines.candidate(LINE, prompt);
        found.map(|(end, len)| (end.session, end.own_tokens, len))
    }

    #[test]
    fn the_longest_line_that_goes_on_is_found() {
        let lines = ResendIndex::default();
        lines.insert(LINE, A, &[1, 2, 3], 0, &[4]);
        assert_eq!(candidate(&lines, &[1, 2, 3, 4, 5]), Some((A, 4, 4)));
        assert_eq!(candidate(&lines, &[1, 2, 3, 9, 9]), Some((A, 3, 3)));
        // Nothing would be left to read.
        assert_eq!(candidate(&lines, &[1, 2, 3]), None);
        assert_eq!(candidate(&lines, &[1, 2, 9]), None);
        lines.insert(LINE, B, &[1, 2, 3, 4, 5], 4, &[6]);
        assert_eq!(candidate(&lines, &[1, 2, 3, 4, 5, 6, 7]), Some((B, 2, 6)));
        for other in [
            ResendScope { model: "n", ..LINE },
            ResendScope {
                owner: Some("anna"),
                ..LINE
            },
        ] {
            assert_eq!(lines.candidate(other, &[1, 2, 3, 4, 5]), None);
        }
    }

    #[test]
    fn the_oldest_ends_are_forgotten() {
        let lines = ResendIndex::default();
        for n in 0..ENDS_MAX as TokenId {
            lines.insert(LINE, A, &[n], 0, &[0]);
        }
        assert_eq!(candidate(&lines, &[0, 5]), None);
        let last = ENDS_MAX as TokenId - 1;
        assert_eq!(candidate(&lines, &[last, 5]), Some((A, 1, 1)));
        let ends = lines.ends.lock().unwrap();
        assert_eq!(
            (ends.by_digest.len(), ends.oldest_first.len()),
            (ENDS_MAX, ENDS_MAX)
        );
    }
}
