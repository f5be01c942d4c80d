//! One generation inside the engine: its tokens, its key/value memory and its reader.

mod answer;
mod memory;

use std::{sync::Arc, time::Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    FinishReason, Job, Speculation, ngram_draft::NgramDrafter, prefix_sharing::SharedPrefix,
    scheduler::SequenceView, token_stream::EventSink,
};
use crate::{
    cache::{CacheScope, Lease, Pin, PromptCacheKey},
    id::TokenId,
    model::exec::{KvCache, Slot},
    sampling::{Constraint, Sampler},
};

/// Job on its way to the engine thread.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) job: Job,
    pub(super) events: EventSink,
    pub(super) submitted: Instant,
    /// The job's place among the running and the waiting, given back when it is dropped.
    pub(super) place: OwnedSemaphorePermit,
    /// Cached tokens of the prompt before the rest was restored from snapshots; `None` without a
    /// restore.
    pub(super) before_restore: Option<usize>,
}

/// Admitted job.
#[derive(Debug)]
pub(super) struct Sequence<K> {
    /// Admission order: the oldest sequence has the lowest number.
    number: u64,
    submitted: Instant,
    /// True if it has had a step.
    begun: bool,
    /// Prompt and generated tokens.
    tokens: Vec<TokenId>,
    prompt_len: usize,
    max_new_tokens: usize,
    end_tokens: Arc<[TokenId]>,
    sampler: Sampler,
    constraint: Option<Box<dyn Constraint>>,
    /// Logits after the last token, while the constraint is not ready to choose from them.
    waiting: Option<Vec<f32>>,
    /// The drafter; `None` without drafting.
    drafter: Option<NgramDrafter>,
    /// The latest draft.
    draft: Vec<TokenId>,
    /// The last token and the drafted ones, in a step that verifies a draft; else empty.
    trial: Vec<TokenId>,
    /// KV cache of the first tokens; `None` if not computed.
    kv: Option<K>,
    /// Set while the KV cache is only a fork of a cache entry, before the first step.
    pin: Option<Pin>,
    /// Set while the KV cache can share pages with a cache entry.
    lease: Option<Lease>,
    cache_scope: CacheScope,
    cache_key: Option<PromptCacheKey>,
    /// Older ones whose prompts begin like this one.
    relatives: Vec<SharedPrefix>,
    /// Tokens of the prompt that the cache had when it came.
    known: usize,
    /// Cached tokens of the prompt before a restore from snapshots; `None` without one.
    before_restore: Option<usize>,
    /// True if the reader knows what it begins with.
    accepted: bool,
    /// True if it has lost a memory and has none since.
    evicted: bool,
    events: EventSink,
    _place: OwnedSemaphorePermit,
}

/// The result of extending a sequence.
#[derive(Debug)]
pub(super) enum Extended {
    /// A token was chosen, and more are to come.
    GoesOn,
    /// They wait for the constraint.
    Waits,
    /// The job has ended.
    Ended(FinishReason),
}

/// The result of a step for a sequence.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) extended: Extended,
    /// Tokens chosen, an end token included.
    pub(super) chosen: usize,
    /// Drafted tokens in the step.
    pub(super) drafted: usize,
}

impl<K: KvCache> Sequence<K> {
    /// Creates a sequence from a submission, its number, and its cached and shared prefixes.
    pub(super) fn new(
        submission: Submission,
        number: u64,
        (known, relatives): (usize, Vec<SharedPrefix>),
        speculation: Speculation,
    ) -> Self {
        let Submission {
            job,
            events,
            submitted,
            place,
            before_restore,
        } = submission;
        // The mask after a drafted token is known only once the draft is accepted.
        let drafts = speculation == Speculation::Ngram && job.constraint.is_none();
        Self {
            number,
            submitted,
            begun: false,
            drafter: drafts.then(NgramDrafter::new),
            draft: Vec::new(),
            trial: Vec::new(),
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
            before_restore,
            accepted: false,
            evicted: false,
            events,
            _place: place,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the microseconds since submission.
    pub(super) fn age(&self) -> u64 {
        self.submitted.elapsed().as_micros() as u64
    }

    /// When it was submitted, if it still waits for its first step.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        (!self.begun).then_some(self.submitted)
    }

    /// Tokens of the answer so far.
    pub(super) fn answered(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }

    /// Says that it has its first step; false if it had one.
    pub(super) fn begin_first(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    pub(super) fn prompt(&self) -> &[TokenId] {
        &self.tokens[..self.prompt_len]
    }

    pub(super) fn cache_scope(&self) -> CacheScope {
        self.cache_scope
    }

    /// Returns the state for the scheduler; `awaited` is the index of the sequence that it waits
    /// for.
    pub(super) fn view(&self, awaited: Option<usize>) -> SequenceView {
        SequenceView {
            tokens: self.tokens.len(),
            cached: self.cached(),
            held: self.held(),
            ready: self.is_ready(),
            awaited,
            drafted: self.draft.len().min(self.events.spare()),
        }
    }

    /// True if the stream has room. After a preemption half of the stream must be free, or a slow
    /// consumer would cause a prefill every few tokens.
    fn is_ready(&self) -> bool {
        match self.held() {
            _ if self.waiting.is_some() => false,
            0 => self.events.is_half_free(),
            _ => self.events.has_room(),
        }
    }

    /// True if its reader has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Tokens in key/value memory of its own.
    pub(super) fn held(&self) -> usize {
        if self.is_pinned() { 0 } else { self.cached() }
    }

    /// Returns the bytes of its own KV cache; `None` if it has none.
    pub(super) fn kv_bytes(&self) -> Option<usize> {
        let own = self.kv.as_ref().filter(|_| !self.is_pinned());
        own.map(KvCache::bytes)
    }

    /// True if its memory is only shared with the prefix cache.
    pub(super) fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }

    /// True if it waits for the next token of its answer, not for its prompt.
    pub(super) fn is_decoding(&self) -> bool {
        self.tokens.len() > self.prompt_len && self.tokens.len() == self.cached() + 1
    }

    /// Returns the number of logits rows of the step: one once all tokens are cached, and one for
    /// each drafted token.
    pub(super) fn rows(&self) -> usize {
        (self.cached() + 1).saturating_sub(self.tokens.len())
    }

    /// Builds the sequence's slot of the step: its next `count` tokens, drafted ones last.
    pub(super) fn slot(&mut self, count: usize, new_kv: impl FnOnce() -> K) -> Slot<'_, K> {
        let start = self.cached();
        let (end, known) = (start + count, self.tokens.len());
        let kv = self.kv.get_or_insert_with(new_kv);
        self.trial.clear();
        if end <= known {
            return Slot {
                tokens: &self.tokens[start..end],
                kv,
                logit_rows: usize::from(end == known),
            };
        }
        self.trial.extend_from_slice(&self.tokens[start..]);
        self.trial.extend_from_slice(&self.draft[..end - known]);
        Slot {
            tokens: &self.trial,
            kv,
            logit_rows: 1 + end - known,
        }
    }

    /// Reports the finish reason.
    pub(super) fn finish(&mut self, finish: FinishReason) {
        self.events.finish(finish);
    }

    /// Returns the tokens in its KV cache.
    pub(super) fn cached(&self) -> usize {
        self.kv.as_ref().map_or(0, KvCache::len)
    }
}
