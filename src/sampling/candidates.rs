//! The tokens still in question while one is chosen.

use std::cmp::Ordering;

use super::{SamplingError, distribution::largest};
use crate::id::TokenId;

/// A token in question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// Which token.
    pub(super) id: TokenId,
    /// Its logit, and after [`Workspace::exponentiate`] its weight: its probability divided by the
    /// likeliest candidate's.
    pub(super) value: f32,
}

impl Candidate {
    /// Better ones first, of equals the lowest id first. No two candidates are equal, so every
    /// selection and sort by this order has one possible outcome.
    pub(super) fn rank(&self, other: &Self) -> Ordering {
        other
            .value
            .total_cmp(&self.value)
            .then(self.id.cmp(&other.id))
    }
}

/// Memory for choosing tokens, kept between calls so that nothing is allocated for each token. One
/// serves all sequences of a thread.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) candidates: Vec<Candidate>,
}

impl Workspace {
    /// Makes every token a candidate, in order of ids.
    pub(super) fn fill(&mut self, logits: &[f32]) {
        self.candidates.clear();
        self.candidates.extend(
            (0..)
                .zip(logits)
                .map(|(id, &value)| Candidate { id, value }),
        );
    }

    /// Changes one token's logit. Only between [`Self::fill`] and the first filter; ids beyond the
    /// vocabulary are passed over.
    pub(super) fn adjust(&mut self, id: TokenId, change: impl FnOnce(f32) -> f32) {
        if let Some(candidate) = self.candidates.get_mut(id as usize) {
            candidate.value = change(candidate.value);
        }
    }

    /// The token with the largest logit, of equals the lowest id.
    pub(super) fn best(&self) -> Result<TokenId, SamplingError> {
        let max = self.largest()?;
        let best = self
            .candidates
            .iter()
            .find(|candidate| candidate.value == max);
        best.map(|candidate| candidate.id)
            .ok_or(SamplingError::NothingPossible)
    }

    /// Turns logits into weights at a temperature above 0. The likeliest gets weight 1.
    pub(super) fn exponentiate(&mut self, temperature: f32) -> Result<(), SamplingError> {
        let max = self.largest()?;
        for candidate in &mut self.candidates {
            candidate.value = ((candidate.value - max) / temperature).exp();
        }
        Ok(())
    }

    /// Sum of all weights.
    pub(super) fn total(&self) -> f64 {
        self.candidates
            .iter()
            .map(|candidate| f64::from(candidate.value))
            .sum()
    }

    /// The candidate at `point`, in `[0, 1)`, of the weights laid end to end.
    pub(super) fn draw(&self, point: f64) -> Result<TokenId, SamplingError> {
        let target = point * self.total();
        let mut passed = 0.0;
        let mut drawn = None;
        for candidate in self
            .candidates
            .iter()
            .filter(|candidate| candidate.value > 0.0)
        {
            // The last candidate stands in where rounding leaves the target at the very end.
            drawn = Some(candidate.id);
            passed += f64::from(candidate.value);
            if passed > target {
                break;
            }
        }
        drawn.ok_or(SamplingError::NothingPossible)
    }

    fn largest(&self) -> Result<f32, SamplingError> {
        largest(self.candidates.iter().map(|candidate| candidate.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(weights: &[f32]) -> Workspace {
        let mut work = Workspace::default();
        work.fill(weights);
        work
    }

    #[test]
    fn the_lowest_id_wins_ties() {
        assert_eq!(weighed(&[1.0, 2.0, 2.0]).best(), Ok(1));
        assert_eq!(weighed(&[-0.0, 0.0]).best(), Ok(0));
    }

    #[test]
    fn draws_divide_the_line_by_weight() {
        let work = weighed(&[1.0, 0.0, 3.0, 0.0]);
        for (point, expected) in [(0.0, 0), (0.2499, 0), (0.25, 2), (0.9999, 2)] {
            assert_eq!(work.draw(point), Ok(expected), "at {point}");
        }
        assert_eq!(work.draw(1.0), Ok(2), "rounding never falls off the end");
    }

    #[test]
    fn a_token_of_weight_zero_is_never_drawn() {
        assert_eq!(weighed(&[0.0, 1.0]).draw(0.0), Ok(1));
        assert_eq!(
            weighed(&[0.0, 0.0]).draw(0.0),
            Err(SamplingError::NothingPossible)
        );
    }

    #[test]
    fn tiny_temperatures_leave_the_best() {
        let mut work = weighed(&[1.0, 2.0, f32::NEG_INFINITY]);
        work.exponentiate(f32::MIN_POSITIVE).expect("finite logits");
        let weights: Vec<f32> = work
            .candidates
            .iter()
            .map(|candidate| candidate.value)
            .collect();
        assert_eq!(weights, [0.0, 1.0, 0.0]);
    }
}
