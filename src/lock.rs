//! Locks whose data stays valid when a thread panics with the lock held.

use std::sync::LockResult;

/// Takes a lock's guard whether or not its lock is poisoned.
///
/// For data that each critical section leaves whole, so that a panic in another thread cannot have
/// left it half changed.
pub trait IgnorePoison<T> {
    /// Returns the guard.
    fn ignore_poison(self) -> T;
}

impl<T> IgnorePoison<T> for LockResult<T> {
    fn ignore_poison(self) -> T {
        self.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
