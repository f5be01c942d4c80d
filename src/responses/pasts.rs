//! Conversations that were continued lately: what leads to a stored response never changes, so that the
//! next turn of a line reads one session and not all of them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    conversation::Item,
    id::TokenId,
    limits::PAST_TOKENS_KEPT_MAX,
    session::{ForkPoint, SessionId},
};

/// What leads to a stored response, and what it answered. Whether somebody may see it, the log says.
#[derive(Debug)]
pub(super) struct Known {
    /// Where the response ends, in its session.
    pub(super) end: ForkPoint,
    /// All tokens up to there.
    pub(super) tokens: Vec<TokenId>,
    /// Everything up to the response's own input, that included.
    pub(super) before: Vec<Item>,
    /// What it answered.
    pub(super) answer: Vec<Item>,
}

/// What is known of stored responses, by their sessions; memory of this process only.
#[derive(Debug, Default)]
pub(super) struct Pasts {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_session: HashMap<SessionId, Arc<Known>>,
    oldest_first: VecDeque<SessionId>,
    /// Tokens of all of them, which tell how large they are.
    tokens: usize,
}

impl Pasts {
    /// What is known of a response.
    pub(super) fn get(&self, session: SessionId) -> Option<Arc<Known>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_session.get(&session).map(Arc::clone)
    }

    /// Keeps what is known of a response; the oldest give way.
    pub(super) fn keep(&self, known: Known) {
        let (session, tokens) = (known.end.parent, known.tokens.len());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_session.contains_key(&session) {
            return;
        }
        kept.by_session.insert(session, Arc::new(known));
        kept.oldest_first.push_back(session);
        kept.tokens += tokens;
        while kept.tokens > PAST_TOKENS_KEPT_MAX
            && let Some(oldest) = kept.oldest_first.pop_front()
        {
            if let Some(dropped) = kept.by_session.remove(&oldest) {
                kept.tokens -= dropped.tokens.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_when_there_are_too_many_tokens() {
        let pasts = Pasts::default();
        let id = |n: u8| SessionId([n; 16]);
        let known = |n: u8, tokens: usize| Known {
            end: ForkPoint {
                parent: id(n),
                events: 3,
            },
            tokens: vec![7; tokens],
            before: Vec::new(),
            answer: Vec::new(),
        };
        pasts.keep(known(1, PAST_TOKENS_KEPT_MAX / 2));
        pasts.keep(known(1, 1));
        pasts.keep(known(2, PAST_TOKENS_KEPT_MAX / 2));
        let there = || [1, 2, 3].map(|n| pasts.get(id(n)).is_some());
        assert_eq!(there(), [true, true, false]);
        pasts.keep(known(3, 1));
        assert_eq!(there(), [false, true, true]);
        // Too large to be kept at all.
        pasts.keep(known(4, PAST_TOKENS_KEPT_MAX + 1));
        assert!(pasts.get(id(4)).is_none());
        assert_eq!(pasts.kept.lock().unwrap().tokens, 0);
    }
}
