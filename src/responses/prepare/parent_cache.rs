//! Cache of parents: a stored response's chain never changes. So the next turn reads one session
//! instead of the chain, and renders only what is new.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::recent::Recent;
use crate::{
    conversation::Item,
    id::TokenId,
    limits::{PAST_PROMPT_BYTES_KEPT_MAX, PAST_TOKENS_KEPT_MAX},
    session::{ForkPoint, SessionId},
};

/// A stored response with its whole chain. Access is checked against the log, not here.
#[derive(Debug)]
pub(crate) struct Known {
    /// The end of the response in its session.
    pub(crate) end: ForkPoint,
    /// All tokens up to there.
    pub(crate) tokens: Vec<TokenId>,
    /// Everything up to the response's own input, that included.
    pub(crate) before: Vec<Item>,
    /// The response's output items.
    pub(crate) answer: Vec<Item>,
}

/// Parents by session, in this process only.
#[derive(Debug)]
pub(crate) struct ParentCache {
    known: Mutex<Recent<Known>>,
    prompts: Mutex<Recent<str>>,
}

impl Default for ParentCache {
    fn default() -> Self {
        Self {
            known: Mutex::new(Recent::new(PAST_TOKENS_KEPT_MAX)),
            prompts: Mutex::new(Recent::new(PAST_PROMPT_BYTES_KEPT_MAX)),
        }
    }
}

impl ParentCache {
    /// Returns a cached parent.
    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<Known>> {
        locked(&self.known).get(session)
    }

    /// Caches a parent; evicts the oldest ones.
    pub(crate) fn keep(&self, known: Known) {
        let (session, tokens) = (known.end.parent, known.tokens.len());
        locked(&self.known).keep(session, Arc::new(known), tokens);
    }

    /// The prompt of a response as its template wrote it.
    pub(crate) fn prompt(&self, session: SessionId) -> Option<Arc<str>> {
        locked(&self.prompts).get(session)
    }

    /// Caches a response's rendered prompt; evicts the oldest ones.
    pub(crate) fn keep_prompt(&self, session: SessionId, text: Arc<str>) {
        let bytes = text.len();
        locked(&self.prompts).keep(session, text, bytes);
    }

    /// Keeps nothing more of a response.
    pub(crate) fn forget(&self, session: SessionId) {
        locked(&self.known).forget(session);
        locked(&self.prompts).forget(session);
    }
}

fn locked<T: ?Sized>(recent: &Mutex<Recent<T>>) -> MutexGuard<'_, Recent<T>> {
    recent.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> SessionId {
        SessionId([n; 16])
    }

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let pasts = ParentCache::default();
        let known = Known {
            end: ForkPoint {
                parent: id(1),
                events: 3,
            },
            tokens: vec![7; 5],
            before: Vec::new(),
            answer: Vec::new(),
        };
        pasts.keep(known);
        pasts.keep_prompt(id(1), "<user>Hi.".into());
        pasts.keep_prompt(id(2), "<user>Ho.".into());
        assert_eq!(pasts.prompt(id(1)).as_deref(), Some("<user>Hi."));
        pasts.forget(id(1));
        pasts.forget(id(3));
        assert!(pasts.get(id(1)).is_none() && pasts.prompt(id(1)).is_none());
        assert_eq!(pasts.prompt(id(2)).as_deref(), Some("<user>Ho."));
    }
}
