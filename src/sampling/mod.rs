//! Logits → one token.
//!
//! The steps, in this order:
//!
//! 1. The model's own distribution (softmax of the logits as they came) gives the log probabilities,
//!    where they are to be reported; nothing below changes them.
//! 2. Repetition penalty over the prompt and the answer so far, then presence and frequency
//!    penalties over the answer so far.
//! 3. Logit bias, and what a [`Constraint`] does not allow is out.
//! 4. Temperature. At 0 the largest logit wins (of equals the lowest id) and the steps below are
//!    skipped.
//! 5. Top-k, then top-p, then min-p, each over the distribution that the one before left,
//!    normalised again.
//! 6. A draw with the random number of the seed and the token's position ([`random`]).

mod constraint;
mod distribution;
mod error;
mod filter;
mod params;
mod penalties;
pub mod random;
mod sampler;
mod softmax;
mod workspace;

pub use constraint::{Constraint, ConstraintError, TokenBitmask, TokenMask};
pub use error::SamplingError;
pub use params::SamplingParams;
pub use sampler::{Logprobs, Sampled, Sampler};
pub use workspace::Workspace;
