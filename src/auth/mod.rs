//! Authentication and rate limits: the key policy, secrets, and callers.
//!
//! Knows no HTTP and no session. A policy is data, read from a text file; only the
//! [`Authenticator`] does work.

mod authenticator;
mod caller;
mod fair_queue;
mod hash;
mod hash_worker;
mod policy;
mod policy_file;
mod rate_limit;
mod secret;

pub use authenticator::{AuthError, Authenticator};
pub use caller::Caller;
pub use hash::{HashError, KeyHash};
pub use policy::{ApiKey, Policy};
pub use policy_file::{PolicyError, parse};
pub use rate_limit::{KeyLimiter, KeyLimits, LimitExceeded, LimitStatus, Permit, Quota};
pub use secret::{InvalidKeyId, KeyId, Secret};
