//! Errors of sampling.

/// No token can be chosen from a row of logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SamplingError {
    /// A logit is NaN or `+∞`.
    #[error("the model's logits hold a value that is not a finite number")]
    NotANumber,
    /// Every token has probability 0.
    #[error("the model's logits leave no token possible")]
    NothingPossible,
}
