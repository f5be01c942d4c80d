//! One step of all sequences: schedule, run, choose tokens.

mod snapshots;

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use self::snapshots::Restore;
use super::{
    EngineOptions, EngineStats, FinishReason, Speculation,
    prefix_sharing::PrefixSource,
    scheduler::{self, Action, StepLimits},
    sequence::{Extended, Sequence},
};
use crate::{
    cache::PrefixCache,
    model::exec::{ExecError, Executor, KvCache, Slot},
    sampling::Workspace,
};

/// Model and sequences. Lives on the engine thread.
pub(super) struct Engine<E: Executor> {
    pub(super) executor: E,
    limits: StepLimits,
    context_length: usize,
    /// Sequences, oldest first.
    pub(super) sequences: Vec<Sequence<E::Kv>>,
    /// Jobs whose prompts are being read from snapshots.
    restoring: Vec<Restore<E::Kv>>,
    /// Jobs admitted so far.
    pub(super) admitted: u64,
    pub(super) speculation: Speculation,
    pub(super) cache: PrefixCache<E::Kv>,
    kv_bytes_max: usize,
    wait_max: Option<Duration>,
    gap_max: Option<Duration>,
    /// Logits of the last step, one row for each requested token.
    logits: Vec<f32>,
    work: Workspace,
    /// Wakes the engine thread when a constraint is ready.
    waker: Waker,
    pub(super) stats: EngineStats,
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<E: Executor> Engine<E> {
    /// Creates an engine without sequences on the current thread.
    ///
    /// # Errors
    /// A text if the KV budget holds less than two tokens, or if the vocabulary is empty.
    pub(super) fn new(executor: E, options: &EngineOptions) -> Result<Self, String> {
        if executor.vocab_size() == 0 {
            return Err("the model's vocabulary is empty".to_owned());
        }
        let kv_tokens_max = options.kv_bytes_max / executor.kv_bytes_per_token().max(1);
        if kv_tokens_max < 2 {
            return Err(format!(
                "the key/value budget of {} bytes holds {kv_tokens_max} tokens of {} bytes each, \
                 but must hold at least 2",
                options.kv_bytes_max,
                executor.kv_bytes_per_token()
            ));
        }
        Ok(Self {
            context_length: executor.context_length().min(kv_tokens_max),
            limits: StepLimits {
                running_max: options.running_max,
                prefill_tokens_max: options.step_prefill_tokens_max,
                kv_tokens_max,
            },
            executor,
            sequences: Vec::new(),
            restoring: Vec::new(),
            admitted: 0,
            speculation: options.speculation,
            cache: PrefixCache::new(options.cache_bytes_max),
            kv_bytes_max: options.kv_bytes_max,
            wait_max: options.queue_timeout,
            gap_max: options.decode_stall_max,
            logits: Vec::new(),
            work: Workspace::default(),
            waker: Waker::from(Arc::new(Unpark(thread::current()))),
            stats: EngineStats::default(),
        })
    }

    /// Returns the maximum length of a sequence in tokens.
    pub(super) fn context_length(&self) -> usize {
        self.context_length
    }

    /// Returns the vocabulary size.
    pub(super) fn vocab_size(&self) -> usize {
        self.executor.vocab_size()
    }

    /// True if no job is left.
    pub(super) fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.restoring.is_empty()
    }

    /// Ends all jobs.
    pub(super) fn finish_all(&mut self, finish: &FinishReason) {
        for mut sequence in self.sequences.drain(..) {
            sequence.finish(finish.clone());
        }
        for mut restoring in self.restoring.drain(..) {
            restoring.finish(finish);
        }
    }

    /// Returns the engine's counters; the handle adds the jobs in the queue.
    pub(super) fn stats(&self) -> EngineStats {
        let held = || self.sequences.iter().filter_map(Sequence::kv_bytes);
        EngineStats {
            running: held().count(),
            kv_bytes: held().sum(),
            cache: self.cache.stats(),
            ..self.stats
        }
    }

    /// Runs one step. Returns false if nothing can run until a job comes or a consumer reads or
    /// disconnects.
    pub(super) fn step(&mut self) -> bool {
        self.retire_abandoned();
        self.retire_queue_timeouts();
        let resumed = self.restore() | self.resume();
        let beginnings = self.beginnings();
        let mut plan = self.plan(&beginnings);
        self.preempt(&plan);
        self.begin(&mut plan, &beginnings);
        self.shrink_cache(&plan);
        if !plan
            .iter()
            .any(|decision| matches!(decision, Action::Run(_)))
        {
            return resumed;
        }
        self.count(&plan);
        let begun = Instant::now();
        let ran = self.run(&plan);
        self.time(&plan, begun.elapsed());
        match ran {
            Ok(()) => self.extend(&plan),
            Err(error) => self.fail(&plan, &error),
        }
        let time = begun.elapsed().as_micros();
        self.stats.step_times.observe(time as u64);
        true
    }

    fn retire_abandoned(&mut self) {
        self.sequences.retain_mut(|sequence| {
            let abandoned = sequence.is_abandoned();
            if abandoned {
                sequence.retire(&mut self.cache);
            }
            !abandoned
        });
    }

    /// Ends the jobs that exceeded the queue timeout.
    fn retire_queue_timeouts(&mut self) {
        let Some(wait_max) = self.wait_max else {
            return;
        };
        let (cache, timeouts) = (&mut self.cache, &mut self.stats.queue_timeouts);
        self.sequences.retain_mut(|sequence| {
            let has_timed_out = sequence
                .waits_since()
                .is_some_and(|since| since.elapsed() >= wait_max);
            if has_timed_out {
                *timeouts += 1;
                sequence.finish(FinishReason::QueueTimeout);
                sequence.retire(cache);
            }
            !has_timed_out
        });
    }

    /// Returns the time of the next queue timeout; `None` if no job waits.
    pub(super) fn next_queue_timeout(&self) -> Option<Instant> {
        let wait_max = self.wait_max?;
        let waiting = self.sequences.iter().filter_map(Sequence::waits_since);
        waiting.min()?.checked_add(wait_max)
    }

    fn plan(&self, beginnings: &[Option<PrefixSource>]) -> Vec<Action> {
        let view = |(sequence, beginning): (&Sequence<E::Kv>, &Option<PrefixSource>)| {
            sequence.view(match *beginning {
                Some(PrefixSource::Awaited(leader)) => Some(leader),
                Some(PrefixSource::Cached | PrefixSource::Forked(..)) | None => None,
            })
        };
        let views: Vec<_> = self.sequences.iter().zip(beginnings).map(view).collect();
        let nanos_per_token = self.stats.nanos_per_prefilled_token;
        let limits = self.limits.beside(&views, self.gap_max, nanos_per_token);
        scheduler::plan(&limits, &views)
    }

    fn preempt(&mut self, plan: &[Action]) {
        for (sequence, decision) in self.sequences.iter_mut().zip(plan) {
            if *decision == Action::Preempt {
                sequence.preempt();
                self.stats.preemptions += 1;
            }
        }
    }

    /// Shrinks the cache to the memory that the planned step leaves. If only pinned entries are
    /// left and they are still too large, the youngest waiting sequences lose theirs.
    fn shrink_cache(&mut self, plan: &[Action]) {
        let taken = |(sequence, decision): (&Sequence<E::Kv>, &Action)| match *decision {
            Action::Run(tokens) => sequence.held() + tokens,
            Action::Keep | Action::Preempt => sequence.held(),
        };
        let tokens: usize = self.sequences.iter().zip(plan).map(taken).sum();
        let tokens = tokens + self.restoring_tokens();
        let bytes = tokens * self.executor.kv_bytes_per_token();
        let free = self.kv_bytes_max.saturating_sub(bytes);
        self.cache.shrink(free);
        for sequence in self.sequences.iter_mut().rev() {
            if self.cache.bytes() <= free {
                return;
            }
            if sequence.is_pinned() {
                sequence.preempt();
                self.stats.preemptions += 1;
                self.cache.shrink(free);
            }
        }
    }

    fn count(&mut self, plan: &[Action]) {
        self.stats.steps += 1;
        for (sequence, decision) in self.sequences.iter().zip(plan) {
            if let Action::Run(tokens) = *decision
                && !sequence.is_decoding()
            {
                self.stats.prefilled_tokens += tokens as u64;
            }
        }
    }

    fn run(&mut self, plan: &[Action]) -> Result<(), ExecError> {
        let mut slots = Vec::new();
        let mut reads = false;
        for (sequence, decision) in self.sequences.iter_mut().zip(plan) {
            if let Action::Run(tokens) = *decision {
                reads |= !sequence.is_decoding();
                slots.push(sequence.slot(tokens, || self.executor.new_kv()));
            }
        }
        let rows = slots.iter().map(|slot| slot.logit_rows).sum();
        let lengths: Vec<_> = slots
            .iter()
            .map(|slot| slot.kv.len() + slot.tokens.len())
            .collect();
        let start = Instant::now();
        self.executor.step(&mut slots, &mut self.logits)?;
        match reads {
            true => self.stats.prefill_time += start.elapsed(),
            false => self.stats.decode_time += start.elapsed(),
        }
        check_lengths(&slots, &lengths)?;
        check_logits(&self.logits, rows, self.executor.vocab_size())
    }

    /// Samples from the logits of all sequences of the step.
    fn extend(&mut self, plan: &[Action]) {
        let logits = std::mem::take(&mut self.logits);
        let (mut rest, width) = (&logits[..], self.executor.vocab_size());
        let mut decisions = plan.iter();
        self.choose(|sequence| {
            let ran = matches!(decisions.next(), Some(Action::Run(_)));
            let count = if ran { sequence.rows() } else { 0 };
            let rows = rest.split_off(..count * width)?;
            (count > 0).then_some(Cow::Borrowed(rows))
        });
        self.logits = logits;
    }

    /// Samples from the logits of sequences whose constraint has become ready. Returns true if
    /// there was one.
    fn resume(&mut self) -> bool {
        self.choose(|sequence| sequence.take_waiting().map(Cow::Owned))
    }

    /// Chooses tokens from the logits that sequences have. Returns whether one was chosen.
    fn choose<'a>(
        &mut self,
        mut logits: impl FnMut(&mut Sequence<E::Kv>) -> Option<Cow<'a, [f32]>>,
    ) -> bool {
        let mut context = Context::from_waker(&self.waker);
        let bounds = (self.executor.vocab_size(), self.context_length);
        let (mut chosen, stats) = (0, &mut self.stats);
        self.sequences.retain_mut(|sequence| {
            let Some(rows) = logits(sequence) else {
                return true;
            };
            let is_first = sequence.answered() == 0;
            let outcome = sequence.extend(rows, bounds, (&mut self.work, &mut context));
            chosen += outcome.chosen;
            if is_first && outcome.chosen > 0 {
                stats.first_token_times.observe(sequence.age());
            }
            if outcome.drafted > 0 {
                stats.drafted_tokens += outcome.drafted as u64;
                stats.accepted_tokens += outcome.chosen as u64 - 1;
            }
            let Extended::Ended(finish) = outcome.extended else {
                return true;
            };
            if !matches!(finish, FinishReason::Failed(_)) {
                stats.answer_lengths.observe(sequence.answered() as u64);
                sequence.retire(&mut self.cache);
            }
            sequence.finish(finish);
            false
        });
        self.stats.generated_tokens += chosen as u64;
        chosen > 0
    }

    /// Ends the sequences of a failed step, because their KV caches are undefined. Other sequences
    /// continue: the failure may be due to the step's size. The cache is cleared, because its
    /// entries may share pages with the failed sequences.
    fn fail(&mut self, plan: &[Action], error: &ExecError) {
        let mut decisions = plan.iter();
        let mut failed = 0;
        self.sequences.retain_mut(|sequence| {
            let ran = matches!(decisions.next(), Some(Action::Run(_)));
            if ran {
                sequence.finish(FinishReason::Failed(error.to_string()));
                failed += 1;
            }
            !ran
        });
        self.cache.clear();
        let pinned = self
            .sequences
            .iter_mut()
            .filter(|sequence| sequence.is_pinned());
        pinned.for_each(Sequence::preempt);
        tracing::error!(%error, sequences = failed, "engine step failed");
    }
}

/// Checks that each KV cache grew by its tokens. Otherwise the sequence would run forever.
fn check_lengths<K: KvCache>(slots: &[Slot<'_, K>], expected: &[usize]) -> Result<(), ExecError> {
    match slots
        .iter()
        .zip(expected)
        .find(|(slot, length)| slot.kv.len() != **length)
    {
        Some((slot, length)) => Err(ExecError(format!(
            "the executor left {} tokens in a memory that must hold {length}",
            slot.kv.len()
        ))),
        None => Ok(()),
    }
}

fn check_logits(logits: &[f32], rows: usize, vocab_size: usize) -> Result<(), ExecError> {
    if logits.len() == rows * vocab_size {
        return Ok(());
    }
    Err(ExecError(format!(
        "the executor gave {} logits, but {rows} rows of {vocab_size} were asked for",
        logits.len()
    )))
}
