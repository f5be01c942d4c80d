//! Logits and weights of all tokens during sampling.

use std::cmp::Ordering;

use super::{
    SamplingError,
    softmax::{exp, largest, sum},
};
use crate::id::TokenId;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// The token.
    pub(super) id: TokenId,
    /// Its weight; that of the most likely token is 1.
    pub(super) weight: f32,
}

impl Candidate {
    /// Orders better ones first, among equals the lowest id first. No two candidates are equal, so
    /// every selection and sort by this order has one possible result.
    pub(super) fn rank(&self, other: &Self) -> Ordering {
        other
            .weight
            .total_cmp(&self.weight)
            .then(self.id.cmp(&other.id))
    }
}

/// Memory for sampling, reused so that no token allocates. One workspace serves all sequences of a
/// thread.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The logit of each token; after [`Workspace::exponentiate`] its weight, which is its
    /// probability divided by that of the most likely token.
    pub(super) values: Vec<f32>,
    /// Candidates that passed the filters.
    pub(super) candidates: Vec<Candidate>,
}

impl Workspace {
    /// Copies the model's logits.
    pub(super) fn fill(&mut self, logits: &[f32]) {
        self.values.clear();
        self.values.extend_from_slice(logits);
    }

    /// Changes one token's logit. Ignores ids beyond the vocabulary.
    pub(super) fn adjust(&mut self, id: TokenId, change: impl FnOnce(f32) -> f32) {
        if let Some(logit) = self.values.get_mut(id as usize) {
            *logit = change(*logit);
        }
    }

    /// Returns the token with the largest logit, among equals the lowest id.
    pub(super) fn best(&self) -> Result<TokenId, SamplingError> {
        let max = largest(&self.values)?;
        let best = (0..).zip(&self.values).find(|&(_, &logit)| logit == max);
        best.map(|(id, _)| id).ok_or(SamplingError::NothingPossible)
    }

    /// Turns logits into weights at a temperature above 0; the largest becomes 1. Returns their
    /// sum.
    pub(super) fn exponentiate(&mut self, temperature: f32) -> Result<f64, SamplingError> {
        let max = largest(&self.values)?;
        for value in &mut self.values {
            *value = exp((*value - max) / temperature);
        }
        Ok(sum(&self.values, |weight| weight))
    }
}

/// Returns the token at `target` of the cumulative weights.
pub(super) fn draw(
    weights: impl Iterator<Item = (TokenId, f32)>,
    target: f64,
) -> Result<TokenId, SamplingError> {
    let mut passed = 0.0;
    let mut drawn = None;
    for (id, weight) in weights.filter(|&(_, weight)| weight > 0.0) {
        // Rounding may leave the target at the very end: the last token is taken then.
        drawn = Some(id);
        passed += f64::from(weight);
        if passed > target {
            break;
        }
    }
    drawn.ok_or(SamplingError::NothingPossible)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(logits: &[f32]) -> Workspace {
        let mut work = Workspace::default();
        work.fill(logits);
        work
    }

    #[test]
    fn the_lowest_id_wins_ties() {
        assert_eq!(filled(&[1.0, 2.0, 2.0]).best(), Ok(1));
        assert_eq!(filled(&[-0.0, 0.0]).best(), Ok(0));
    }

    #[test]
    fn draws_divide_the_line_by_weight() {
        let at = |target| draw((0..).zip([1.0, 0.0, 3.0, 0.0]), target);
        for (target, expected) in [(0.0, 0), (0.999, 0), (1.0, 2), (3.999, 2)] {
            assert_eq!(at(target), Ok(expected), "at {target}");
        }
        assert_eq!(at(4.0), Ok(2), "rounding never falls off the end");
    }

    #[test]
    fn a_token_of_weight_zero_is_never_drawn() {
        assert_eq!(draw((0..).zip([0.0, 1.0]), 0.0), Ok(1));
        assert_eq!(
            draw((0..).zip([0.0, 0.0]), 0.0),
            Err(SamplingError::NothingPossible)
        );
    }

    #[test]
    fn tiny_temperatures_leave_the_best() {
        let mut work = filled(&[1.0, 2.0, f32::NEG_INFINITY]);
        assert_eq!(work.exponentiate(f32::MIN_POSITIVE), Ok(1.0));
        assert_eq!(work.values, [0.0, 1.0, 0.0]);
    }
}
