//! Dropping what has outlived its time, when it has.

use std::{convert::Infallible, time::Duration};

use crate::{clock::Clock, session::SessionLog};

/// Between two looks, so that many that expire in turn go together. Readers see none of them anyway.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// After a look that failed. A log that comes back goes on by itself.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);
/// Between two looks, so that a clock that was set is noticed.
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// Enforces the bounds of the log at once and whenever something outlives its time.
pub(super) async fn sweep(log: &SessionLog, clock: &dyn Clock) -> Infallible {
    loop {
        let swept = log.sweep(clock.now().as_millisecond()).await;
        let pause = match swept.and_then(|()| log.next_expiry_ms()) {
            Ok(next_ms) => {
                let now_ms = clock.now().as_millisecond();
                pause(now_ms, next_ms, log.retention().shortest_lifetime_ms())
            }
            Err(error) => {
                tracing::warn!(%error, "the session log could not be swept");
                PAUSE_AFTER_FAILURE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Returns the time during which no response or session can expire, of those stored now or until
/// then.
fn pause(now_ms: i64, next_ms: Option<i64>, shortest_lifetime_ms: Option<i64>) -> Duration {
    let next_ms = next_ms.map(|next_ms| next_ms.saturating_sub(now_ms));
    let soonest_ms = next_ms.into_iter().chain(shortest_lifetime_ms).min();
    let soonest = soonest_ms.map_or(PAUSE_MAX, |ms| {
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    });
    soonest.clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_comes_when_something_has_outlived_its_time() {
        let seconds = Duration::from_secs;
        for (next_ms, shortest_ms, expected) in [
            (Some(11_000), Some(60_000), seconds(10)),
            // Something may be stored meanwhile.
            (Some(90_000), Some(60_000), seconds(60)),
            (None, Some(60_000), seconds(60)),
            // Not more than once a second, and now and then in any case.
            (Some(0), Some(1), PAUSE_MIN),
            (Some(i64::MAX), Some(i64::MAX), PAUSE_MAX),
            (None, None, PAUSE_MAX),
        ] {
            assert_eq!(pause(1_000, next_ms, shortest_ms), expected, "{next_ms:?}");
        }
    }
}
