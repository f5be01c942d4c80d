//! What drops unlikely candidates: top-k, top-p and min-p.

use super::candidates::{Candidate, Workspace};

/// How many candidates top-p ranks first; most nuclei are smaller.
const FIRST_RANKED: usize = 64;

impl Workspace {
    /// Keeps the `count` candidates with the largest values, best first; 0 keeps all as they are.
    pub(super) fn keep_top_k(&mut self, count: usize) {
        if count == 0 || count >= self.candidates.len() {
            return;
        }
        rank(&mut self.candidates, count);
        self.candidates.truncate(count);
    }

    /// Keeps the smallest set of likeliest candidates whose share of all weights reaches
    /// `share`, best first, at least one candidate (Holtzman et al., "The Curious Case of Neural
    /// Text Degeneration", 2020); 1 keeps all as they are.
    ///
    /// Ranks a few, then more and more, because the set is small in most steps and a vocabulary is
    /// large.
    pub(super) fn keep_top_p(&mut self, share: f32) {
        if share >= 1.0 {
            return;
        }
        let wanted = f64::from(share) * self.total();
        let (mut reached, mut ranked) = (0.0, 0);
        while ranked < self.candidates.len() {
            let rest = &mut self.candidates[ranked..];
            let count = rest.len().min(FIRST_RANKED.max(3 * ranked));
            rank(rest, count);
            for candidate in &rest[..count] {
                reached += f64::from(candidate.value);
                ranked += 1;
                if reached >= wanted {
                    self.candidates.truncate(ranked);
                    return;
                }
            }
        }
    }

    /// Keeps candidates whose weight is at least `fraction` of the best one's, which is 1.
    pub(super) fn keep_min_p(&mut self, fraction: f32) {
        if fraction > 0.0 {
            self.candidates
                .retain(|candidate| candidate.value >= fraction.min(1.0));
        }
    }
}

/// Brings the best `count` candidates to the front, best first.
fn rank(candidates: &mut [Candidate], count: usize) {
    if count < candidates.len() {
        candidates.select_nth_unstable_by(count, Candidate::rank);
    }
    candidates[..count].sort_unstable_by(Candidate::rank);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::TokenId;

    fn weighed(weights: &[f32]) -> Workspace {
        let mut work = Workspace::default();
        work.fill(weights);
        work
    }

    fn ids(work: &Workspace) -> Vec<TokenId> {
        work.candidates
            .iter()
            .map(|candidate| candidate.id)
            .collect()
    }

    #[test]
    fn top_k_keeps_the_best() {
        let kept = |count| {
            let mut work = weighed(&[0.1, 0.4, 0.4, 0.9]);
            work.keep_top_k(count);
            ids(&work)
        };
        assert_eq!(kept(1), [3]);
        assert_eq!(kept(2), [3, 1], "of equals the lowest id");
        assert_eq!(kept(3), [3, 1, 2]);
        assert_eq!(kept(0), [0, 1, 2, 3], "all, in order of ids");
        assert_eq!(kept(9), [0, 1, 2, 3]);
    }

    #[test]
    fn top_p_keeps_the_smallest_set_that_reaches_its_share() {
        let kept = |share| {
            let mut work = weighed(&[1.0, 4.0, 2.0, 1.0]);
            work.keep_top_p(share);
            ids(&work)
        };
        assert_eq!(kept(0.0), [1], "never nothing");
        assert_eq!(kept(0.5), [1], "exactly reached");
        assert_eq!(kept(0.51), [1, 2]);
        assert_eq!(kept(0.75), [1, 2]);
        assert_eq!(kept(0.8), [1, 2, 0]);
        assert_eq!(kept(1.0), [0, 1, 2, 3], "all, in order of ids");
    }

    #[test]
    fn min_p_keeps_what_is_near_the_best() {
        let kept = |fraction| {
            let mut work = weighed(&[0.25, 1.0, 0.1, 0.5]);
            work.keep_min_p(fraction);
            ids(&work)
        };
        assert_eq!(kept(0.0), [0, 1, 2, 3]);
        assert_eq!(kept(0.25), [0, 1, 3]);
        assert_eq!(kept(0.3), [1, 3]);
        assert_eq!(kept(1.0), [1]);
    }

    proptest! {
        #[test]
        fn top_p_equals_a_full_sort(
            weights in prop::collection::vec(0u8..=255, 1..700),
            percent in 0u8..100,
        ) {
            let weights: Vec<f32> = weights.into_iter().map(f32::from).collect();
            let share = f32::from(percent) / 100.0;
            let mut work = weighed(&weights);
            let total = work.total();
            work.keep_top_p(share);

            let mut sorted = weighed(&weights).candidates;
            sorted.sort_by(Candidate::rank);
            let mut reached = 0.0;
            let mut size = 0;
            for candidate in &sorted {
                reached += f64::from(candidate.value);
                size += 1;
                if reached >= f64::from(share) * total {
                    break;
                }
            }
            prop_assert_eq!(&work.candidates, &sorted[..size]);
        }

        #[test]
        fn top_k_equals_a_full_sort(
            weights in prop::collection::vec(0u8..20, 1..300),
            count in 1usize..310,
        ) {
            let weights: Vec<f32> = weights.into_iter().map(f32::from).collect();
            let mut work = weighed(&weights);
            work.keep_top_k(count);
            let mut sorted = weighed(&weights).candidates;
            if count < sorted.len() {
                sorted.sort_by(Candidate::rank);
                sorted.truncate(count);
            }
            prop_assert_eq!(work.candidates, sorted);
        }
    }
}
