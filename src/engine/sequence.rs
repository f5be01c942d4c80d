//! One generation inside the engine: its tokens, its key/value memory and its reader.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::{Finish, GeneratedToken, Job, TokenEvent, events::EventSink, scheduler::View};
use crate::{
    id::TokenId,
    model::exec::{KvMemory, Slot},
    sampling::{Sampler, Workspace},
};

/// A job on its way to the engine's thread.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) job: Job,
    pub(super) events: EventSink,
    /// The job's place among the running and the waiting, given back when it is dropped.
    pub(super) place: OwnedSemaphorePermit,
}

/// A job that has reached the engine's thread.
#[derive(Debug)]
pub(super) struct Sequence<K> {
    /// The prompt and the answer so far.
    tokens: Vec<TokenId>,
    prompt_len: usize,
    max_new_tokens: usize,
    end_tokens: Arc<[TokenId]>,
    sampler: Sampler,
    /// Memory of the first tokens; none before the first step and after an eviction.
    kv: Option<K>,
    events: EventSink,
    _place: OwnedSemaphorePermit,
}

impl<K: KvMemory> Sequence<K> {
    pub(super) fn new(submission: Submission) -> Self {
        let Submission { job, events, place } = submission;
        Self {
            sampler: Sampler::new(job.sampling, &job.prompt),
            prompt_len: job.prompt.len(),
            tokens: job.prompt,
            max_new_tokens: job.max_new_tokens,
            end_tokens: job.end_tokens,
            kv: None,
            events,
            _place: place,
        }
    }

    /// What the scheduler knows of it. After an eviction half the reader's channel must be free
    /// before the tokens are read again, or a slow reader would cost that every few tokens.
    pub(super) fn view(&self) -> View {
        let ready = match self.kv {
            Some(_) => self.events.has_room(),
            None => self.events.is_half_free(),
        };
        View {
            tokens: self.tokens.len(),
            cached: self.cached(),
            ready,
        }
    }

    /// Whether its reader has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Bytes of key/value memory; `None` without one.
    pub(super) fn kv_bytes(&self) -> Option<usize> {
        self.kv.as_ref().map(KvMemory::bytes)
    }

    /// Whether it waits for the next token of its answer, not for its prompt.
    pub(super) fn is_decoding(&self) -> bool {
        self.tokens.len() > self.prompt_len && self.tokens.len() == self.cached() + 1
    }

    /// Whether all its tokens are in memory, so that the step gave logits for the next one.
    pub(super) fn has_logits(&self) -> bool {
        self.cached() == self.tokens.len()
    }

    /// Its part of a step: the next `count` tokens.
    pub(super) fn slot(&mut self, count: usize, new_kv: impl FnOnce() -> K) -> Slot<'_, K> {
        let start = self.cached();
        let end = start + count;
        Slot {
            tokens: &self.tokens[start..end],
            kv: self.kv.get_or_insert_with(new_kv),
            wants_logits: end == self.tokens.len(),
        }
    }

    /// Gives its memory back; it can be read again.
    pub(super) fn evict(&mut self) {
        self.kv = None;
    }

    /// Chooses the next token from the logits after the last one and reports it. Returns how the
    /// job has ended, if it has.
    pub(super) fn extend(
        &mut self,
        logits: &[f32],
        context_length: usize,
        work: &mut Workspace,
    ) -> Option<Finish> {
        if self.tokens.len() == self.prompt_len {
            self.events.emit(TokenEvent::Prefilled { cached_tokens: 0 });
        }
        let choice = match self.sampler.choose(logits, self.tokens.len() as u64, work) {
            Ok(choice) => choice,
            Err(error) => return Some(Finish::Failed(error.to_string())),
        };
        if self.end_tokens.contains(&choice.id) {
            return Some(Finish::EndToken(choice.id));
        }
        self.tokens.push(choice.id);
        self.events
            .emit(TokenEvent::Token(GeneratedToken::from(choice)));
        if self.tokens.len() - self.prompt_len >= self.max_new_tokens {
            return Some(Finish::MaxTokens);
        }
        (self.tokens.len() >= context_length).then_some(Finish::ContextFull)
    }

    /// Reports how the job ended.
    pub(super) fn finish(&mut self, finish: Finish) {
        self.events.finish(finish);
    }

    fn cached(&self) -> usize {
        self.kv.as_ref().map_or(0, KvMemory::len)
    }
}
