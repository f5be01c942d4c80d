//! Time that stands still and ids that count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use stemma::clock;

/// Always the same moment.
pub(super) struct Clock;

impl clock::Clock for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::constant(1_760_000_000, 0)
    }
}

/// Numbers that count up; the first ids of a test are always the same.
#[derive(Default)]
pub(crate) struct Entropy {
    drawn: AtomicU64,
    /// Panics at the next draw.
    pub(crate) panics: AtomicBool,
}

impl clock::Entropy for Entropy {
    fn draw(&self) -> u128 {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a test's panic");
        self.drawn.fetch_add(1, Ordering::SeqCst).into()
    }
}
