//! Keeps one answer to a grammar: masks are found out on other threads while the model runs.

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use llguidance::Matcher;
use tokio::sync::oneshot::{self, Receiver};

use super::{Start, compile::Compiled, workers::Workers};
use crate::{
    id::TokenId,
    sampling::{Allowed, Constraint, ConstraintError, TokenSet},
    tokenizer::Tokenizer,
};

/// One answer under a grammar.
pub(super) struct Matching {
    compiled: Arc<Compiled>,
    /// All tokens but those that end an answer.
    unended: Arc<TokenSet>,
    tokenizer: Tokenizer,
    workers: Workers,
    phase: Phase,
    /// The marker behind which the grammar begins again.
    again: Option<String>,
}

enum Phase {
    /// Everything is allowed until this marker has come, or everything but an end.
    Free(Watch, Option<Arc<TokenSet>>),
    /// The first token decides: this one begins thoughts, another is the grammar's first.
    Undecided {
        open: TokenId,
        close: String,
        allowed: TokenSet,
    },
    /// The grammar's first token comes next.
    Fresh,
    /// A worker finds out how the grammar goes on.
    Finding(Receiver<Result<Found, ConstraintError>>),
    /// The grammar goes on.
    Found(Found),
    /// It cannot.
    Broken(ConstraintError),
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
struct Found {
    matcher: Box<Matcher>,
    /// `None` when the grammar has come to its end.
    allowed: Option<TokenSet>,
}

impl Matching {
    pub(super) fn new(
        compiled: Arc<Compiled>,
        unended: Arc<TokenSet>,
        start: &Start,
        tokenizer: Tokenizer,
        workers: Workers,
    ) -> Self {
        let mut again = None;
        let phase = match start {
            Start::Now => Phase::Fresh,
            Start::AfterThoughts { open: None, close } => {
                Phase::Free(Watch::new(close.clone()), Some(Arc::clone(&unended)))
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
            unended,
            tokenizer,
            workers,
            phase,
            again,
        }
    }

    /// Lets a worker find out how a grammar goes on with this token.
    fn find(
        &self,
        matcher: impl FnOnce() -> Box<Matcher> + Send + 'static,
        token: TokenId,
    ) -> Phase {
        let ends_here = self.again.is_some();
        let (finder, finding) = oneshot::channel();
        self.workers.run(move || {
            // Otherwise nobody waits any more.
            if !finder.is_closed() {
                _ = finder.send(advance(matcher(), token, ends_here));
            }
        });
        Phase::Finding(finding)
    }
}

/// Takes a token and finds out which may follow.
fn advance(
    mut matcher: Box<Matcher>,
    token: TokenId,
    ends_here: bool,
) -> Result<Found, ConstraintError> {
    let failed = |error: &dyn fmt::Display| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        ConstraintError(format!("the grammar cannot go on: {line}"))
    };
    let consumed = matcher.consume_token(token);
    consumed.map_err(|error| failed(&error))?;
    let over = matcher.is_stopped();
    if over && !matcher.stop_reason().is_ok() {
        return Err(failed(&matcher.stop_reason()));
    }
    let allowed = match over && ends_here {
        true => None,
        false => {
            let mask = matcher.compute_mask_or_eos();
            let mask = mask.map_err(|error| failed(&error))?;
            Some(TokenSet::of_words(mask.as_slice().to_vec()))
        }
    };
    Ok(Found { matcher, allowed })
}

impl Constraint for Matching {
    fn poll_allowed(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Allowed<'_>, ConstraintError>> {
        if let Phase::Finding(finding) = &mut self.phase {
            let found = ready!(Pin::new(finding).poll(context));
            let lost = || ConstraintError("what matches the grammar panicked".to_owned());
            self.phase = match (found.unwrap_or_else(|_| Err(lost())), &self.again) {
                (Ok(Found { allowed: None, .. }), Some(marker)) => {
                    Phase::Free(Watch::new(marker.clone()), None)
                }
                (Ok(found), _) => Phase::Found(found),
                (Err(error), _) => Phase::Broken(error),
            };
        }
        Poll::Ready(Ok(match &self.phase {
            Phase::Free(_, None) => Allowed::All,
            Phase::Free(_, Some(allowed)) => Allowed::Only(allowed),
            Phase::Undecided { allowed, .. } => Allowed::Only(allowed),
            Phase::Fresh => Allowed::Only(&self.compiled.first),
            Phase::Finding(_) => return Poll::Pending,
            Phase::Found(found) => found.allowed.as_ref().map_or(Allowed::All, Allowed::Only),
            Phase::Broken(error) => return Poll::Ready(Err(error.clone())),
        }))
    }

    fn accept(&mut self, token: TokenId) {
        self.phase = match mem::replace(&mut self.phase, Phase::Fresh) {
            Phase::Free(mut watch, allowed) => {
                match watch.push(&self.tokenizer.token_text(token)) {
                    true => Phase::Fresh,
                    false => Phase::Free(watch, allowed),
                }
            }
            Phase::Undecided { open, close, .. } if open == token => {
                Phase::Free(Watch::new(close), Some(Arc::clone(&self.unended)))
            }
            Phase::Undecided { .. } | Phase::Fresh => {
                let compiled = Arc::clone(&self.compiled);
                // Copying a matcher takes time, too.
                self.find(move || compiled.matcher(), token)
            }
            Phase::Found(Found { matcher, .. }) => self.find(move || matcher, token),
            waiting @ (Phase::Finding(_) | Phase::Broken(_)) => waiting,
        };
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching").finish_non_exhaustive()
    }
}
