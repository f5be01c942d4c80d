//! A sequence's next tokens, out of the logits of a step.

use std::{
    borrow::Cow,
    task::{Context, Poll, ready},
};

use super::{Extended, Outcome, Sequence};
use crate::{
    engine::{FinishReason, GeneratedToken, TokenEvent, ngram_draft::DRAFT_TOKENS_MAX},
    model::exec::KvCache,
    sampling::{Sampled, TokenMask, Workspace},
};

impl<K: KvCache> Sequence<K> {
    /// Takes the logits after the last token back, if they wait for the constraint.
    pub(in crate::engine) fn take_waiting(&mut self) -> Option<Vec<f32>> {
        self.waiting.take()
    }

    /// Samples the next tokens from the logits of the last token and of the drafted ones. Stops at
    /// the first rejected token and truncates the KV cache. `width` is the length of a row.
    pub(in crate::engine) fn extend(
        &mut self,
        logits: Cow<'_, [f32]>,
        (width, context_length): (usize, usize),
        (work, context): (&mut Workspace, &mut Context<'_>),
    ) -> Outcome {
        let drafted = std::mem::take(&mut self.trial);
        let drafted = drafted.get(1..).unwrap_or_default();
        if drafted.is_empty() {
            let extended = self.choose(logits, context_length, (work, context));
            let chosen = usize::from(!matches!(extended, Extended::Waits));
            self.draft_on(context_length);
            return Outcome {
                extended,
                chosen,
                drafted: 0,
            };
        }
        let known = self.tokens.len();
        let (mut chosen, mut extended) = (0, Extended::GoesOn);
        for (at, row) in logits.chunks_exact(width).enumerate() {
            extended = self.choose(
                Cow::Borrowed(row),
                context_length,
                (&mut *work, &mut *context),
            );
            chosen += 1;
            let right = drafted.get(at) == self.tokens.get(known + at);
            if !right || !matches!(extended, Extended::GoesOn) {
                break;
            }
        }
        if let Some(kv) = &mut self.kv {
            kv.truncate(known + chosen - 1);
        }
        if let Some(drafter) = &mut self.drafter {
            drafter.record_acceptance(drafted.len(), chosen - 1, self.tokens.len());
        }
        self.draft_on(context_length);
        Outcome {
            extended,
            chosen,
            drafted: drafted.len(),
        }
    }

    /// Drafts the next tokens, at most as many as the answer and the context have room for.
    fn draft_on(&mut self, context_length: usize) {
        if let Some(drafter) = &mut self.drafter {
            let len = self.tokens.len();
            let end = context_length.min(self.prompt_len + self.max_new_tokens);
            let room = end.saturating_sub(len + 1).min(DRAFT_TOKENS_MAX);
            drafter.draft(&self.tokens, room, &mut self.draft);
        }
    }

    /// Samples the next token and reports it. If the constraint is not ready, keeps the logits; the
    /// constraint then wakes the context. Returns the reason if the job has ended.
    fn choose(
        &mut self,
        logits: Cow<'_, [f32]>,
        context_length: usize,
        (work, context): (&mut Workspace, &mut Context<'_>),
    ) -> Extended {
        let left = self.left(context_length);
        let choice = match self.pick(&logits, left, work, context) {
            Poll::Ready(Ok(choice)) => choice,
            Poll::Ready(Err(finish)) => return Extended::Ended(finish),
            Poll::Pending => {
                self.waiting = Some(logits.into_owned());
                return Extended::Waits;
            }
        };
        self.sampler.take(choice.id);
        self.tokens.push(choice.id);
        self.events
            .emit(TokenEvent::Token(GeneratedToken::from(choice)));
        if self.tokens.len() - self.prompt_len >= self.max_new_tokens {
            return Extended::Ended(FinishReason::MaxTokens);
        }
        match self.tokens.len() >= context_length {
            true => Extended::Ended(FinishReason::ContextFull),
            false => Extended::GoesOn,
        }
    }

    /// Returns the most tokens that the sequence may still have, the next one included.
    fn left(&self, context_length: usize) -> usize {
        let wanted = self.prompt_len.saturating_add(self.max_new_tokens);
        wanted.min(context_length).saturating_sub(self.tokens.len())
    }

    /// The next token, taken by the constraint, or how the job ends here.
    fn pick(
        &mut self,
        logits: &[f32],
        left: usize,
        work: &mut Workspace,
        context: &mut Context<'_>,
    ) -> Poll<Result<Sampled, FinishReason>> {
        let position = self.tokens.len() as u64;
        loop {
            let allowed = match &mut self.constraint {
                None => TokenMask::All,
                Some(constraint) => match ready!(constraint.poll_mask(left, context)) {
                    Ok(allowed) => allowed,
                    Err(error) => return Poll::Ready(Err(FinishReason::Failed(error.to_string()))),
                },
            };
            let choice = match self.sampler.sample_masked(allowed, logits, position, work) {
                Ok(choice) => choice,
                Err(error) => return Poll::Ready(Err(FinishReason::Failed(error.to_string()))),
            };
            if self.end_tokens.contains(&choice.id) {
                return Poll::Ready(Err(FinishReason::EosToken(choice.id)));
            }
            let taken = match &mut self.constraint {
                None => true,
                Some(constraint) => ready!(constraint.poll_accept(choice.id, left, context)),
            };
            if taken {
                return Poll::Ready(Ok(choice));
            }
        }
    }
}
