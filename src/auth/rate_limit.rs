//! Rate limits of one key: requests and tokens a minute, and concurrent requests.
//!
//! Tokens are known only after generation. So a request is admitted while any token is left, and
//! may overdraw; time pays off the debt. (Rate limit libraries know no debt.)

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use crate::lock::IgnorePoison as _;

/// Rate limits of one key; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Requests that generate, a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens of prompts and answers, a minute.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// Requests that generate, at once.
    pub concurrent: Option<NonZeroU32>,
}

/// The rest of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The limit for a minute.
    pub limit: u32,
    /// Remaining requests or tokens.
    pub remaining: u32,
    /// Time until the limit is full again.
    pub reset: Duration,
}

/// The rest of a key's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitStatus {
    /// Rest of the request limit.
    pub requests: Option<Quota>,
    /// Rest of the token limit.
    pub tokens: Option<Quota>,
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitExceeded {
    /// The allowed requests a minute, and the time until the next one.
    Requests(u32, Duration),
    /// The allowed tokens a minute, and the time until tokens are left.
    Tokens(u32, Duration),
    /// The allowed concurrent requests.
    Concurrent(u32),
}

/// Rate limit state of one key; it outlives changes of the policy.
#[derive(Debug)]
pub struct KeyLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    limits: KeyLimits,
    requests: Bucket,
    tokens: Bucket,
    running: u32,
}

/// A token bucket: the used part of a minute's limit that time has not refilled. Above the limit it
/// is a debt.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    used: f64,
    at: Instant,
}

const MINUTE: f64 = 60.0;

impl Bucket {
    /// Refills the bucket for the time since the last call.
    fn settle(&mut self, limit: u32, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.used = (self.used - seconds * f64::from(limit) / MINUTE).max(0.0);
        self.at = self.at.max(now);
    }

    /// Returns the time until `amount` is available; `None` if it is.
    fn wait_for(&self, limit: u32, amount: f64) -> Option<Duration> {
        let missing = self.used + amount - f64::from(limit);
        (missing > 0.0).then(|| Duration::from_secs_f64(missing * MINUTE / f64::from(limit)))
    }

    fn quota(&self, limit: u32) -> Quota {
        Quota {
            limit,
            // A fraction of a request is no request.
            remaining: (f64::from(limit) - self.used).max(0.0) as u32,
            reset: Duration::from_secs_f64(self.used * MINUTE / f64::from(limit)),
        }
    }
}

impl KeyLimiter {
    /// Starts with full limits.
    pub fn new(limits: KeyLimits, now: Instant) -> Self {
        let full = Bucket { used: 0.0, at: now };
        Self(Mutex::new(State {
            limits,
            requests: full,
            tokens: full,
            running: 0,
        }))
    }

    /// Changes the limits; used amounts stay used.
    pub fn set_limits(&self, limits: KeyLimits, now: Instant) {
        let mut state = self.state();
        state.settle(now);
        state.limits = limits;
    }

    /// Takes one request, until the permit is dropped.
    ///
    /// # Errors
    /// If a limit is reached; nothing is taken then.
    pub fn admit(self: &Arc<Self>, now: Instant) -> Result<Permit, LimitExceeded> {
        let mut state = self.state();
        state.settle(now);
        let KeyLimits {
            requests_per_minute,
            tokens_per_minute,
            concurrent,
        } = state.limits;
        if let Some(limit) = concurrent.filter(|limit| state.running >= limit.get()) {
            return Err(LimitExceeded::Concurrent(limit.get()));
        }
        if let Some(limit) = requests_per_minute.map(NonZeroU32::get)
            && let Some(wait) = state.requests.wait_for(limit, 1.0)
        {
            return Err(LimitExceeded::Requests(limit, wait));
        }
        if let Some(limit) = tokens_per_minute.map(NonZeroU32::get)
            && let Some(wait) = state.tokens.wait_for(limit, 1.0)
        {
            return Err(LimitExceeded::Tokens(limit, wait));
        }
        state.requests.used += 1.0;
        state.running += 1;
        Ok(Permit(Arc::clone(self)))
    }

    /// Returns the rest of the limits.
    pub fn status(&self, now: Instant) -> LimitStatus {
        let mut state = self.state();
        state.settle(now);
        let limit = |limit: Option<NonZeroU32>| limit.map(NonZeroU32::get);
        LimitStatus {
            requests: limit(state.limits.requests_per_minute).map(|l| state.requests.quota(l)),
            tokens: limit(state.limits.tokens_per_minute).map(|l| state.tokens.quota(l)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic between two changes that belong together.
        self.0.lock().ignore_poison()
    }
}

impl State {
    fn settle(&mut self, now: Instant) {
        if let Some(limit) = self.limits.requests_per_minute {
            self.requests.settle(limit.get(), now);
        }
        if let Some(limit) = self.limits.tokens_per_minute {
            self.tokens.settle(limit.get(), now);
        }
    }
}

/// An admitted request. Dropping it frees its concurrency slot.
#[derive(Debug)]
pub struct Permit(Arc<KeyLimiter>);

impl Permit {
    /// Takes tokens; may overdraw.
    pub fn charge(&self, tokens: u64, now: Instant) {
        let mut state = self.0.state();
        state.settle(now);
        if state.limits.tokens_per_minute.is_some() {
            // Exact up to 2^53 tokens.
            state.tokens.used += tokens as f64;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rpm: u32, tpm: u32, concurrent: u32) -> KeyLimits {
        KeyLimits {
            requests_per_minute: NonZeroU32::new(rpm),
            tokens_per_minute: NonZeroU32::new(tpm),
            concurrent: NonZeroU32::new(concurrent),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn without_bounds_everything_is_let_in() {
        let now = Instant::now();
        let allowance = Arc::new(KeyLimiter::new(KeyLimits::default(), now));
        let permits: Vec<_> = (0..1000).map(|_| allowance.admit(now)).collect();
        assert!(permits.iter().all(Result::is_ok));
        assert_eq!(allowance.status(now), LimitStatus::default());
    }

    #[test]
    fn requests_come_back_with_time() {
        let now = Instant::now();
        let allowance = Arc::new(KeyLimiter::new(limits(6, 0, 0), now));
        for _ in 0..6 {
            allowance.admit(now).expect("left");
        }
        let denied = allowance.admit(now).expect_err("none left");
        assert_eq!(denied, LimitExceeded::Requests(6, seconds(10)));
        let quota = allowance.status(now).requests.expect("a bound");
        assert_eq!(
            (quota.limit, quota.remaining, quota.reset),
            (6, 0, seconds(60))
        );
        allowance.admit(now + seconds(10)).expect("one is back");
        assert!(allowance.admit(now + seconds(10)).is_err());
        let later = allowance.status(now + seconds(600)).requests;
        assert_eq!(later.map(|quota| quota.remaining), Some(6));
    }

    #[test]
    fn tokens_may_be_overdrawn_and_are_paid_back() {
        let now = Instant::now();
        let allowance = Arc::new(KeyLimiter::new(limits(0, 60, 0), now));
        allowance.admit(now).expect("left").charge(90, now);
        let denied = allowance.admit(now).expect_err("overdrawn");
        assert_eq!(denied, LimitExceeded::Tokens(60, seconds(31)));
        assert!(allowance.admit(now + seconds(30)).is_err());
        assert!(allowance.admit(now + seconds(31)).is_ok());
    }

    #[test]
    fn places_are_free_again_when_permits_go() {
        let now = Instant::now();
        let allowance = Arc::new(KeyLimiter::new(limits(0, 0, 1), now));
        let permit = allowance.admit(now).expect("free");
        assert_eq!(
            allowance.admit(now).expect_err("taken"),
            LimitExceeded::Concurrent(1)
        );
        drop(permit);
        assert!(allowance.admit(now).is_ok());
    }

    #[test]
    fn other_bounds_keep_what_was_used() {
        let now = Instant::now();
        let allowance = Arc::new(KeyLimiter::new(limits(2, 0, 0), now));
        allowance.admit(now).expect("left");
        allowance.set_limits(limits(1, 0, 0), now);
        assert!(matches!(
            allowance.admit(now),
            Err(LimitExceeded::Requests(1, _))
        ));
    }

    #[test]
    fn a_clock_that_does_not_move_on_gives_nothing_back() {
        let now = Instant::now() + seconds(100);
        let allowance = Arc::new(KeyLimiter::new(limits(1, 0, 0), now));
        allowance.admit(now).expect("left");
        assert!(allowance.admit(now - seconds(50)).is_err());
        assert!(allowance.admit(now).is_err());
    }
}
