//! Leaves an answer free until a trigger, and applies the trigger's grammar from there on.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    super::{
        StartAt, ToolCallGrammar,
        compiled::{CompiledGrammar, GrammarContext},
        token_index::TokenIndex,
    },
    GrammarConstraint, MarkerScanner, keep_end,
};
use crate::{
    id::TokenId,
    sampling::{Constraint, ConstraintError, TokenBitmask, TokenMask},
};

/// Structural tags: triggers of calls in an otherwise free answer.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuralTags {
    /// The triggers.
    pub triggers: Vec<Trigger>,
    /// The two reasoning markers, if the model has any; triggers inside reasoning do not count.
    pub reasoning_markers: Option<(String, String)>,
    /// True if the answer starts inside reasoning.
    pub in_reasoning: bool,
}

/// A trigger of calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// The text of the trigger. White space counts neither in it nor in the answer.
    pub marker: String,
    /// True if the trigger counts only at the start of the answer or right after reasoning.
    pub at_start: bool,
    /// Grammar of the text after the trigger; behind it the answer is free again.
    pub calls: ToolCallGrammar,
}

/// The same, ready to match.
pub(crate) struct CompiledTrigger {
    pub(crate) marker: String,
    pub(crate) at_start: bool,
    pub(crate) calls: Arc<CompiledGrammar>,
}

/// One answer that is watched.
pub(crate) struct TriggeredConstraint {
    places: Vec<CompiledTrigger>,
    thinking: Option<(String, String)>,
    means: GrammarContext,
    token_texts: Arc<TokenIndex>,
    state: State,
}

enum State {
    /// The end of the text so far, and the token mask; `None` admits all tokens.
    Text(TextTail, Option<TokenBitmask>),
    /// Reasoning, until its closing marker.
    Reasoning(MarkerScanner),
    Call(Box<GrammarConstraint>),
}

/// The end of a text, as far as a marker may have begun in it, without white space.
#[derive(Default)]
struct TextTail {
    end: String,
    /// True if that is all of it.
    is_whole: bool,
}

impl TriggeredConstraint {
    pub(crate) fn new(
        places: Vec<CompiledTrigger>,
        watch: &StructuralTags,
        means: GrammarContext,
        token_texts: Arc<TokenIndex>,
    ) -> Self {
        let mut watching = Self {
            places,
            thinking: watch.reasoning_markers.clone(),
            means,
            token_texts,
            state: State::Text(TextTail::default(), None),
        };
        watching.state = match watch.in_reasoning {
            true => watching.reasoning(String::new()),
            false => watching.text(String::new(), true),
        };
        watching
    }

    /// The state behind this text.
    fn text(&self, end: String, is_whole: bool) -> State {
        let mut said = TextTail { end, is_whole };
        let begun = |place: &CompiledTrigger| match place.at_start {
            true => said.is_whole && place.marker == said.end,
            false => said.end.ends_with(&place.marker),
        };
        if let Some(place) = self.places.iter().find(|place| begun(place)) {
            return State::Call(Box::new(GrammarConstraint::new(
                Arc::clone(&place.calls),
                &StartAt::AfterTrigger,
                self.means.clone(),
            )));
        }
        if let Some((open, _)) = &self.thinking
            && let Some(at) = said.end.find(open.as_str())
        {
            return self.reasoning(said.end.split_off(at + open.len()));
        }
        let may_begin =
            |place: &CompiledTrigger| place.at_start && place.marker.starts_with(&said.end);
        said.is_whole &= said.end.is_empty() || self.places.iter().any(may_begin);
        if !said.is_whole {
            let opening = self.thinking.iter().map(|(open, _)| open.len());
            let markers = self.places.iter().map(|place| place.marker.len());
            keep_end(&mut said.end, opening.chain(markers).max().unwrap_or(0));
        }
        let allowed = self.allowed(&said);
        State::Text(said, allowed)
    }

    /// The state inside reasoning that begins with this text.
    fn reasoning(&self, text: String) -> State {
        let close = self.thinking.as_ref().map(|(_, close)| close.clone());
        State::Reasoning(MarkerScanner::new(close.unwrap_or_default(), text))
    }

    /// Returns the token mask; `None` admits all. A token that completes a marker must end with it,
    /// because the grammar governs what follows.
    fn allowed(&self, said: &TextTail) -> Option<TokenBitmask> {
        let mut beyond = Vec::new();
        for place in &self.places {
            let marker = place.marker.as_str();
            let mut ban = |begun: usize| beyond.extend(self.token_texts.beyond(&marker[begun..]));
            match place.at_start {
                true if said.is_whole && marker.starts_with(&said.end) => ban(said.end.len()),
                true => {}
                false => {
                    let begun = marker.char_indices().map(|(at, _)| at);
                    begun
                        .filter(|at| said.end.ends_with(&marker[..*at]))
                        .for_each(ban);
                }
            }
        }
        if beyond.is_empty() {
            return None;
        }
        let mut allowed = TokenBitmask::all(self.means.tokenizer.vocab_size());
        beyond.into_iter().for_each(|token| allowed.remove(token));
        Some(allowed)
    }
}

impl Constraint for TriggeredConstraint {
    fn poll_mask(
        &mut self,
        left: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<TokenMask<'_>, ConstraintError>> {
        if let State::Call(call) = &mut self.state
            && ready!(call.poll_ended(left, context))
        {
            self.state = self.text(String::new(), false);
        }
        Poll::Ready(match &self.state {
            State::Text(_, Some(allowed)) => Ok(TokenMask::Only(allowed)),
            State::Text(_, None) | State::Reasoning(_) => Ok(TokenMask::All),
            State::Call(call) => call.allowed(),
        })
    }

    fn poll_accept(
        &mut self,
        token: TokenId,
        left: usize,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        if let State::Call(call) = &mut self.state {
            return call.poll_accept(token, left, context);
        }
        let mut text = self.means.tokenizer.token_text(token);
        text.retain(|c| !c.is_whitespace());
        let state = match &mut self.state {
            State::Call(_) => None,
            State::Text(before, _) => {
                let end = mem::take(&mut before.end) + &text;
                let is_whole = before.is_whole;
                Some(self.text(end, is_whole))
            }
            State::Reasoning(scanner) => scanner.push(&text).map(|after| self.text(after, true)),
        };
        if let Some(state) = state {
            self.state = state;
        }
        Poll::Ready(true)
    }
}

impl fmt::Debug for TriggeredConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}
