//! Tokens that a sequence has seen, for the penalties.

use std::collections::HashMap;

use super::{SamplingParams, workspace::Workspace};
use crate::id::TokenId;

/// Tokens seen so far; empty if no penalty applies.
#[derive(Debug)]
pub(super) struct Penalties {
    /// Count of each token in the answer; 0 for tokens of the prompt only.
    generated: HashMap<TokenId, u32>,
    wanted: bool,
}

impl Penalties {
    /// Starts with the tokens of the prompt.
    pub(super) fn new(params: &SamplingParams, prompt: &[TokenId]) -> Self {
        let repetition = params.repetition_penalty != 1.0;
        let answer = params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
        let seen = if repetition { prompt } else { &[] };
        Self {
            generated: seen.iter().map(|&id| (id, 0)).collect(),
            wanted: repetition || answer,
        }
    }

    /// Adds a token of the answer.
    pub(super) fn push(&mut self, id: TokenId) {
        if self.wanted {
            *self.generated.entry(id).or_insert(0) += 1;
        }
    }

    /// Applies the three penalties to the logits.
    pub(super) fn penalize(&self, params: &SamplingParams, work: &mut Workspace) {
        for (&id, &count) in &self.generated {
            work.adjust(id, |logit| penalized(logit, count, params));
        }
    }
}

/// Returns the penalised logit of a token that the answer has `count` times.
///
/// The repetition penalty is that of Keskar et al., "CTRL", 2019, with negative logits multiplied;
/// the other two are those of OpenAI's API.
fn penalized(logit: f32, count: u32, params: &SamplingParams) -> f32 {
    let repetition = params.repetition_penalty;
    let repeated = if logit > 0.0 {
        logit / repetition
    } else {
        logit * repetition
    };
    if count == 0 {
        return repeated;
    }
    repeated - params.presence_penalty - params.frequency_penalty * count as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(params: &SamplingParams, prompt: &[TokenId], answer: &[TokenId]) -> Vec<f32> {
        let mut history = Penalties::new(params, prompt);
        for &id in answer {
            history.push(id);
        }
        let mut work = Workspace::default();
        work.fill(&[2.0, -2.0, 0.0, 2.0, f32::NEG_INFINITY]);
        history.penalize(params, &mut work);
        work.values
    }

    #[test]
    fn repetition_penalty_moves_seen_tokens_down_on_both_sides_of_zero() {
        let params = SamplingParams {
            repetition_penalty: 2.0,
            ..SamplingParams::default()
        };
        let expected = [1.0, -4.0, 0.0, 2.0, f32::NEG_INFINITY];
        assert_eq!(after(&params, &[0, 1, 1, 2, 4], &[]), expected);
        assert_eq!(
            after(&params, &[0, 4], &[1, 1]),
            expected,
            "the prompt and the answer alike"
        );
    }

    #[test]
    fn presence_counts_once_and_frequency_every_time() {
        let presence = SamplingParams {
            presence_penalty: 0.5,
            ..SamplingParams::default()
        };
        let unchanged = f32::NEG_INFINITY;
        assert_eq!(
            after(&presence, &[0], &[3, 3, 3]),
            [2.0, -2.0, 0.0, 1.5, unchanged]
        );
        let frequency = SamplingParams {
            frequency_penalty: 0.5,
            ..SamplingParams::default()
        };
        assert_eq!(
            after(&frequency, &[0], &[3, 3, 1]),
            [2.0, -2.5, 0.0, 1.0, unchanged]
        );
        let reward = SamplingParams {
            frequency_penalty: -1.0,
            ..SamplingParams::default()
        };
        assert_eq!(after(&reward, &[], &[1]), [2.0, -1.0, 0.0, 2.0, unchanged]);
    }

    #[test]
    fn penalties_add_up() {
        let params = SamplingParams {
            repetition_penalty: 2.0,
            presence_penalty: 0.25,
            frequency_penalty: 0.125,
            ..SamplingParams::default()
        };
        let unseen = f32::NEG_INFINITY;
        assert_eq!(
            after(&params, &[1], &[0, 0]),
            [1.0 - 0.25 - 0.25, -4.0, 0.0, 2.0, unseen]
        );
    }

    #[test]
    fn nothing_is_kept_when_nothing_is_penalised() {
        let mut history = Penalties::new(&SamplingParams::default(), &[1, 2, 3]);
        history.push(4);
        assert!(history.generated.is_empty());
    }
}
