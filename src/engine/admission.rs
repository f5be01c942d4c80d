//! Admission: jobs enter the engine and get their prefix from the cache or from other jobs.

use super::{
    prefix_sharing::{self, PrefixSource, SharedPrefix},
    scheduler::Action,
    sequence::{Sequence, Submission},
    step::Engine,
};
use crate::{cache::common_prefix, model::exec::Executor};

impl<E: Executor> Engine<E> {
    /// Admits a job, at once or after the restore of its prefix from snapshots.
    pub(super) fn admit(&mut self, submission: Submission) {
        if let Some(submission) = self.start_restore(submission) {
            self.enter(submission);
        }
    }

    /// Adds a job as the newest sequence.
    pub(super) fn enter(&mut self, submission: Submission) {
        let job = &submission.job;
        let known = self.cache.match_len(job.cache_scope, &job.prompt);
        let relatives = self.relatives(&submission);
        self.admitted += 1;
        let sequence = Sequence::new(
            submission,
            self.admitted,
            (known, relatives),
            self.speculation,
        );
        self.sequences.push(sequence);
    }

    /// Sequences whose prompts share enough with a job's that it may wait for them. What the cache
    /// could not hold is not waited for, because that is where a job takes it from.
    fn relatives(&self, submission: &Submission) -> Vec<SharedPrefix> {
        let job = &submission.job;
        let tokens_max = self.cache.bytes_max() / self.executor.kv_bytes_per_token().max(1);
        let tokens_max = tokens_max.min(job.prompt.len() - 1);
        let relative = |other: &Sequence<E::Kv>| SharedPrefix {
            number: other.number(),
            shared: common_prefix(other.prompt(), &job.prompt).min(tokens_max),
        };
        self.sequences
            .iter()
            .filter(|other| other.cache_scope() == job.cache_scope)
            .map(relative)
            .filter(|relative| relative.shared >= prefix_sharing::WORTH_TOKENS)
            .collect()
    }

    /// Decides what the sequences that have not begun begin with, and tells the readers of those
    /// that do not wait for another. By the sequences' places.
    pub(super) fn beginnings(&mut self) -> Vec<Option<PrefixSource>> {
        let members: Vec<_> = self.sequences.iter().map(Sequence::candidate).collect();
        let beginnings = prefix_sharing::beginnings(&members);
        for (place, beginning) in beginnings.iter().enumerate() {
            match *beginning {
                Some(PrefixSource::Forked(other, _)) => self.accept(place, Some(other)),
                Some(PrefixSource::Cached) => self.accept(place, None),
                Some(PrefixSource::Awaited(_)) | None => {}
            }
        }
        beginnings
    }

    /// Pins what a sequence begins with and reports it, once. What another has in memory goes
    /// through the cache, which keeps it until the sequence begins, whatever becomes of the other.
    fn accept(&mut self, place: usize, other: Option<usize>) {
        if self.sequences[place].is_accepted() {
            return;
        }
        if let Some(other) = other {
            self.sequences[other].lend(&mut self.cache);
        }
        let shared = self.sequences[place].accept(&mut self.cache);
        if other.is_some() {
            self.stats.shared_tokens += shared as u64;
        }
    }

    /// Prepares the sequences that run for their step.
    pub(super) fn begin(&mut self, plan: &mut [Action], beginnings: &[Option<PrefixSource>]) {
        for (place, decision) in plan.iter_mut().enumerate() {
            let Action::Run(tokens) = decision else {
                continue;
            };
            if self.sequences[place].is_preempted() {
                self.begin_again(place, beginnings[place]);
            }
            let sequence = &mut self.sequences[place];
            *tokens = sequence.begin(*tokens);
            if sequence.begin_first() {
                self.stats.queue_times.observe(sequence.age());
                let length = sequence.prompt().len();
                self.stats.prompt_lengths.observe(length as u64);
            }
        }
    }

    /// Gives a sequence that has lost its memory what others have of it. One that never had any is
    /// read as was reported when it came.
    fn begin_again(&mut self, place: usize, beginning: Option<PrefixSource>) {
        self.sequences[place].share(&mut self.cache);
        let Some(PrefixSource::Forked(other, tokens)) = beginning else {
            return;
        };
        // The plan of this step can have preempted the other sequence.
        let tokens = tokens.min(self.sequences[other].cached());
        if tokens > self.sequences[place].cached()
            && let Some(kv) = self.sequences[other].fork(tokens)
        {
            self.sequences[place].adopt(kv);
        }
    }
}
