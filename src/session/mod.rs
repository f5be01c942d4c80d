//! The session log: every turn an append, every stored response durable, every continuation a fork.
//!
//! From the bottom: [`key`] and [`codec`] say how values are named and checked, [`record`],
//! [`event`] and [`pack`] what they mean, [`storage`] what is asked of the engine below, `sled` is that engine;
//! [`txn`] collects one commit and [`view`] shows durable ones; [`turn`], [`fork`], [`purge`] and
//! [`bounds`] are the rules, as changes to a commit; [`log`] carries them out on one thread;
//! [`operate`] is what an operator does with a store that no server has open.

pub mod admin;
pub mod error;
pub mod format;
pub mod keys;
pub mod log;
pub mod ops;
pub mod store;
#[cfg(test)]
mod tests;
pub mod txn;

pub use error::LogError;
pub use format::event::{Event, ForkPoint};
pub use keys::SessionId;
pub use log::{Access, LogOptions, SessionLog, TurnHandle};
pub use ops::{lifecycle::NewSession, retention::RetentionLimits};
pub use store::sled::{SledOptions, SledStorage};

/// Opens the log in a folder, or makes one there.
///
/// # Errors
/// [`LogError::Refused`] with a sentence if another process uses the folder, if a newer program
/// wrote it, or if something is missing or damaged.
pub fn open(
    dir: &std::path::Path,
    sled: &SledOptions,
    options: LogOptions,
) -> Result<SessionLog, LogError> {
    SessionLog::start(std::sync::Arc::new(SledStorage::open(dir, sled)?), options)
}
