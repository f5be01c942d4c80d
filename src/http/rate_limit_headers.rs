//! Rate limit headers: a key's remaining requests and tokens.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};

use crate::auth::{LimitStatus, Quota};

/// Adds the rest of a key's limits, if it has any.
pub(super) fn add(headers: &mut HeaderMap, standing: &LimitStatus) {
    let names = [
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ];
    add_quota(headers, names, standing.requests);
    let names = [
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ];
    add_quota(headers, names, standing.tokens);
}

fn add_quota(headers: &mut HeaderMap, names: [&'static str; 3], quota: Option<Quota>) {
    let Some(quota) = quota else { return };
    headers.insert(names[0], HeaderValue::from(quota.limit));
    headers.insert(names[1], HeaderValue::from(quota.remaining));
    if let Ok(reset) = HeaderValue::try_from(text(quota.reset)) {
        headers.insert(names[2], reset);
    }
}

/// Formats a duration as OpenAI does: `6m0s`, `1.5s`, `20ms`.
fn text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let seconds = rest as f64 / 1000.0;
    match (minutes, rest) {
        (0, 0..1000) => format!("{rest}ms"),
        (0, _) => format!("{seconds}s"),
        (minutes, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_clients_read_them() {
        for (millis, expected) in [
            (0, "0ms"),
            (20, "20ms"),
            (1500, "1.5s"),
            (60_000, "1m0s"),
            (361_250, "6m1.25s"),
        ] {
            assert_eq!(text(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn only_what_is_bounded_is_told() {
        let mut headers = HeaderMap::new();
        let tokens = Quota {
            limit: 100,
            remaining: 40,
            reset: Duration::from_secs(36),
        };
        let standing = LimitStatus {
            tokens: Some(tokens),
            ..LimitStatus::default()
        };
        add(&mut headers, &standing);
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["x-ratelimit-remaining-tokens"], "40");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "36s");
    }
}
