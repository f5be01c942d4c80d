//! The session log: a write-ahead log (WAL) of turns. Every turn is a session of events; every
//! continuation is a fork.
//!
//! From the lowest layer: [`keys`] names stored values, [`mod@format`] encodes them, and [`store`] is
//! the storage trait with its implementations (`sled`, memory, faulty). [`txn`] collects the
//! changes of one commit; its `durable_view` shows only durable commits to readers. [`ops`] is the
//! pure logic of turns, forks, garbage collection (GC) and retention, as changes to a transaction.
//! [`log`] runs these operations on one committer thread with group commit. [`admin`] works on a
//! store that no server has open.

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

/// Opens the session log in `dir`, or creates one there.
///
/// # Errors
/// [`LogError::Refused`] if another process uses the folder, a newer program wrote it, or data is
/// missing or damaged. Its sentence is for the operator.
pub fn open(
    dir: &std::path::Path,
    sled: &SledOptions,
    options: LogOptions,
) -> Result<SessionLog, LogError> {
    SessionLog::start(std::sync::Arc::new(SledStorage::open(dir, sled)?), options)
}
