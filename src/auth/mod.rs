//! Keys: who may ask for what, and how a secret that a client presents becomes a caller.
//!
//! Knows no HTTP and no session. A policy is data, its file a text; only the [`Gate`] does work.

mod allowance;
mod caller;
mod check;
mod file;
mod gate;
mod hash;
mod line;
mod policy;
mod secret;

pub use allowance::{Allowance, Denial, Limits, Permit, Quota, Standing};
pub use caller::Caller;
pub use file::{PolicyError, parse};
pub use gate::{Denied, Gate};
pub use hash::{HashError, KeyHash};
pub use policy::{Key, Policy};
pub use secret::{InvalidKeyId, KeyId, Secret};
