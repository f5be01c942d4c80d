//! Keeps one answer to a grammar: masks are found out on other threads while the model runs.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use llguidance::Matcher;

use super::{Start, compile::Compiled, workers::Workers};
use crate::{
    id::TokenId,
    sampling::{Allowed, Constraint, ConstraintError, TokenSet},
    tokenizer::Tokenizer,
};

/// One answer under a grammar.
pub(super) struct Matching {
    compiled: Arc<Compiled>,
    tokenizer: Tokenizer,
    workers: Workers,
    phase: Phase,
    /// The marker behind which the grammar begins again.
    again: Option<String>,
}

enum Phase {
    /// Everything is allowed until this marker has come, or everything but an end.
    Free(Watch, Option<TokenSet>),
    /// The first token decides: this one begins thoughts, another is the grammar's first.
    Undecided {
        open: TokenId,
        close: String,
        allowed: TokenSet,
    },
    /// The grammar's first token comes next.
    Fresh,
    /// The grammar goes on.
    Bound(Bound),
}

/// Looks for a marker in a text that grows.
struct Watch {
    marker: String,
    /// The end of the text, shorter than the marker.
    tail: String,
}

impl Watch {
    fn new(marker: String) -> Self {
        Self {
            marker,
            tail: String::new(),
        }
    }

    /// Takes more text; says whether the marker is there.
    fn push(&mut self, text: &str) -> bool {
        self.tail.push_str(text);
        if self.tail.contains(&self.marker) {
            return true;
        }
        let beyond = self.tail.len().saturating_sub(self.marker.len());
        let cut = (beyond..=self.tail.len()).find(|&at| self.tail.is_char_boundary(at));
        self.tail.drain(..cut.unwrap_or(0));
        false
    }
}

/// A grammar that has begun.
struct Bound {
    place: Arc<Place>,
    /// What was found out last, until the next token.
    found: Option<Found>,
}

/// Where a worker leaves what it finds out.
#[derive(Default)]
struct Place {
    state: Mutex<PlaceState>,
}

#[derive(Default)]
struct PlaceState {
    found: Option<Found>,
    waker: Option<Waker>,
}

struct Found {
    matcher: Box<Matcher>,
    /// `None` when the grammar has come to its end.
    allowed: Result<Option<TokenSet>, ConstraintError>,
}

impl Matching {
    pub(super) fn new(
        compiled: Arc<Compiled>,
        start: &Start,
        tokenizer: Tokenizer,
        workers: Workers,
    ) -> Self {
        let mut again = None;
        let phase = match start {
            Start::Now => Phase::Fresh,
            Start::AfterThoughts { open: None, close } => {
                Phase::Free(Watch::new(close.clone()), Some(compiled.unended.clone()))
            }
            Start::AfterThoughts {
                open: Some(open),
                close,
            } => match tokenizer.token_id(open) {
                Some(open) => {
                    let mut allowed = compiled.first.clone();
                    allowed.insert(open);
                    Phase::Undecided {
                        open,
                        close: close.clone(),
                        allowed,
                    }
                }
                None => Phase::Fresh,
            },
            Start::AfterEach(marker) => {
                again = Some(marker.clone());
                Phase::Free(Watch::new(marker.clone()), None)
            }
        };
        Self {
            compiled,
            tokenizer,
            workers,
            phase,
            again,
        }
    }

    /// Begins to match, with this token.
    fn begin(&mut self, token: TokenId) {
        let compiled = Arc::clone(&self.compiled);
        let ends_here = self.again.is_some();
        let place = Arc::new(Place::default());
        let bound = Bound { place, found: None };
        // Copying a matcher takes time, too.
        bound.spawn(&self.workers, move || compiled.matcher(), token, ends_here);
        self.phase = Phase::Bound(bound);
    }
}

impl Bound {
    fn spawn(
        &self,
        workers: &Workers,
        matcher: impl FnOnce() -> Box<Matcher> + Send + 'static,
        token: TokenId,
        ends_here: bool,
    ) {
        let place = Arc::downgrade(&self.place);
        workers.run(move || {
            // Nobody waits any more.
            if place.strong_count() == 0 {
                return;
            }
            let found = advance(matcher(), token, ends_here);
            if let Some(place) = place.upgrade() {
                place.put(found);
            }
        });
    }
}

/// Takes a token and finds out which may follow.
fn advance(mut matcher: Box<Matcher>, token: TokenId, ends_here: bool) -> Found {
    let failed = |error: &dyn fmt::Display| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        ConstraintError(format!("the grammar cannot go on: {line}"))
    };
    let mut allowed = || {
        matcher
            .consume_token(token)
            .map_err(|error| failed(&error))?;
        let over = matcher.is_stopped();
        if over && !matcher.stop_reason().is_ok() {
            return Err(failed(&matcher.stop_reason()));
        }
        if over && ends_here {
            return Ok(None);
        }
        let mask = matcher.compute_mask_or_eos();
        let mask = mask.map_err(|error| failed(&error))?;
        Ok(Some(TokenSet::of_words(mask.as_slice().to_vec())))
    };
    let allowed = allowed();
    Found { matcher, allowed }
}

impl Place {
    fn put(&self, found: Found) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.found = Some(found);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Option<Found> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.found.take();
        if found.is_none() {
            state.waker = Some(context.waker().clone());
        }
        found
    }
}

impl Constraint for Matching {
    fn poll_allowed(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Allowed<'_>, ConstraintError>> {
        if let Phase::Bound(bound) = &mut self.phase {
            if bound.found.is_none() {
                bound.found = bound.place.poll(context);
            }
            let over = bound
                .found
                .as_ref()
                .is_some_and(|found| found.allowed == Ok(None));
            if over && let Some(marker) = &self.again {
                self.phase = Phase::Free(Watch::new(marker.clone()), None);
            }
        }
        Poll::Ready(Ok(match &self.phase {
            Phase::Free(_, None) => Allowed::All,
            Phase::Free(_, Some(allowed)) => Allowed::Only(allowed),
            Phase::Undecided { allowed, .. } => Allowed::Only(allowed),
            Phase::Fresh => Allowed::Only(&self.compiled.first),
            Phase::Bound(Bound { found: None, .. }) => return Poll::Pending,
            Phase::Bound(Bound {
                found: Some(found), ..
            }) => match &found.allowed {
                Ok(Some(allowed)) => Allowed::Only(allowed),
                Ok(None) => Allowed::All,
                Err(error) => return Poll::Ready(Err(error.clone())),
            },
        }))
    }

    fn accept(&mut self, token: TokenId) {
        match &mut self.phase {
            Phase::Free(watch, _) => {
                if watch.push(&self.tokenizer.token_text(token)) {
                    self.phase = Phase::Fresh;
                }
            }
            Phase::Undecided { open, close, .. } if *open == token => {
                let unended = Some(self.compiled.unended.clone());
                self.phase = Phase::Free(Watch::new(close.clone()), unended);
            }
            Phase::Undecided { .. } | Phase::Fresh => self.begin(token),
            Phase::Bound(bound) => {
                let ends_here = self.again.is_some();
                if let Some(Found { matcher, .. }) = bound.found.take() {
                    bound.spawn(&self.workers, move || matcher, token, ends_here);
                }
            }
        }
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching").finish_non_exhaustive()
    }
}
