//! Snapshots from the engine's side: KV caches handed over for saving, and prompts whose prefix is
//! restored instead of prefilled.
//!
//! While other sequences run, each step imports one chunk for each prompt, so that decoding is not
//! delayed.

use std::{
    sync::mpsc::{Receiver, TryRecvError},
    time::Duration,
};

use super::{Action, Engine, Sequence};
use crate::{
    cache::{
        CacheScope, Lease,
        snapshot::{KvChunk, SaveRequest, smoothed},
    },
    engine::{FinishReason, sequence::Submission},
    id::TokenId,
    model::exec::{Executor, KvCache, KvFormat},
};

/// Restore in progress.
pub(super) struct Restore<K> {
    /// Jobs that wait for this restore. The first one started it; the others joined later.
    submissions: Vec<Submission>,
    scope: CacheScope,
    /// Tokens of the prefix.
    tokens: Vec<TokenId>,
    /// The KV cache restored so far.
    kv: K,
    /// Set while the KV cache can share pages with a cache entry.
    _lease: Option<Lease>,
    pieces: Receiver<KvChunk>,
}

/// The state of a restore after a step.
enum Progress {
    /// Nothing new.
    Waits,
    /// More is there, and more is to come.
    GoesOn,
    /// The last chunk was imported.
    Done,
}

/// Minimum prompt tokens of a step for a time measurement.
const TIMED_TOKENS_MIN: usize = 32;

impl<K> Restore<K> {
    /// Reports the finish reason to all jobs.
    pub(super) fn finish(&mut self, finish: &FinishReason) {
        for submission in &mut self.submissions {
            submission.events.finish(finish.clone());
        }
    }

    /// Drops the jobs whose readers have gone. Returns whether any is left.
    fn is_wanted(&mut self) -> bool {
        self.submissions
            .retain(|submission| !submission.events.is_closed());
        !self.submissions.is_empty()
    }
}

impl<E: Executor> Engine<E> {
    /// Returns the format of exported KV caches.
    pub(in crate::engine) fn kv_format(&self) -> Option<KvFormat> {
        self.executor.kv_format()
    }

    /// Hands over the keys and values of a sequence that has ended. The last token of an answer that was
    /// cut is not in memory.
    pub(in crate::engine) fn save_snapshot(&mut self, order: SaveRequest) {
        self.retire_abandoned();
        let kv = self.cache.peek(order.scope(), order.tokens());
        let kv = kv
            .map(|(kv, _)| kv)
            .filter(|kv| kv.len() + 1 >= order.tokens().len() && kv.len() > order.start());
        let exported = kv.and_then(|kv| Some((kv.export(order.start()..kv.len())?, kv.len())));
        match exported {
            Some((exported, len)) => order.submit(exported, len),
            None => order.cancel(),
        }
    }

    /// Starts to restore a prefix of the prompt. Returns the submission if prefill is faster or
    /// there is no room.
    pub(in crate::engine) fn start_restore(
        &mut self,
        mut submission: Submission,
    ) -> Option<Submission> {
        let Some(restore) = submission.job.restore.take() else {
            return Some(submission);
        };
        let (scope, prompt) = (submission.job.cache_scope, &submission.job.prompt);
        let Some(beginning) = prompt.get(..restore.len()) else {
            return Some(submission);
        };
        let (kv, lease) = match self.cache.peek(scope, beginning) {
            Some((kv, lease)) => (kv, Some(lease)),
            None => (self.executor.new_kv(), None),
        };
        let known = kv.len();
        let nanos = self.stats.nanos_per_prefilled_token;
        let compute = (nanos > 0).then(|| Duration::from_nanos(nanos));
        if !restore.pays(known, compute) {
            return Some(submission);
        }
        let same = |restoring: &&mut Restore<E::Kv>| {
            restoring.scope == scope && restoring.tokens.starts_with(beginning)
        };
        if let Some(same) = self.restoring.iter_mut().find(same) {
            submission.before_restore = Some(known);
            same.submissions.push(submission);
            return None;
        }
        if !self.has_room(beginning.len()) {
            tracing::info!(
                tokens = beginning.len(),
                "snapshot restore skipped: KV cache full"
            );
            return Some(submission);
        }
        let waker = self.waker.clone();
        let tokens = beginning.to_vec();
        let Some(pieces) = restore.start(prompt, known, move || waker.wake_by_ref()) else {
            tracing::info!(
                tokens = tokens.len(),
                "snapshot restore skipped: restore queue full"
            );
            return Some(submission);
        };
        submission.before_restore = Some(known);
        self.restoring.push(Restore {
            submissions: vec![submission],
            scope,
            tokens,
            kv,
            _lease: lease,
            pieces,
        });
        None
    }

    /// Returns the tokens of all restores in progress, imported or not.
    pub(super) fn restoring_tokens(&self) -> usize {
        self.restoring
            .iter()
            .map(|restoring| restoring.tokens.len())
            .sum()
    }

    /// True if `tokens` more fit beside all KV caches, and then into the prefix cache.
    fn has_room(&self, tokens: usize) -> bool {
        let held: usize = self.sequences.iter().map(Sequence::held).sum();
        let all = held + self.restoring_tokens() + tokens;
        all <= self.limits.kv_tokens_max
            && tokens * self.executor.kv_bytes_per_token() <= self.cache.bytes_max()
    }

    /// Imports restored chunks: all of them if no sequence runs, else one for each prompt. A
    /// complete prefix makes its prompt a sequence. If running sequences need the memory, the
    /// youngest restores are dropped and prefilled. Returns whether anything happened.
    pub(super) fn restore(&mut self) -> bool {
        let mut happened = false;
        while !self.restoring.is_empty() && !self.has_room(0) {
            let youngest = self.restoring.pop();
            let submissions = youngest.into_iter().flat_map(|it| it.submissions);
            submissions.for_each(|submission| self.enter(submission));
            happened = true;
        }
        let is_alone = self.sequences.is_empty();
        let mut restoring = std::mem::take(&mut self.restoring);
        restoring.retain_mut(Restore::is_wanted);
        for mut restoring in restoring {
            match restoring.take_in(is_alone) {
                Progress::Done => self.enter_restored(restoring),
                Progress::GoesOn => self.restoring.push(restoring),
                Progress::Waits => {
                    self.restoring.push(restoring);
                    continue;
                }
            }
            happened = true;
        }
        happened
    }

    fn enter_restored(&mut self, restoring: Restore<E::Kv>) {
        let Restore {
            submissions,
            scope,
            tokens,
            kv,
            ..
        } = restoring;
        let key = submissions.first().and_then(|first| first.job.cache_key);
        let tokens = &tokens[..kv.len()];
        // A job that continues the sequence finds it in the cache.
        let _ = self.cache.insert(scope, key, tokens, kv);
        for submission in submissions {
            self.enter(submission);
        }
    }

    /// Updates the prefill time of a token.
    pub(super) fn time(&mut self, plan: &[Action], took: Duration) {
        let tokens = plan.iter().map(|decision| match *decision {
            Action::Run(tokens) if tokens > 1 => tokens,
            _ => 0,
        });
        let tokens: usize = tokens.sum();
        if tokens < TIMED_TOKENS_MIN {
            return;
        }
        let latest = u64::try_from(took.as_nanos() / tokens as u128).unwrap_or(u64::MAX);
        let nanos = &mut self.stats.nanos_per_prefilled_token;
        *nanos = smoothed(*nanos, latest);
    }
}

impl<K: KvCache> Restore<K> {
    /// Takes in one piece, or all that there are.
    fn take_in(&mut self, all: bool) -> Progress {
        let mut progress = Progress::Waits;
        loop {
            let piece = match self.pieces.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Empty) => return progress,
                Err(TryRecvError::Disconnected) => return Progress::Done,
            };
            let room = self.tokens.len() - self.kv.len();
            let taken = match piece.tokens <= room {
                true => self.kv.import(piece.tokens, &piece.bytes),
                false => break,
            };
            if let Err(error) = taken {
                tracing::error!(%error, "snapshot restore failed");
                self.kv = self.kv.fork(0);
                break;
            }
            progress = Progress::GoesOn;
            if !all {
                return progress;
            }
        }
        Progress::Done
    }
}
