//! The scheduler: decides what the next step runs, as a pure function of the sequences' lengths.
//!
//! Sequences are ordered by age, and age is the only priority:
//!
//! - The oldest ready sequences run, as many as fit the limits on sequences and on KV memory. A
//!   sequence claims memory for all its tokens, so a prompt in prefill never loses its slot to a
//!   younger one. Whether a sequence fits depends on older ones only, and the oldest ready one
//!   always fits. So something advances in every step, and every job ends.
//! - Answers grow, so a young sequence may stop fitting. The scheduler preempts it: it loses its KV
//!   cache, and its prompt and answer are prefilled again later.
//! - A sequence that waits for its consumer claims nothing. It keeps its KV cache while there is
//!   room.
//! - A cached prefix shortens the prefill of a sequence, but not its claim: its own KV cache takes
//!   memory from its first step.
//! - A sequence that waits for another one to prefill their common prefix does not run. The other
//!   one runs as soon as the waiting one would.
//! - Every decoding sequence runs its next token. Half of the prefill budget goes to the oldest
//!   prompt, so that the longest prompt advances. The other half goes to the shortest rests, so
//!   that a short prompt does not wait for a long one. While sequences decode, the budget is small
//!   enough to keep their delay short.

use std::time::Duration;

/// Limits of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLimits {
    /// Sequences in a step.
    pub(super) running_max: usize,
    /// Prompt tokens in a step.
    pub(super) prefill_tokens_max: usize,
    /// KV tokens of all sequences together.
    pub(super) kv_tokens_max: usize,
}

/// The state of a sequence that the scheduler looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SequenceView {
    /// Prompt and generated tokens.
    pub(super) tokens: usize,
    /// Tokens in the KV cache; always fewer than all, because the last token's logits are still
    /// missing.
    pub(super) cached: usize,
    /// Tokens in the sequence's own KV cache: 0 while all cached tokens are shared with the prefix
    /// cache, else `cached`.
    pub(super) held: usize,
    /// True if the stream has room for the events of a step. It stays true until the sequence
    /// generates a token, because only the engine fills the stream. The proof that every job ends
    /// needs this.
    pub(super) ready: bool,
    /// Index of an older sequence whose prefill this one waits for.
    pub(super) awaited: Option<usize>,
    /// Drafted tokens that may be run behind the last one.
    pub(super) drafted: usize,
}

impl StepLimits {
    /// The same, but while answers are written no more prompt tokens in a step than take `gap_max`, of
    /// `nanos_per_token` each. Where that is not known yet (0), it is the same.
    pub(super) fn beside(
        self,
        sequences: &[SequenceView],
        gap_max: Option<Duration>,
        nanos_per_token: u64,
    ) -> Self {
        let decodes = |view: &SequenceView| view.may_run() && view.held > 0 && view.pending() == 1;
        let Some(gap_max) = gap_max.filter(|_| sequences.iter().any(decodes)) else {
            return self;
        };
        let tokens = gap_max.as_nanos().checked_div(u128::from(nanos_per_token));
        let tokens = tokens.map_or(usize::MAX, |tokens| tokens as usize);
        Self {
            prefill_tokens_max: self
                .prefill_tokens_max
                .min(tokens.max(BESIDE_DECODING_TOKENS_MIN)),
            ..self
        }
    }
}

impl SequenceView {
    fn pending(self) -> usize {
        self.tokens - self.cached
    }

    fn may_run(self) -> bool {
        self.ready && self.awaited.is_none()
    }
}

/// The action for a sequence in the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Runs this number of its next tokens, at least one; those beyond the last token are drafted
    /// ones.
    Run(usize),
    /// Keeps its KV cache.
    Keep,
    /// Loses its KV cache.
    Preempt,
}

/// Inverse of the part of the KV budget that a newly admitted sequence leaves free for growth.
/// Without it, the scheduler would soon preempt the new sequence.
const GROWTH_SHARE: usize = 16;

/// Prompt tokens that a step may have in any case: with fewer, reading the model's weights takes most of
/// the time.
const BESIDE_DECODING_TOKENS_MIN: usize = 64;

/// Most drafted tokens in one step, shared evenly. Many sequences fill a device without drafts, and
/// a rejected draft costs as much as a useful token.
const DRAFTS_MAX: usize = 16;

/// Plans an action for each sequence, oldest first.
pub(super) fn plan(limits: &StepLimits, sequences: &[SequenceView]) -> Vec<Action> {
    let running = running(limits, sequences);
    let mut decisions = keep_or_preempt(limits, sequences, &running);
    for (index, tokens) in prefill_shares(limits, sequences, &running) {
        decisions[index] = Action::Run(tokens);
    }
    let decoding = running
        .iter()
        .copied()
        .filter(|&index| sequences[index].pending() == 1)
        .collect::<Vec<_>>();
    let mut free = free_tokens(limits, sequences, &running, &decisions);
    let share = DRAFTS_MAX / decoding.len().max(1);
    for index in decoding {
        let drafted = sequences[index].drafted.min(share).min(free);
        free -= drafted;
        decisions[index] = Action::Run(1 + drafted);
    }
    decisions
}

/// Returns the KV tokens that running sequences do not claim and others do not keep.
fn free_tokens(
    limits: &StepLimits,
    sequences: &[SequenceView],
    running: &[usize],
    decisions: &[Action],
) -> usize {
    let claimed: usize = running.iter().map(|&index| sequences[index].tokens).sum();
    let kept: usize = (0..sequences.len())
        .filter(|index| running.binary_search(index).is_err())
        .filter(|&index| decisions[index] == Action::Keep)
        .map(|index| sequences[index].held)
        .sum();
    limits.kv_tokens_max.saturating_sub(claimed + kept)
}

/// Returns the indices of the sequences that run, oldest first.
fn running(limits: &StepLimits, sequences: &[SequenceView]) -> Vec<usize> {
    let mut claimed = 0;
    let mut running = Vec::new();
    for (index, view) in sequences
        .iter()
        .enumerate()
        .filter(|(_, view)| view.may_run())
    {
        if running.len() == limits.running_max {
            break;
        }
        let joins = view.held == 0 && !running.is_empty();
        let growth = if joins {
            limits.kv_tokens_max / GROWTH_SHARE
        } else {
            0
        };
        if claimed + view.tokens + growth <= limits.kv_tokens_max {
            claimed += view.tokens;
            running.push(index);
        }
    }
    running
}

/// Returns [`Action::Preempt`] for each waiting sequence, oldest first, whose KV cache does not fit
/// beside the running claims.
fn keep_or_preempt(
    limits: &StepLimits,
    sequences: &[SequenceView],
    running: &[usize],
) -> Vec<Action> {
    let claimed: usize = running.iter().map(|&index| sequences[index].tokens).sum();
    let mut free = limits.kv_tokens_max.saturating_sub(claimed);
    let mut decide = |index: usize, view: &SequenceView| {
        if running.binary_search(&index).is_ok() {
            return Action::Keep;
        }
        if view.held > free {
            return Action::Preempt;
        }
        free -= view.held;
        Action::Keep
    };
    sequences
        .iter()
        .enumerate()
        .map(|(index, view)| decide(index, view))
        .collect()
}

/// Shares the prefill budget among running sequences; each gets at least one token.
fn prefill_shares(
    limits: &StepLimits,
    sequences: &[SequenceView],
    running: &[usize],
) -> Vec<(usize, usize)> {
    let needs = needs(sequences);
    let mut reading: Vec<(usize, usize)> = running
        .iter()
        .map(|&index| (index, sequences[index].pending()))
        .filter(|&(_, pending)| pending > 1)
        .collect();
    let Some((oldest, pending)) = reading.first_mut() else {
        return Vec::new();
    };
    let oldest = *oldest;
    let reserved = limits.prefill_tokens_max.div_ceil(2).min(*pending);
    *pending -= reserved;
    let mut budget = limits.prefill_tokens_max - reserved;
    reading.sort_by_key(|&(index, pending)| (pending.min(needs[index]), index));
    let share = |(index, pending): (usize, usize)| {
        let share = pending.min(budget);
        budget -= share;
        (
            index,
            if index == oldest {
                share + reserved
            } else {
                share
            },
        )
    };
    reading
        .into_iter()
        .map(share)
        .filter(|&(_, tokens)| tokens > 0)
        .collect()
}

/// Returns, for each sequence, the least remaining prefill among the sequences that wait for it,
/// directly or indirectly.
fn needs(sequences: &[SequenceView]) -> Vec<usize> {
    let mut needs = vec![usize::MAX; sequences.len()];
    // Newest first, because each sequence waits for an older one.
    for (index, view) in sequences.iter().enumerate().rev() {
        if let Some(leader) = view.awaited {
            needs[leader] = needs[leader].min(needs[index]).min(view.pending());
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::{
        Action::{Keep, Preempt, Run},
        *,
    };

    const LIMITS: StepLimits = StepLimits {
        running_max: 3,
        prefill_tokens_max: 8,
        kv_tokens_max: 64,
    };

    fn view(tokens: usize, cached: usize) -> SequenceView {
        SequenceView {
            tokens,
            cached,
            held: cached,
            ready: true,
            awaited: None,
            drafted: 0,
        }
    }

    fn stalled(tokens: usize, cached: usize) -> SequenceView {
        SequenceView {
            ready: false,
            ..view(tokens, cached)
        }
    }

    fn check(sequences: &[SequenceView], expected: &[Action]) {
        assert_eq!(plan(&LIMITS, sequences), expected, "{sequences:?}");
    }

    #[test]
    fn nothing_to_do() {
        check(&[], &[]);
        check(&[stalled(5, 4), stalled(9, 0)], &[Keep, Keep]);
    }

    #[test]
    fn all_that_decode_run_together() {
        check(
            &[view(5, 4), view(9, 8), view(2, 1)],
            &[Run(1), Run(1), Run(1)],
        );
        check(&[view(1, 0), view(1, 0)], &[Run(1), Run(1)]);
    }

    #[test]
    fn a_long_prompt_is_read_in_chunks_beside_those_that_decode() {
        check(&[view(30, 0), view(9, 8)], &[Run(8), Run(1)]);
        check(&[view(9, 8), view(30, 24)], &[Run(1), Run(6)]);
        check(&[view(9, 8), view(30, 29)], &[Run(1), Run(1)]);
    }

    #[test]
    fn a_short_prompt_does_not_wait_for_a_long_one_and_the_oldest_gets_half() {
        check(&[view(30, 0), view(3, 0)], &[Run(5), Run(3)]);
        check(&[view(30, 0), view(7, 0)], &[Run(4), Run(4)]);
        check(&[view(3, 0), view(30, 0)], &[Run(3), Run(5)]);
        check(&[view(20, 0), view(20, 0)], &[Run(8), Keep]);
        check(
            &[view(20, 0), view(6, 4), view(6, 3)],
            &[Run(4), Run(2), Run(2)],
        );
    }

    #[test]
    fn what_others_wait_for_is_read_as_soon_as_they_would_be() {
        let waiting = |tokens, leader| SequenceView {
            awaited: Some(leader),
            ..view(tokens, 0)
        };
        let alone = [view(20, 0), view(15, 0), view(9, 0)];
        check(&alone, &[Run(4), Keep, Run(4)]);
        let awaited = [view(20, 0), view(15, 0), view(9, 0), waiting(8, 1)];
        check(&awaited, &[Run(4), Run(4), Keep, Keep]);
        let chain = [
            view(20, 0),
            view(15, 0),
            view(9, 0),
            waiting(12, 1),
            waiting(8, 3),
        ];
        check(&chain, &[Run(4), Run(4), Keep, Keep, Keep]);
    }

    #[test]
    fn drafts_share_the_free_tokens() {
        let drafting = |tokens, drafted| SequenceView {
            drafted,
            ..view(tokens, tokens - 1)
        };
        check(&[drafting(9, 7)], &[Run(8)]);
        check(
            &[drafting(9, 7), drafting(9, 3), view(9, 0)],
            &[Run(8), Run(4), Run(8)],
        );
        check(
            &[drafting(9, 7), drafting(9, 7), drafting(9, 2)],
            &[Run(6), Run(6), Run(3)],
        );
        check(&[drafting(60, 7)], &[Run(5)]);
        check(&[drafting(40, 7), stalled(20, 19)], &[Run(6), Keep]);
        check(&[view(64, 63)], &[Run(1)]);
    }

    #[test]
    fn the_oldest_run_when_there_are_too_many() {
        check(
            &[view(5, 4), view(5, 4), view(5, 4), view(1, 0)],
            &[Run(1), Run(1), Run(1), Keep],
        );
        check(
            &[view(5, 4), stalled(5, 4), view(5, 4), view(1, 0)],
            &[Run(1), Keep, Run(1), Run(1)],
        );
    }

    #[test]
    fn one_that_becomes_ready_again_goes_before_younger_ones() {
        check(
            &[view(5, 4), view(5, 4), view(5, 4), view(5, 4)],
            &[Run(1), Run(1), Run(1), Keep],
        );
    }

    #[test]
    fn the_youngest_loses_its_memory_when_answers_have_grown() {
        check(&[view(30, 29), view(34, 33)], &[Run(1), Run(1)]);
        check(&[view(30, 29), view(35, 34)], &[Run(1), Keep]);
        check(&[view(31, 30), view(35, 34)], &[Run(1), Preempt]);
        check(
            &[view(31, 30), view(35, 34), view(9, 8)],
            &[Run(1), Preempt, Run(1)],
        );
    }

    #[test]
    fn a_stalled_sequence_keeps_its_memory_only_while_there_is_room() {
        check(&[stalled(30, 30 - 1), view(30, 29)], &[Keep, Run(1)]);
        check(&[stalled(40, 39), view(30, 29)], &[Preempt, Run(1)]);
        check(&[stalled(40, 39), view(30, 0)], &[Preempt, Run(8)]);
        check(
            &[stalled(20, 19), stalled(20, 19), view(30, 29)],
            &[Keep, Preempt, Run(1)],
        );
    }

    #[test]
    fn a_prefix_in_the_cache_is_not_read_but_claimed() {
        let shared = |tokens, cached| SequenceView {
            held: 0,
            ..view(tokens, cached)
        };
        check(&[shared(30, 29), shared(9, 3)], &[Run(1), Run(6)]);
        check(&[view(40, 39), shared(30, 29)], &[Run(1), Keep]);
        check(&[view(30, 29), shared(31, 29)], &[Run(1), Keep]);
        check(&[view(64, 63), shared(64, 63)], &[Run(1), Keep]);
    }

    #[test]
    fn a_newcomer_leaves_room_to_grow_unless_it_is_alone() {
        check(&[view(30, 29), view(30, 0)], &[Run(1), Run(8)]);
        check(&[view(30, 29), view(31, 0)], &[Run(1), Keep]);
        check(&[view(64, 0)], &[Run(8)]);
        check(&[view(64, 63)], &[Run(1)]);
    }

    #[test]
    fn while_others_decode_prompts_are_read_in_pieces_that_take_no_longer_than_a_gap() {
        let limits = StepLimits {
            prefill_tokens_max: 512,
            ..LIMITS
        };
        let (reading, decoding) = (view(600, 100), view(9, 8));
        let fresh = SequenceView {
            held: 0,
            ..view(9, 8)
        };
        let gap = Some(Duration::from_millis(100));
        let most = |sequences: &[SequenceView], gap, nanos| {
            limits.beside(sequences, gap, nanos).prefill_tokens_max
        };
        let both = [reading, decoding];
        assert_eq!(most(&both, gap, 1_000_000), 100);
        assert_eq!(most(&both, gap, 10_000_000), 64);
        assert_eq!(most(&both, gap, 1_000), 512);
        assert_eq!(most(&both, gap, 0), 512);
        assert_eq!(most(&both, None, 1_000_000), 512);
        for none in [
            [reading, reading],
            [reading, stalled(9, 8)],
            [reading, fresh],
        ] {
            assert_eq!(most(&none, gap, 1_000_000), 512);
        }
    }
}
