//! One generation inside the engine: its tokens, its key/value memory and its reader.

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    Finish, GeneratedToken, Job, TokenEvent,
    events::EventSink,
    scheduler::View,
    sharing::{Member, Relative},
};
use crate::{
    cache::{CacheKey, CacheScope, Lease, Pin, PrefixCache},
    id::TokenId,
    model::exec::{KvMemory, Slot},
    sampling::{Allowed, Constraint, Sampler, Workspace},
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
    /// Ascends with age.
    number: u64,
    /// The prompt and the answer so far.
    tokens: Vec<TokenId>,
    prompt_len: usize,
    max_new_tokens: usize,
    end_tokens: Arc<[TokenId]>,
    sampler: Sampler,
    constraint: Option<Box<dyn Constraint>>,
    /// Logits after the last token, while the constraint is not ready to choose from them.
    waiting: Option<Vec<f32>>,
    /// Memory of the first tokens, if there is one.
    kv: Option<K>,
    /// While the memory is only shared with the prefix cache: before the sequence's first step.
    pin: Option<Pin>,
    /// While the memory is or was a fork of one in the prefix cache.
    lease: Option<Lease>,
    cache_scope: CacheScope,
    cache_key: Option<CacheKey>,
    /// Older ones whose prompts begin like this one.
    relatives: Vec<Relative>,
    /// Tokens of the prompt that the cache had when it came.
    known: usize,
    /// Whether the reader knows what it begins with.
    accepted: bool,
    /// Whether it has lost a memory and has none since.
    evicted: bool,
    events: EventSink,
    _place: OwnedSemaphorePermit,
}

/// What became of a sequence's logits.
#[derive(Debug)]
pub(super) enum Extended {
    /// A token was chosen, and more are to come.
    GoesOn,
    /// They wait for the constraint.
    Waits,
    /// The job has ended.
    Ended(Finish),
}

impl<K: KvMemory> Sequence<K> {
    /// A job with its number, how much of its prompt the cache has and whose prompts begin like it.
    pub(super) fn new(
        submission: Submission,
        number: u64,
        (known, relatives): (usize, Vec<Relative>),
    ) -> Self {
        let Submission { job, events, place } = submission;
        Self {
            number,
            sampler: Sampler::new(job.sampling, &job.prompt),
            constraint: job.constraint,
            waiting: None,
            prompt_len: job.prompt.len(),
            tokens: job.prompt,
            max_new_tokens: job.max_new_tokens,
            end_tokens: job.end_tokens,
            kv: None,
            pin: None,
            lease: None,
            cache_scope: job.cache_scope,
            cache_key: job.cache_key,
            relatives,
            known,
            accepted: false,
            evicted: false,
            events,
            _place: place,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn prompt(&self) -> &[TokenId] {
        &self.tokens[..self.prompt_len]
    }

    pub(super) fn cache_scope(&self) -> CacheScope {
        self.cache_scope
    }

    /// What is known of it when beginnings are decided.
    pub(super) fn member(&self) -> Member<'_> {
        let known = if self.accepted { 0 } else { self.known };
        let is_open = self.kv.is_none() && (self.evicted || !self.accepted);
        Member {
            number: self.number,
            relatives: &self.relatives,
            cached: self.cached(),
            ready: self.is_ready(),
            open: is_open.then_some(known),
        }
    }

    /// Whether the reader knows what it begins with.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Pins the longest prefix of the prompt that the cache has, and reports its length.
    pub(super) fn accept(&mut self, cache: &mut PrefixCache<K>) -> usize {
        self.share(cache);
        self.accepted = true;
        let cached_tokens = self.cached();
        self.events.emit(TokenEvent::Accepted { cached_tokens });
        cached_tokens
    }

    /// Pins the longest prefix that the cache has of its tokens.
    pub(super) fn share(&mut self, cache: &mut PrefixCache<K>) {
        if let Some(hit) = cache.find(self.cache_scope, self.cache_key, &self.tokens) {
            self.kv = Some(hit.kv);
            self.pin = Some(hit.pin);
            self.lease = Some(hit.lease);
        }
    }

    /// Leaves what it has in memory to the cache and goes on.
    pub(super) fn lend(&mut self, cache: &mut PrefixCache<K>) {
        if self.is_pinned() {
            return;
        }
        if let Some(kv) = &self.kv {
            let (scope, key) = (self.cache_scope, self.cache_key);
            let (tokens, kv) = (&self.tokens[..kv.len()], kv.fork(kv.len()));
            if let Some(lease) = cache.insert(scope, key, tokens, kv) {
                self.lease = Some(lease);
            }
        }
    }

    /// A memory of its first tokens, as many as it has at least.
    pub(super) fn fork(&self, tokens: usize) -> Option<K> {
        self.kv.as_ref().map(|kv| kv.fork(tokens))
    }

    /// Takes a memory of its first tokens as its own.
    pub(super) fn adopt(&mut self, kv: K) {
        self.kv = Some(kv);
        self.pin = None;
        self.lease = None;
    }

    /// Whether it has lost a memory and has none since.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted
    }

    /// Prepares it for a step that may run `count` tokens; returns how many it has to run. Its
    /// memory is its own from now on.
    pub(super) fn begin(&mut self, count: usize) -> usize {
        self.evicted = false;
        self.pin = None;
        count.min(self.tokens.len() - self.cached())
    }

    /// What the scheduler knows of it, and where the one stands that it waits for.
    pub(super) fn view(&self, awaited: Option<usize>) -> View {
        View {
            tokens: self.tokens.len(),
            cached: self.cached(),
            held: self.held(),
            ready: self.is_ready(),
            awaited,
        }
    }

    /// Whether its reader has room. After an eviction half the reader's channel must be free before
    /// the tokens are read again, or a slow reader would cost that every few tokens.
    fn is_ready(&self) -> bool {
        match self.held() {
            _ if self.waiting.is_some() => false,
            0 => self.events.is_half_free(),
            _ => self.events.has_room(),
        }
    }

    /// Whether its reader has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Tokens in key/value memory of its own.
    pub(super) fn held(&self) -> usize {
        if self.is_pinned() { 0 } else { self.cached() }
    }

    /// Bytes of key/value memory of its own; `None` without one.
    pub(super) fn kv_bytes(&self) -> Option<usize> {
        let own = self.kv.as_ref().filter(|_| !self.is_pinned());
        own.map(KvMemory::bytes)
    }

    /// Whether its memory is only shared with the prefix cache.
    pub(super) fn is_pinned(&self) -> bool {
        self.pin.is_some()
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
        self.pin = None;
        self.lease = None;
        self.evicted = true;
    }

    /// Leaves its memory to the cache.
    pub(super) fn retire(&mut self, cache: &mut PrefixCache<K>) {
        if !self.is_pinned()
            && let Some(kv) = self.kv.take()
        {
            let (scope, key) = (self.cache_scope, self.cache_key);
            cache.insert(scope, key, &self.tokens[..kv.len()], kv);
        }
    }

    /// Takes the logits after the last token back, if they wait for the constraint.
    pub(super) fn take_waiting(&mut self) -> Option<Vec<f32>> {
        self.waiting.take()
    }

    /// Chooses the next token from the logits after the last one and reports it, or keeps them until
    /// the constraint is ready, which wakes the context then. Returns how the job has ended, if it has.
    pub(super) fn extend(
        &mut self,
        logits: Cow<'_, [f32]>,
        context_length: usize,
        (work, context): (&mut Workspace, &mut Context<'_>),
    ) -> Extended {
        let position = self.tokens.len() as u64;
        let allowed = match self.constraint.as_mut().map(|it| it.poll_allowed(context)) {
            None => Allowed::All,
            Some(Poll::Ready(Ok(allowed))) => allowed,
            Some(Poll::Ready(Err(error))) => {
                return Extended::Ended(Finish::Failed(error.to_string()));
            }
            Some(Poll::Pending) => {
                self.waiting = Some(logits.into_owned());
                return Extended::Waits;
            }
        };
        let choice = match self.sampler.choose_among(allowed, &logits, position, work) {
            Ok(choice) => choice,
            Err(error) => return Extended::Ended(Finish::Failed(error.to_string())),
        };
        if self.end_tokens.contains(&choice.id) {
            return Extended::Ended(Finish::EndToken(choice.id));
        }
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(choice.id);
        }
        self.tokens.push(choice.id);
        self.events
            .emit(TokenEvent::Token(GeneratedToken::from(choice)));
        if self.tokens.len() - self.prompt_len >= self.max_new_tokens {
            return Extended::Ended(Finish::MaxTokens);
        }
        match self.tokens.len() >= context_length {
            true => Extended::Ended(Finish::ContextFull),
            false => Extended::GoesOn,
        }
    }

    /// Reports how the job ended.
    pub(super) fn finish(&mut self, finish: Finish) {
        self.events.finish(finish);
    }

    /// Tokens in key/value memory.
    pub(super) fn cached(&self) -> usize {
        self.kv.as_ref().map_or(0, KvMemory::len)
    }
}
