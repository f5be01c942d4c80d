//! The session log: every turn an append, every stored response durable, every continuation a fork.
//!
//! From the bottom: [`key`] and [`codec`] say how values are named and checked, [`record`],
//! [`event`] and [`pack`] what they mean, [`storage`] what is asked of the engine below, `sled` is that engine;
//! [`txn`] collects one commit and [`view`] shows durable ones; [`turn`], [`fork`], [`purge`] and
//! [`bounds`] are the rules, as changes to a commit; [`log`] carries them out on one thread;
//! [`operate`] is what an operator does with a store that no server has open.

pub mod bounds;
pub mod chain;
pub mod codec;
pub mod error;
pub mod event;
#[cfg(any(test, feature = "scripted"))]
pub mod faulty;
pub mod fork;
#[cfg(test)]
mod histories;
pub mod key;
pub mod log;
pub mod memory;
pub mod migrate;
pub mod operate;
pub mod pack;
pub mod purge;
pub mod record;
pub mod replay;
mod sled;
pub mod storage;
pub mod turn;
pub mod txn;
pub mod view;

pub use bounds::Bounds;
pub use error::LogError;
pub use event::{Event, ForkPoint};
pub use key::SessionId;
pub use log::{Access, LogOptions, SessionLog, Turn};
pub use sled::{SledOptions, SledStorage};
pub use turn::Opening;

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
