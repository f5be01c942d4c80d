//! Wall time and randomness behind traits, so that tests can set both.

use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Source of random ids and seeds.
pub trait Entropy: Send + Sync {
    /// The next 128 bits.
    fn draw(&self) -> u128;
}

/// The operating system's randomness, through a generator fit for cryptography.
#[derive(Debug, Clone, Copy)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn draw(&self) -> u128 {
        rand::random()
    }
}
