//! Keeps one answer to a grammar: masks are found out on other threads while the model runs.

pub(super) mod completion;
pub(super) mod mask_workers;
pub(super) mod state;
pub(super) mod triggered;

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot::{self, Receiver};

use self::state::{ClosePlan, GrammarState, Next};
use super::{
    StartAt,
    compiled::{CompiledGrammar, GrammarContext},
};
use crate::{
    id::TokenId,
    sampling::{Constraint, ConstraintError, TokenBitmask, TokenMask},
};

/// One answer under a grammar.
pub(super) struct GrammarConstraint {
    compiled: Arc<CompiledGrammar>,
    means: GrammarContext,
    phase: Phase,
    /// True if the answer may go on as it likes where the grammar has come to its end.
    goes_on: bool,
}

enum Phase {
    /// Everything but an end is allowed until this marker has come.
    Free(MarkerScanner),
    /// The first token decides: it opens reasoning or is the grammar's first.
    Undecided {
        open: TokenId,
        close: String,
        allowed: TokenBitmask,
    },
    /// The grammar's first token comes next.
    Fresh,
    /// A worker finds out how the grammar goes on.
    Finding(Receiver<Result<GrammarState, ConstraintError>>),
    /// The grammar goes on.
    Found(GrammarState),
    /// A worker finds out what this token would lead to.
    Trying(TokenId, Receiver<(GrammarState, Option<GrammarState>)>),
    /// This token leads from the one to the other.
    Tried(TokenId, GrammarState, GrammarState),
    /// It cannot.
    Broken(ConstraintError),
}

/// Looks for a marker in a text that grows.
struct MarkerScanner {
    marker: String,
    /// The end of the text, shorter than the marker after each push.
    tail: String,
}

impl MarkerScanner {
    /// Scans behind `tail`, in which the marker may have begun.
    fn new(marker: String, tail: String) -> Self {
        Self { marker, tail }
    }

    /// Adds text. Returns the text behind the marker once the marker is complete.
    fn push(&mut self, text: &str) -> Option<String> {
        self.tail.push_str(text);
        if let Some(at) = self.tail.find(&self.marker) {
            return Some(self.tail.split_off(at + self.marker.len()));
        }
        keep_end(&mut self.tail, self.marker.len());
        None
    }
}

/// Keeps less than `bytes` bytes of the text's end.
fn keep_end(text: &mut String, bytes: usize) {
    let beyond = (text.len() + 1).saturating_sub(bytes);
    let cut = (beyond..=text.len()).find(|&at| text.is_char_boundary(at));
    text.drain(..cut.unwrap_or(0));
}

impl GrammarConstraint {
    pub(super) fn new(
        compiled: Arc<CompiledGrammar>,
        start: &StartAt,
        means: GrammarContext,
    ) -> Self {
        let phase = match start {
            StartAt::Immediately | StartAt::AfterMessage { .. } | StartAt::AfterTrigger => {
                Phase::Fresh
            }
            StartAt::AfterReasoning { open: None, close } => {
                Phase::Free(MarkerScanner::new(close.clone(), String::new()))
            }
            StartAt::AfterReasoning {
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
            goes_on: *start == StartAt::AfterTrigger,
        }
    }

    /// Waits until it is known which tokens may follow, where the answer may have `left` more; says
    /// whether the grammar has come to its end where the answer goes on.
    pub(super) fn poll_ended(&mut self, left: usize, context: &mut Context<'_>) -> Poll<bool> {
        let is_short = left <= completion::WITHIN && self.compiled.closing.is_some();
        if matches!(self.phase, Phase::Fresh) && is_short {
            self.phase = self.begin();
        }
        ready!(self.poll_worker(context));
        if let Phase::Found(standing) = &mut self.phase {
            standing.narrow(left, &self.means.ends);
        }
        Poll::Ready(matches!(
            self.phase,
            Phase::Found(GrammarState { allowed: None, .. })
        ))
    }

    /// Returns the token mask, once it is known.
    pub(super) fn allowed(&self) -> Result<TokenMask<'_>, ConstraintError> {
        Ok(match &self.phase {
            Phase::Free(_) => TokenMask::Only(&self.means.unended),
            Phase::Undecided { allowed, .. } => TokenMask::Only(allowed),
            Phase::Fresh => TokenMask::Only(&self.compiled.first),
            Phase::Found(standing) | Phase::Tried(_, standing, _) => {
                let allowed = standing.allowed.as_ref();
                allowed.map_or(TokenMask::All, TokenMask::Only)
            }
            Phase::Finding(_) | Phase::Trying(..) => {
                let early = "nobody waited for the grammar";
                return Err(ConstraintError(early.to_owned()));
            }
            Phase::Broken(error) => return Err(error.clone()),
        })
    }

    /// Lets a worker find something out.
    fn ask<T: Send + 'static>(&self, find: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (finder, finding) = oneshot::channel();
        self.means.workers.run(move || {
            // Otherwise the receiver was dropped.
            if !finder.is_closed() {
                _ = finder.send(find());
            }
        });
        finding
    }

    fn next(&self, token: TokenId, left: usize, closing: Option<Vec<TokenId>>) -> Next {
        Next {
            token,
            left: left - 1,
            closing,
            closes: self.compiled.closing.is_some(),
            ends_here: self.goes_on,
        }
    }

    /// Starts the grammar, with completions planned from the first token on.
    fn begin(&self) -> Phase {
        let compiled = Arc::clone(&self.compiled);
        // Copying a matcher takes time.
        Phase::Finding(self.ask(move || Ok(compiled.state())))
    }

    /// The grammar behind its first token.
    fn begun(&self, token: TokenId, left: usize) -> Phase {
        let compiled = Arc::clone(&self.compiled);
        let next = self.next(token, left, None);
        Phase::Finding(self.ask(move || GrammarState::advance(compiled.matcher(), next)))
    }

    /// Returns the phase after a token, or the phase that tries it.
    fn go_on(&self, mut standing: GrammarState, token: TokenId, left: usize) -> Phase {
        let closing = match standing.close_plan(token, left) {
            ClosePlan::Free => None,
            ClosePlan::Closing(closing) => Some(closing),
            ClosePlan::Unknown => {
                let next = self.next(token, left, None);
                return Phase::Trying(
                    token,
                    self.ask(move || {
                        let after = standing.look_ahead(next);
                        (standing, after)
                    }),
                );
            }
        };
        let next = self.next(token, left, closing);
        Phase::Finding(self.ask(move || GrammarState::advance(standing.matcher, next)))
    }

    /// Takes the result of a worker.
    fn poll_worker(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let lost = || ConstraintError("what matches the grammar panicked".to_owned());
        self.phase = match &mut self.phase {
            Phase::Finding(finding) => {
                let found = ready!(Pin::new(finding).poll(context));
                match found.unwrap_or_else(|_| Err(lost())) {
                    Ok(standing) => Phase::Found(standing),
                    Err(error) => Phase::Broken(error),
                }
            }
            Phase::Trying(token, trying) => {
                let token = *token;
                match ready!(Pin::new(trying).poll(context)) {
                    Ok((standing, Some(after))) => Phase::Tried(token, standing, after),
                    Ok((mut standing, None)) => {
                        standing.refuse(token);
                        Phase::Found(standing)
                    }
                    Err(_) => Phase::Broken(lost()),
                }
            }
            _ => return Poll::Ready(()),
        };
        Poll::Ready(())
    }
}

impl Constraint for GrammarConstraint {
    fn poll_mask(
        &mut self,
        left: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<TokenMask<'_>, ConstraintError>> {
        _ = ready!(self.poll_ended(left, context));
        Poll::Ready(self.allowed())
    }

    fn poll_accept(
        &mut self,
        token: TokenId,
        left: usize,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        self.phase = match mem::replace(&mut self.phase, Phase::Fresh) {
            Phase::Free(mut lookout) => {
                match lookout.push(&self.means.tokenizer.token_text(token)) {
                    Some(_) => Phase::Fresh,
                    None => Phase::Free(lookout),
                }
            }
            Phase::Undecided { open, close, .. } if open == token => {
                Phase::Free(MarkerScanner::new(close, String::new()))
            }
            Phase::Undecided { .. } | Phase::Fresh => self.begun(token, left),
            Phase::Tried(tried, _, after) if tried == token => Phase::Found(after),
            Phase::Found(standing) | Phase::Tried(_, standing, _) => {
                self.go_on(standing, token, left)
            }
            waiting @ (Phase::Finding(_) | Phase::Trying(..) | Phase::Broken(_)) => waiting,
        };
        if !matches!(self.phase, Phase::Trying(..)) {
            return Poll::Ready(true);
        }
        ready!(self.poll_worker(context));
        let phase = mem::replace(&mut self.phase, Phase::Fresh);
        let (phase, taken) = match phase {
            Phase::Tried(_, _, after) => (Phase::Found(after), true),
            refused => (refused, false),
        };
        self.phase = phase;
        Poll::Ready(taken)
    }
}

impl fmt::Debug for GrammarConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching").finish_non_exhaustive()
    }
}
