//! Retention: optional limits on number, bytes and age, enforced in log order.

use super::{
    super::{
        error::LogError,
        format::record::{IndexEntry, SessionHeader, load, open_record},
        keys::{Key, KeyRange, Space},
        store::ReadStore,
        txn::Txn,
    },
    gc,
};

/// Retention limits. By default there is no limit, except a day for sessions that stored no
/// response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// The maximum number of visible responses; `Some(0)` disables the storage of responses.
    pub max_entries: Option<u64>,
    /// The maximum bytes of visible responses; `Some(0)` deletes each response as soon as it is
    /// stored.
    pub max_bytes: Option<u64>,
    /// The TTL of visible responses in milliseconds, from when they were stored.
    pub ttl_ms: Option<i64>,
    /// The TTL of sessions without a stored response, in milliseconds.
    pub unstored_retention_ms: Option<i64>,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self::from_flags(None, None, None, 24 * 60 * 60)
    }
}

impl RetentionLimits {
    /// Converts command-line values. `None` is unlimited; so is a TTL of 0.
    pub fn from_flags(
        max_entries: Option<u64>,
        max_bytes: Option<u64>,
        ttl_secs: Option<u64>,
        unstored_retention_secs: u64,
    ) -> Self {
        let lifetime_ms = |secs: u64| {
            let ms = i64::try_from(secs.saturating_mul(1000)).unwrap_or(i64::MAX);
            (ms > 0).then_some(ms)
        };
        Self {
            max_entries,
            max_bytes,
            ttl_ms: ttl_secs.and_then(lifetime_ms),
            unstored_retention_ms: lifetime_ms(unstored_retention_secs),
        }
    }

    /// True if responses are not stored at all.
    pub fn persistence_disabled(&self) -> bool {
        self.max_entries == Some(0)
    }

    /// Returns the shortest TTL in milliseconds. A session stored from now on cannot expire
    /// earlier.
    pub fn shortest_lifetime_ms(&self) -> Option<i64> {
        let lifetimes = [self.ttl_ms, self.unstored_retention_ms];
        lifetimes.into_iter().flatten().min()
    }

    /// True if a response stored at `at_ms` has expired at `now_ms`.
    pub fn is_expired(&self, at_ms: i64, now_ms: i64) -> bool {
        has_expired(self.ttl_ms, at_ms, now_ms)
    }
}

fn has_expired(lifetime_ms: Option<i64>, at_ms: i64, now_ms: i64) -> bool {
    lifetime_ms.is_some_and(|lifetime| now_ms.saturating_sub(at_ms) >= lifetime)
}

/// Returns when the next response or session expires, in milliseconds since 1970; `None` without a
/// TTL or without entries.
///
/// # Errors
/// Errors of the storage.
pub fn next_expiry_ms(
    read: &impl ReadStore,
    limits: &RetentionLimits,
) -> Result<Option<i64>, LogError> {
    let persistent = !limits.persistence_disabled();
    let lifetimes = [
        (Space::ResponseIndex, limits.ttl_ms.filter(|_| persistent)),
        (Space::UnstoredIndex, limits.unstored_retention_ms),
    ];
    let mut next: Option<i64> = None;
    for (space, lifetime_ms) in lifetimes {
        let Some(lifetime_ms) = lifetime_ms else {
            continue;
        };
        if let Some(entry) = oldest(read, space)? {
            let ends_ms = entry.at_ms.saturating_add(lifetime_ms);
            next = Some(next.map_or(ends_ms, |next| next.min(ends_ms)));
        }
    }
    Ok(next)
}

/// Deletes at most `limit` responses and expired sessions beyond the limits. Returns true if more
/// may be left.
///
/// A deleted response that a stored one continues stays for that one, hidden and no longer counted.
///
/// # Errors
/// Errors of the storage.
pub fn enforce(
    txn: &mut Txn<'_>,
    limits: &RetentionLimits,
    now_ms: i64,
    limit: usize,
) -> Result<bool, LogError> {
    for _ in 0..limit {
        if !delete_oldest_response(txn, limits, now_ms)?
            && !expire_oldest_unstored(txn, limits, now_ms)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn oldest(read: &impl ReadStore, space: Space) -> Result<Option<IndexEntry>, LogError> {
    let first = read.scan(&KeyRange::space(space), 1)?.pop();
    Ok(first
        .map(|(key, value)| open_record(&key, &value))
        .transpose()?)
}

fn delete_oldest_response(
    txn: &mut Txn<'_>,
    limits: &RetentionLimits,
    now_ms: i64,
) -> Result<bool, LogError> {
    if limits.persistence_disabled() {
        return Ok(false);
    }
    let exceeded = limits
        .max_entries
        .is_some_and(|max| txn.totals.responses > max)
        || limits
            .max_bytes
            .is_some_and(|max| txn.totals.response_bytes > max);
    if !exceeded && limits.ttl_ms.is_none() {
        return Ok(false);
    }
    let Some(entry) = oldest(txn, Space::ResponseIndex)? else {
        return Ok(false);
    };
    if !exceeded && !limits.is_expired(entry.at_ms, now_ms) {
        return Ok(false);
    }
    let header = load::<SessionHeader>(txn, &Key::header(entry.session))?.ok_or_else(|| {
        LogError::Corrupt(format!(
            "response {} is listed but has no session",
            entry.session
        ))
    })?;
    gc::delete(txn, entry.session, header);
    Ok(true)
}

fn expire_oldest_unstored(
    txn: &mut Txn<'_>,
    limits: &RetentionLimits,
    now_ms: i64,
) -> Result<bool, LogError> {
    if limits.unstored_retention_ms.is_none() {
        return Ok(false);
    }
    let Some(entry) = oldest(txn, Space::UnstoredIndex)? else {
        return Ok(false);
    };
    if !has_expired(limits.unstored_retention_ms, entry.at_ms, now_ms) {
        return Ok(false);
    }
    gc::expire_unstored(txn, entry.session)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_flags_disable_or_unlimit() {
        let limits = RetentionLimits::from_flags(Some(0), Some(0), Some(0), 0);
        assert!(limits.persistence_disabled());
        assert_eq!(limits.max_bytes, Some(0));
        assert_eq!((limits.ttl_ms, limits.unstored_retention_ms), (None, None));
        assert!(!RetentionLimits::default().persistence_disabled());
        assert_eq!(
            RetentionLimits::default().unstored_retention_ms,
            Some(86_400_000)
        );
    }

    #[test]
    fn nothing_expires_when_the_clock_steps_back() {
        let limits = RetentionLimits::from_flags(None, None, Some(1), 0);
        assert!(!limits.is_expired(10_000, 500));
        assert!(!limits.is_expired(10_000, 10_999));
        assert!(limits.is_expired(10_000, 11_000));
    }
}
