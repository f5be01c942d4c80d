//! State of a grammar within an answer: the next token mask, and the shortest completion.

use std::fmt;

use llguidance::Matcher;

use super::completion;
use crate::{
    id::TokenId,
    sampling::{ConstraintError, TokenBitmask},
};

/// Tokens refused at one place before only the known end is allowed there.
const REFUSALS_MAX: usize = 8;

/// State of a grammar within an answer.
pub(crate) struct GrammarState {
    pub(crate) matcher: Box<Matcher>,
    /// `None` once the grammar is complete.
    pub(crate) allowed: Option<TokenBitmask>,
    /// Tokens that complete the grammar, if known.
    pub(crate) closing: Option<Vec<TokenId>>,
    refusals: usize,
}

/// The state after a token.
pub(crate) struct Next {
    /// The token.
    pub(crate) token: TokenId,
    /// Number of tokens that may follow.
    pub(crate) left: usize,
    /// Tokens that complete the grammar after it, if known.
    pub(crate) closing: Option<Vec<TokenId>>,
    /// True if ends of this grammar are found.
    pub(crate) closes: bool,
    /// True if the answer goes on freely behind the grammar's end.
    pub(crate) ends_here: bool,
}

impl GrammarState {
    /// A grammar at a place where these tokens may come next.
    pub(crate) fn new(
        matcher: Box<Matcher>,
        allowed: Option<TokenBitmask>,
        closing: Option<Vec<TokenId>>,
    ) -> Self {
        Self {
            matcher,
            allowed,
            closing,
            refusals: 0,
        }
    }

    /// Takes a token and finds out which may follow.
    pub(crate) fn advance(mut matcher: Box<Matcher>, next: Next) -> Result<Self, ConstraintError> {
        let failed = |error: &dyn fmt::Display| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            ConstraintError(format!("the grammar cannot go on: {line}"))
        };
        let consumed = matcher.consume_token(next.token);
        consumed.map_err(|error| failed(&error))?;
        let over = matcher.is_stopped();
        if over && !matcher.stop_reason().is_ok() {
            return Err(failed(&matcher.stop_reason()));
        }
        if over && next.ends_here {
            return Ok(Self::new(matcher, None, None));
        }
        let mask = matcher.compute_mask_or_eos();
        let mask = mask.map_err(|error| failed(&error))?;
        let allowed = TokenBitmask::of_words(mask.as_slice().to_vec());
        let closing = match next.closes && next.left <= completion::WITHIN {
            false => None,
            true if over => Some(Vec::new()),
            true => next.closing.or_else(|| completion::short(&mut matcher)),
        };
        Ok(Self::new(matcher, Some(allowed), closing))
    }

    /// Returns the state after a token, computed on a copy, if a completion still fits.
    pub(crate) fn look_ahead(&self, next: Next) -> Option<Self> {
        let left = next.left;
        let after = Self::advance(self.matcher.clone(), next).ok()?;
        let fits = after.allowed.is_none() || after.closing.as_ref()?.len() <= left;
        fits.then_some(after)
    }

    /// Restricts the mask to the known completion if only that fits.
    pub(crate) fn narrow(&mut self, left: usize, ends: &[TokenId]) {
        let (Some(allowed), Some(closing)) = (&mut self.allowed, &self.closing) else {
            return;
        };
        if closing.len() == left || self.refusals >= REFUSALS_MAX {
            *allowed = match closing.first() {
                Some(&first) => allowed.only(&[first]),
                None => allowed.only(ends),
            };
        }
    }

    /// Returns the completion after an allowed token, as far as it is known.
    pub(crate) fn close_plan(&mut self, token: TokenId, left: usize) -> ClosePlan {
        let Some(closing) = &self.closing else {
            return ClosePlan::Free;
        };
        if closing.first() == Some(&token) {
            return ClosePlan::Closing(closing[1..].to_vec());
        }
        // Without room for an end, none is asked for.
        if closing.len() > left {
            return ClosePlan::Free;
        }
        let mut tokens = vec![token];
        tokens.extend_from_slice(closing);
        match tokens.len() <= left && completion::ends_with(&mut self.matcher, &tokens) {
            true => ClosePlan::Closing(tokens.split_off(1)),
            false => ClosePlan::Unknown,
        }
    }

    /// Does not allow a token any more.
    pub(crate) fn refuse(&mut self, token: TokenId) {
        self.refusals += 1;
        if let Some(allowed) = &mut self.allowed {
            allowed.remove(token);
        }
    }
}

/// Completion after a token, as far as it is known.
pub(crate) enum ClosePlan {
    /// Nothing, and nothing need be.
    Free,
    /// These tokens bring the grammar to an end there, and have room.
    Closing(Vec<TokenId>),
    /// It may be too far from an end.
    Unknown,
}
