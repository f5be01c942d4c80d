//! Random jobs against the scheduler alone: its bounds hold in every step, and every job ends.

use proptest::prelude::*;

use crate::engine::scheduler::{Action, SequenceView, StepLimits, plan};

/// Event channel capacity of a simulated consumer.
const CHANNEL: usize = 8;

/// Simulated job.
#[derive(Debug, Clone)]
struct Simulated {
    arrives_at: usize,
    prompt: usize,
    answer: usize,
    /// The consumer takes an event every `pace` steps.
    pace: usize,
    generated: usize,
    cached: usize,
    held: usize,
    unread: usize,
    drafted: usize,
}

impl Simulated {
    fn view(&self) -> SequenceView {
        let room = if self.held == 0 { CHANNEL / 2 } else { 2 };
        SequenceView {
            tokens: self.prompt + self.generated,
            cached: self.cached,
            held: self.held,
            ready: CHANNEL - self.unread >= room,
            awaited: None,
            drafted: self.drafted,
        }
    }

    fn apply(&mut self, step: usize, decision: Action) {
        match decision {
            Action::Run(tokens) => {
                // These drafts are rejected.
                self.cached += tokens.min(self.prompt + self.generated - self.cached);
                self.held = self.cached;
            }
            Action::Keep => {}
            Action::Preempt => (self.cached, self.held) = (0, 0),
        }
        if self.cached == self.prompt + self.generated {
            self.generated += 1;
            self.unread += 1;
        }
        if step.is_multiple_of(self.pace) {
            self.unread = self.unread.saturating_sub(1);
        }
    }
}

fn check_plan(
    limits: &StepLimits,
    views: &[SequenceView],
    plan: &[Action],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(plan.len(), views.len());
    let (mut running, mut reading, mut held) = (0, 0, 0);
    for (view, decision) in views.iter().zip(plan) {
        match *decision {
            Action::Run(tokens) => {
                let pending = view.tokens - view.cached;
                let most = if pending == 1 {
                    1 + view.drafted
                } else {
                    pending
                };
                prop_assert!(view.ready && (1..=most).contains(&tokens));
                running += 1;
                reading += if view.tokens - view.cached > 1 {
                    tokens
                } else {
                    0
                };
                held += view.cached + tokens;
            }
            Action::Keep => held += view.held,
            Action::Preempt => prop_assert!(view.held > 0, "nothing to evict"),
        }
    }
    prop_assert!(running <= limits.running_max);
    prop_assert!(reading <= limits.prefill_tokens_max);
    prop_assert!(held <= limits.kv_tokens_max);
    if let Some(oldest) = views.iter().position(|view| view.ready) {
        prop_assert!(
            matches!(plan[oldest], Action::Run(_)),
            "the oldest ready one runs"
        );
    }
    Ok(())
}

/// Runs until all jobs have ended and returns the number of steps.
fn simulate(limits: &StepLimits, jobs: &[Simulated]) -> Result<usize, TestCaseError> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| job.arrives_at);
    let longest_wait = jobs.last().map_or(0, |job| job.arrives_at);
    // The oldest job advances by a token whenever its consumer has room.
    let work: usize = jobs
        .iter()
        .map(|job| (job.prompt + job.answer) * (1 + job.answer) * 9)
        .sum();
    for step in 0.. {
        prop_assert!(step <= longest_wait + work, "some job never ends");
        let present = jobs.partition_point(|job| job.arrives_at <= step);
        let views: Vec<SequenceView> = jobs[..present].iter().map(Simulated::view).collect();
        let decisions = plan(limits, &views);
        check_plan(limits, &views, &decisions)?;
        jobs.iter_mut()
            .zip(decisions)
            .for_each(|(job, decision)| job.apply(step, decision));
        jobs.retain(|job| job.generated < job.answer);
        if jobs.is_empty() {
            return Ok(step);
        }
    }
    Ok(0)
}

fn simulated() -> impl Strategy<Value = Simulated> {
    (
        0usize..40,
        1usize..60,
        1usize..40,
        1usize..9,
        0usize..60,
        0usize..8,
    )
        .prop_map(
            |(arrives_at, prompt, answer, pace, known, drafted)| Simulated {
                arrives_at,
                prompt,
                answer,
                pace,
                generated: 0,
                unread: 1,
                // Some prompts have a cached prefix.
                cached: known.min(prompt - 1),
                held: 0,
                drafted,
            },
        )
}

proptest! {
    #[test]
    fn every_job_ends_and_bounds_hold(
        jobs in prop::collection::vec(simulated(), 1..20),
        running_max in 1usize..6,
        prefill_tokens_max in 1usize..20,
        // The longest job just fits.
        kv_tokens_max in 100usize..300,
    ) {
        simulate(&StepLimits { running_max, prefill_tokens_max, kv_tokens_max }, &jobs)?;
    }

    #[test]
    fn nothing_is_evicted_while_there_is_room(
        jobs in prop::collection::vec(simulated(), 1..20),
        running_max in 1usize..6,
    ) {
        let limits = StepLimits { running_max, prefill_tokens_max: 16, kv_tokens_max: 20_000 };
        let views: Vec<SequenceView> = jobs.iter().map(|job| SequenceView {
            cached: job.prompt / 2,
            held: job.prompt / 2,
            ..job.view()
        }).collect();
        prop_assert!(!plan(&limits, &views).contains(&Action::Preempt));
    }
}
