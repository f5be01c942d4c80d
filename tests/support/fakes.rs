//! A fixed clock, and ids that count up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use stemma::clock;

/// A clock that always returns the same time.
pub(super) struct Clock;

impl clock::Clock for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::constant(1_760_000_000, 0)
    }
}

/// Random numbers that count up from 0, so that a test's ids are predictable.
#[derive(Default)]
pub(crate) struct Entropy {
    drawn: AtomicU64,
    /// True to panic at the next draw.
    pub(crate) panics: AtomicBool,
}

impl clock::Entropy for Entropy {
    fn draw(&self) -> u128 {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a test's panic");
        self.drawn.fetch_add(1, Ordering::SeqCst).into()
    }
}
