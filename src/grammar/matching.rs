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

/// What is the same for all answers of a model.
#[derive(Clone)]
pub(super) struct Means {
    pub(super) tokenizer: Tokenizer,
    pub(super) workers: Workers,
    /// All tokens but those that end an answer.
    pub(super) unended: Arc<TokenSet>,
}

/// One answer under a grammar.
pub(super) struct Matching {
    compiled: Arc<Compiled>,
    means: Means,
    phase: Phase,
    /// Whether the answer may go on as it likes where the grammar has come to its end.
    goes_on: bool,
}

enum Phase {
    /// Everything but an end is allowed until this marker has come.
    Free(Lookout),
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
struct Lookout {
    marker: String,
    /// The end of the text, shorter than the marker.
    tail: String,
}

impl Lookout {
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
    pub(super) fn new(compiled: Arc<Compiled>, start: &Start, means: Means) -> Self {
        let phase = match start {
            Start::Now | Start::Behind => Phase::Fresh,
            Start::AfterThoughts { open: None, close } => Phase::Free(Lookout::new(close.clone())),
            Start::AfterThoughts {
                open: Some(open),
                close,
            } => match means.tokenizer.token_id(open) {
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
        };
        Self {
            compiled,
            means,
            phase,
            goes_on: *start == Start::Behind,
        }
    }

    /// Waits until it is known which tokens may follow; says whether the grammar has come to its end
    /// where the answer goes on.
    pub(super) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if let Phase::Finding(finding) = &mut self.phase {
            let found = ready!(Pin::new(finding).poll(context));
            let lost = || ConstraintError("what matches the grammar panicked".to_owned());
            self.phase = match found.unwrap_or_else(|_| Err(lost())) {
                Ok(found) => Phase::Found(found),
                Err(error) => Phase::Broken(error),
            };
        }
        Poll::Ready(matches!(
            self.phase,
            Phase::Found(Found { allowed: None, .. })
        ))
    }

    /// The tokens that may follow, once that is known.
    pub(super) fn allowed(&self) -> Result<Allowed<'_>, ConstraintError> {
        Ok(match &self.phase {
            Phase::Free(_) => Allowed::Only(&self.means.unended),
            Phase::Undecided { allowed, .. } => Allowed::Only(allowed),
            Phase::Fresh => Allowed::Only(&self.compiled.first),
            Phase::Found(found) => found.allowed.as_ref().map_or(Allowed::All, Allowed::Only),
            Phase::Finding(_) => {
                let early = "nobody waited for the grammar";
                return Err(ConstraintError(early.to_owned()));
            }
            Phase::Broken(error) => return Err(error.clone()),
        })
    }

    /// Lets a worker find out how a grammar goes on with this token.
    fn find(
        &self,
        matcher: impl FnOnce() -> Box<Matcher> + Send + 'static,
        token: TokenId,
    ) -> Phase {
        let ends_here = self.goes_on;
        let (finder, finding) = oneshot::channel();
        self.means.workers.run(move || {
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
        _ = ready!(self.poll_ended(context));
        Poll::Ready(self.allowed())
    }

    fn accept(&mut self, token: TokenId) {
        self.phase = match mem::replace(&mut self.phase, Phase::Fresh) {
            Phase::Free(mut lookout) => {
                match lookout.push(&self.means.tokenizer.token_text(token)) {
                    true => Phase::Fresh,
                    false => Phase::Free(lookout),
                }
            }
            Phase::Undecided { open, close, .. } if open == token => {
                Phase::Free(Lookout::new(close))
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
