//! A clock for tests.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use jiff::Timestamp;

use crate::clock::Clock;

/// A clock that shows the time it was set to, in milliseconds since 1970; 0 at first.
#[derive(Debug, Default)]
pub(in crate::session) struct SetClock(AtomicI64);

impl SetClock {
    pub(in crate::session) fn set(&self, now_ms: i64) {
        self.0.store(now_ms, SeqCst);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(SeqCst)).unwrap()
    }
}
