//! Decides the source of each prompt's prefix: the cache, another sequence's KV cache, or a prefill
//! in progress.
//!
//! A pure function of lengths, evaluated before each step. A job waits only for an older job that
//! is about to prefill their common prefix. That job waits for no job or for an even older one, so
//! the oldest never waits. If the awaited job ends early, the next oldest one prefills the rest.

/// Tokens that waiting for another sequence must save: fewer are read sooner than they are waited
/// for.
pub(super) const WORTH_TOKENS: usize = 64;

/// Older sequence whose prompt has a common prefix with the job's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedPrefix {
    /// Number of the sequence, in admission order.
    pub(super) number: u64,
    /// Length of the common prefix in tokens.
    pub(super) shared: usize,
}

/// The state of a sequence that prefix sharing looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) number: u64,
    pub(super) relatives: &'a [SharedPrefix],
    /// Tokens in its KV cache.
    pub(super) cached: usize,
    /// True if it runs as soon as there is room.
    pub(super) ready: bool,
    /// Tokens that the prefix cache had, if the prefix source is still open. `None` after the
    /// choice.
    pub(super) open: Option<usize>,
}

/// The source of a sequence's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefixSource {
    /// The prefix cache.
    Cached,
    /// A fork of another sequence's KV cache: index of the sequence, and tokens.
    Forked(usize, usize),
    /// The prefill in progress of the sequence at this index.
    Awaited(usize),
}

/// Decides for each sequence, oldest first; nothing for those that have begun.
pub(super) fn beginnings(members: &[Candidate<'_>]) -> Vec<Option<PrefixSource>> {
    let decide =
        |member: &Candidate<'_>| member.open.map(|known| beginning(member, known, members));
    members.iter().map(decide).collect()
}

fn beginning(member: &Candidate<'_>, known: usize, members: &[Candidate<'_>]) -> PrefixSource {
    let relatives = || {
        member.relatives.iter().filter_map(|relative| {
            let place = members.binary_search_by_key(&relative.number, |other| other.number);
            place.ok().map(|place| (place, relative.shared))
        })
    };
    let (place, forked) = relatives()
        .map(|(place, shared)| (place, shared.min(members[place].cached)))
        .max_by_key(|&(place, forked)| (forked, std::cmp::Reverse(place)))
        .unwrap_or_default();
    let awaited = relatives()
        .filter(|&(place, shared)| members[place].ready && members[place].cached < shared)
        .max_by_key(|&(place, shared)| (shared, std::cmp::Reverse(place)));
    match awaited {
        Some((leader, shared)) if shared >= forked.max(known) + WORTH_TOKENS => {
            PrefixSource::Awaited(leader)
        }
        _ if forked >= known + WORTH_TOKENS => PrefixSource::Forked(place, forked),
        _ => PrefixSource::Cached,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        PrefixSource::{Awaited, Cached, Forked},
        *,
    };

    fn begun(number: u64, cached: usize) -> Candidate<'static> {
        Candidate {
            number,
            relatives: &[],
            cached,
            ready: true,
            open: None,
        }
    }

    fn open(number: u64, known: usize, relatives: &[SharedPrefix]) -> Candidate<'_> {
        Candidate {
            relatives,
            open: Some(known),
            ..begun(number, 0)
        }
    }

    fn shares(number: u64, shared: usize) -> SharedPrefix {
        SharedPrefix { number, shared }
    }

    fn check(members: &[Candidate<'_>], expected: &[Option<PrefixSource>]) {
        assert_eq!(beginnings(members), expected, "{members:?}");
    }

    #[test]
    fn a_job_waits_for_what_another_reads_and_then_takes_it() {
        let relatives = [shares(3, 1000)];
        let job = open(5, 0, &relatives);
        check(&[begun(3, 0), job], &[None, Some(Awaited(0))]);
        check(&[begun(3, 900), job], &[None, Some(Awaited(0))]);
        // The rest is computed sooner than awaited.
        check(&[begun(3, 950), job], &[None, Some(Forked(0, 950))]);
        check(&[begun(3, 1200), job], &[None, Some(Forked(0, 1000))]);
    }

    #[test]
    fn what_the_cache_has_is_neither_waited_for_nor_forked() {
        let relatives = [shares(1, 1000)];
        check(
            &[begun(1, 0), open(2, 900, &relatives)],
            &[None, Some(Awaited(0))],
        );
        check(
            &[begun(1, 0), open(2, 950, &relatives)],
            &[None, Some(Cached)],
        );
        check(
            &[begun(1, 1000), open(2, 950, &relatives)],
            &[None, Some(Cached)],
        );
    }

    #[test]
    fn no_job_waits_for_one_that_has_ended_or_is_stalled() {
        let relatives = [shares(1, 1000), shares(2, 500)];
        let job = open(4, 0, &relatives);
        check(&[begun(3, 0), job], &[None, Some(Cached)]);
        check(&[begun(2, 0), job], &[None, Some(Awaited(0))]);
        let held_up = Candidate {
            ready: false,
            ..begun(1, 0)
        };
        check(&[held_up, job], &[None, Some(Cached)]);
        check(
            &[held_up, begun(2, 0), job],
            &[None, None, Some(Awaited(1))],
        );
    }

    #[test]
    fn of_several_the_oldest_that_shares_most_leads() {
        let relatives = [shares(1, 200), shares(2, 900), shares(3, 900)];
        let job = open(4, 0, &relatives);
        let others = [begun(1, 200), begun(2, 0), begun(3, 0)];
        check(
            &[others[0], others[1], others[2], job],
            &[None, None, None, Some(Awaited(1))],
        );
    }

    proptest! {
        #[test]
        fn a_job_waits_only_for_an_older_one_that_moves(
            sequences in prop::collection::vec(
                (0usize..300, any::<bool>(), any::<bool>(), prop::collection::vec(0usize..400, 12)),
                1..12,
            ),
        ) {
            let related: Vec<Vec<SharedPrefix>> = sequences
                .iter()
                .enumerate()
                .map(|(at, (.., shared))| (0..at).map(|n| shares(n as u64, shared[n])).collect())
                .collect();
            let members: Vec<Candidate<'_>> = sequences
                .iter()
                .zip(&related)
                .enumerate()
                .map(|(at, (&(tokens, ready, is_open, _), relatives))| Candidate {
                    number: at as u64,
                    relatives,
                    cached: if is_open { 0 } else { tokens },
                    ready,
                    open: is_open.then_some(tokens),
                })
                .collect();
            for (at, decided) in beginnings(&members).into_iter().enumerate() {
                prop_assert_eq!(decided.is_some(), members[at].open.is_some());
                let known = members[at].open.unwrap_or_default();
                match decided {
                    Some(Awaited(leader)) => {
                        prop_assert!(leader < at && members[leader].ready);
                        prop_assert!(related[at][leader].shared >= known + WORTH_TOKENS);
                        prop_assert!(members[leader].cached < related[at][leader].shared);
                    }
                    Some(Forked(other, tokens)) => {
                        prop_assert!(other < at && tokens <= members[other].cached);
                        prop_assert!(tokens <= related[at][other].shared);
                    }
                    Some(Cached) | None => {}
                }
            }
        }
    }
}
