//! The model's own distribution over the vocabulary, for reporting.

use super::{
    SamplingError,
    softmax::{exp, largest, sum},
};
use crate::id::TokenId;

/// Softmax of one row of logits, reduced to what a log probability needs.
#[derive(Debug)]
pub(super) struct Distribution {
    max: f32,
    log_total: f64,
}

impl Distribution {
    /// Reads a row of logits.
    ///
    /// # Errors
    /// If a logit is NaN or `+∞`, or if no token has a probability above 0.
    pub(super) fn of(logits: &[f32]) -> Result<Self, SamplingError> {
        let max = largest(logits)?;
        let total = sum(logits, |logit| exp(logit - max));
        Ok(Self {
            max,
            log_total: total.ln(),
        })
    }

    /// Returns the natural logarithm of the probability of a token with this logit.
    pub(super) fn logprob(&self, logit: f32) -> f32 {
        let logprob = f64::from(logit) - f64::from(self.max) - self.log_total;
        logprob as f32
    }

    /// Returns the `count` most likely tokens with their log probabilities, best first, among
    /// equals the lowest id first. Fewer if fewer have a probability above 0.
    pub(super) fn likeliest(&self, logits: &[f32], count: usize) -> Vec<(TokenId, f32)> {
        let mut best: Vec<(TokenId, f32)> = Vec::with_capacity(count);
        let mut bar = f32::NEG_INFINITY;
        for (id, &logit) in (0..).zip(logits) {
            if count == 0 || logit <= bar {
                continue;
            }
            if best.len() == count {
                best.pop();
            }
            let place = best.partition_point(|&(_, other)| other >= logit);
            best.insert(place, (id, logit));
            if best.len() == count {
                bar = best[count - 1].1;
            }
        }
        for (_, value) in &mut best {
            *value = self.logprob(*value);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn likeliest_are_ordered_and_ties_go_to_the_lowest_id() {
        let logits = [1.0, 3.0, f32::NEG_INFINITY, 3.0, 2.0];
        let distribution = Distribution::of(&logits).expect("finite logits");
        let ids = |count| -> Vec<TokenId> {
            distribution
                .likeliest(&logits, count)
                .iter()
                .map(|&(id, _)| id)
                .collect()
        };
        assert!(ids(0).is_empty());
        assert_eq!(ids(1), [1]);
        assert_eq!(ids(3), [1, 3, 4]);
        assert_eq!(
            ids(20),
            [1, 3, 4, 0],
            "a token of probability 0 is not reported"
        );
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one(logits in prop::collection::vec(-80.0f32..80.0, 1..400)) {
            let distribution = Distribution::of(&logits).expect("finite logits");
            let total: f64 =
                logits.iter().map(|&logit| f64::from(distribution.logprob(logit)).exp()).sum();
            prop_assert!((total - 1.0).abs() < 1e-4, "{}", total);
        }

        #[test]
        fn likeliest_equal_a_full_sort(
            logits in prop::collection::vec((-4i8..4).prop_map(f32::from), 1..60),
            count in 0usize..21,
        ) {
            let distribution = Distribution::of(&logits).expect("finite logits");
            let mut sorted: Vec<TokenId> = (0..).take(logits.len()).collect();
            sorted.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
            sorted.truncate(count);
            let best = distribution.likeliest(&logits, count);
            prop_assert_eq!(best.iter().map(|&(id, _)| id).collect::<Vec<_>>(), sorted);
        }
    }
}
