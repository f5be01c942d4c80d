//! Filters of unlikely tokens: top-k, top-p and min-p.

use super::{
    SamplingParams,
    workspace::{Candidate, Workspace},
};

/// Number of candidates to rank first; most nuclei are smaller.
const FIRST_RANKED: usize = 64;

impl Workspace {
    /// Makes candidates of the tokens that pass the filters, given all weights and their sum.
    /// Returns the candidates' own sum.
    pub(super) fn filter(&mut self, params: &SamplingParams, total: f64) -> f64 {
        let mut total = total;
        let top_k = params.top_k as usize;
        if (1..self.values.len()).contains(&top_k) {
            self.select_top_k(top_k);
            total = self.candidates_total();
        } else {
            self.select_at_least(least_weight(params, total, self.values.len()));
        }
        if params.top_p < 1.0 {
            self.keep_top_p(f64::from(params.top_p) * total);
        }
        self.candidates
            .retain(|candidate| candidate.weight >= params.min_p.min(1.0));
        self.candidates_total()
    }

    fn candidates_total(&self) -> f64 {
        self.candidates
            .iter()
            .map(|candidate| f64::from(candidate.weight))
            .sum()
    }

    /// Makes candidates of the `count` tokens with the largest weights.
    ///
    /// Collects all tokens above the bar. If there are many, drops all but the best `count` and
    /// raises the bar to the least of them. A later token must exceed the bar, because among equals
    /// the lowest id wins.
    fn select_top_k(&mut self, count: usize) {
        let room = (4 * count).max(1024);
        let mut bar = f32::NEG_INFINITY;
        self.candidates.clear();
        for (id, &weight) in (0..).zip(&self.values) {
            if weight <= bar {
                continue;
            }
            self.candidates.push(Candidate { id, weight });
            if self.candidates.len() == room {
                rank(&mut self.candidates, count);
                self.candidates.truncate(count);
                bar = self.candidates[count - 1].weight;
            }
        }
        rank(&mut self.candidates, count);
        self.candidates.truncate(count);
    }

    /// Makes candidates of the tokens with at least some weight, in order of ids.
    fn select_at_least(&mut self, least: f32) {
        self.candidates.clear();
        let tokens = (0..)
            .zip(&self.values)
            .map(|(id, &weight)| Candidate { id, weight });
        self.candidates
            .extend(tokens.filter(|candidate| candidate.weight >= least));
    }

    /// Keeps the smallest set of most likely candidates whose weights reach `wanted`, best first,
    /// at least one. Source: Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.
    ///
    /// Ranks a few candidates, then more and more, because the set is small in most steps.
    fn keep_top_p(&mut self, wanted: f64) {
        let (mut reached, mut ranked) = (0.0, 0);
        while ranked < self.candidates.len() {
            let rest = &mut self.candidates[ranked..];
            let count = rest.len().min(FIRST_RANKED.max(3 * ranked));
            rank(rest, count);
            for candidate in &rest[..count] {
                reached += f64::from(candidate.weight);
                ranked += 1;
                if reached >= wanted {
                    self.candidates.truncate(ranked);
                    return;
                }
            }
        }
    }
}

/// Returns a weight below which no token passes top-p or min-p, so that few tokens need ranking.
/// All tokens below `1 / size` of the probability that top-p drops do not add up to it.
fn least_weight(params: &SamplingParams, total: f64, size: usize) -> f32 {
    let left_out = (1.0 - f64::from(params.top_p)) * total;
    // Rounded down by more than sums are rounded, or the bound might drop what is just needed.
    let beyond_top_p = left_out / size as f64 * 0.99;
    params.min_p.min(1.0).max(beyond_top_p as f32)
}

/// Moves the best `count` candidates to the front, best first.
fn rank(candidates: &mut [Candidate], count: usize) {
    let count = count.min(candidates.len());
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

    /// Filters weights, the largest of which is 1.
    fn kept(weights: &[f32], params: &SamplingParams) -> Vec<TokenId> {
        let mut work = Workspace::default();
        work.fill(weights);
        let all = weights.iter().map(|&weight| f64::from(weight)).sum();
        let total = work.filter(params, all);
        assert_eq!(total, work.candidates_total());
        work.candidates
            .iter()
            .map(|candidate| candidate.id)
            .collect()
    }

    fn top_k(top_k: u32) -> SamplingParams {
        SamplingParams {
            top_k,
            ..SamplingParams::default()
        }
    }

    fn top_p(top_p: f32) -> SamplingParams {
        SamplingParams {
            top_p,
            ..SamplingParams::default()
        }
    }

    fn min_p(min_p: f32) -> SamplingParams {
        SamplingParams {
            min_p,
            ..SamplingParams::default()
        }
    }

    #[test]
    fn top_k_keeps_the_best() {
        let weights = [0.125, 0.5, 0.5, 1.0];
        assert_eq!(kept(&weights, &top_k(1)), [3]);
        assert_eq!(kept(&weights, &top_k(2)), [3, 1], "of equals the lowest id");
        assert_eq!(kept(&weights, &top_k(3)), [3, 1, 2]);
        assert_eq!(
            kept(&weights, &top_k(0)),
            [0, 1, 2, 3],
            "all, in order of ids"
        );
        assert_eq!(kept(&weights, &top_k(9)), [0, 1, 2, 3]);
    }

    #[test]
    fn top_p_keeps_the_smallest_set_that_reaches_its_share() {
        let weights = [0.25, 1.0, 0.5, 0.25];
        assert_eq!(kept(&weights, &top_p(0.0)), [1], "never nothing");
        assert_eq!(kept(&weights, &top_p(0.5)), [1], "exactly reached");
        assert_eq!(kept(&weights, &top_p(0.51)), [1, 2]);
        assert_eq!(kept(&weights, &top_p(0.75)), [1, 2]);
        assert_eq!(kept(&weights, &top_p(0.8)), [1, 2, 0]);
        assert_eq!(
            kept(&weights, &top_p(1.0)),
            [0, 1, 2, 3],
            "all, in order of ids"
        );
    }

    #[test]
    fn min_p_keeps_what_is_near_the_best() {
        let weights = [0.25, 1.0, 0.125, 0.5];
        assert_eq!(kept(&weights, &min_p(0.0)), [0, 1, 2, 3]);
        assert_eq!(kept(&weights, &min_p(0.25)), [0, 1, 3]);
        assert_eq!(kept(&weights, &min_p(0.3)), [1, 3]);
        assert_eq!(kept(&weights, &min_p(1.0)), [1]);
    }

    #[test]
    fn each_filter_sees_what_the_one_before_left() {
        let weights = [0.5, 1.0, 0.25, 0.25];
        // Of the best two the first holds two thirds, of all only half.
        let both = SamplingParams {
            top_k: 2,
            ..top_p(0.6)
        };
        assert_eq!(kept(&weights, &top_p(0.6)), [1, 0]);
        assert_eq!(kept(&weights, &both), [1]);
        let all = SamplingParams {
            top_k: 3,
            min_p: 0.5,
            ..top_p(0.99)
        };
        assert_eq!(kept(&weights, &all), [1, 0]);
    }

    /// The same by its definition, with a full sort.
    fn kept_by_definition(weights: &[f32], params: &SamplingParams) -> Vec<TokenId> {
        let mut sorted: Vec<_> = (0..)
            .zip(weights)
            .map(|(id, &weight)| Candidate { id, weight })
            .collect();
        sorted.sort_by(Candidate::rank);
        if params.top_k > 0 {
            sorted.truncate(params.top_k as usize);
        }
        let total: f64 = sorted
            .iter()
            .map(|candidate| f64::from(candidate.weight))
            .sum();
        let mut before = 0.0;
        sorted.retain(|candidate| {
            let passes = before == 0.0 || before < f64::from(params.top_p) * total;
            before += f64::from(candidate.weight);
            passes && candidate.weight >= params.min_p
        });
        sorted.into_iter().map(|candidate| candidate.id).collect()
    }

    proptest! {
        /// Weights are multiples of 1/128, so that sums are exact and ties are many.
        #[test]
        fn filters_keep_what_their_definition_says(
            weights in prop::collection::vec((1u8..=128).prop_map(|w| f32::from(w) / 128.0), 1..3000),
            top_k in prop_oneof![Just(0u32), 1u32..50, 1u32..3000],
            percent in prop_oneof![Just(100u8), 0u8..100],
            min_p in prop_oneof![Just(0.0f32), 0.0f32..1.0],
        ) {
            let mut weights = weights;
            weights[0] = 1.0;
            let top_p = f32::from(percent) / 100.0;
            let params = SamplingParams { top_k, top_p, min_p, ..SamplingParams::default() };
            let mut expected = kept_by_definition(&weights, &params);
            let mut kept = kept(&weights, &params);
            if top_p == 1.0 {
                expected.sort_unstable();
                kept.sort_unstable();
            }
            prop_assert_eq!(kept, expected);
        }
    }
}
