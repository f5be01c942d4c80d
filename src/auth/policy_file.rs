//! Parses the policy file, TOML, to a [`Policy`]; errors name the line.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    ops::Range,
    sync::Arc,
};

use jiff::Timestamp;
use serde::Deserialize;
use toml::{Spanned, value::Datetime};

use super::{
    hash::KeyHash,
    policy::{ApiKey, Policy},
    rate_limit::KeyLimits,
    secret::KeyId,
};

/// Longest name of a key, in bytes.
const NAME_LEN_MAX: usize = 256;

/// The reason why a policy file is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PolicyError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Description without text that could be a secret.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    share_prefix_cache: bool,
    #[serde(default)]
    key: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Spanned<String>,
    name: Spanned<String>,
    hash: Spanned<String>,
    previous_hash: Option<Spanned<String>>,
    previous_until: Option<Spanned<Datetime>>,
    #[serde(default)]
    admin: bool,
    models: Option<Spanned<Vec<String>>>,
    rate_limit_rpm: Option<NonZeroU32>,
    rate_limit_tpm: Option<NonZeroU32>,
    max_concurrent: Option<NonZeroU32>,
    expires: Option<Spanned<Datetime>>,
    #[serde(default)]
    disabled: bool,
}

/// Parses a policy.
///
/// # Errors
/// Unknown fields, duplicate ids or hashes, weak hashes, or no key at all; with the line.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    let reader = Reader { text };
    let file: File = toml::from_str(text).map_err(|error| {
        reader.error(error.span().unwrap_or_default(), redacted(error.message()))
    })?;
    let mut keys = BTreeMap::new();
    let mut hashes: HashMap<KeyHash, KeyId> = HashMap::new();
    for entry in file.key {
        let (span, id_span) = (entry.span(), entry.as_ref().id.span());
        let key = reader.key(entry.into_inner())?;
        for hash in key.hashes() {
            if let Some(other) = hashes.insert(hash.clone(), key.id.clone()) {
                let reason = format!("`{}` and `{other}` have the same hash", key.id);
                return Err(reader.error(span, reason));
            }
        }
        let id = key.id.clone();
        if keys.insert(id.clone(), Arc::new(key)).is_some() {
            return Err(reader.error(id_span, format!("there are two keys `{id}`")));
        }
    }
    if keys.is_empty() {
        let reason = "there is no key: add one with `stemma keys new`";
        return Err(reader.error(0..0, reason));
    }
    Ok(Policy {
        share_prefix_cache: file.share_prefix_cache,
        keys,
    })
}

/// Returns the first line of the parser's message, without text from the file.
fn redacted(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let outside_quotes: Vec<&str> = line.split('"').step_by(2).collect();
    let words = outside_quotes.join("\"…\"");
    let words = words
        .split(' ')
        .map(|word| if word.contains("sk-") { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn key(&self, entry: Entry) -> Result<ApiKey, PolicyError> {
        let id = KeyId::new(entry.id.as_ref())
            .map_err(|error| self.error(entry.id.span(), error.to_string()))?;
        if entry.name.as_ref().len() > NAME_LEN_MAX {
            let reason = format!("the name is longer than {NAME_LEN_MAX} bytes");
            return Err(self.error(entry.name.span(), reason));
        }
        let hash = self.hash("hash", &entry.hash)?;
        let previous = match (entry.previous_hash, entry.previous_until) {
            (None, None) => None,
            (Some(hash), Some(until)) => {
                Some((self.hash("previous_hash", &hash)?, self.time(&until)?))
            }
            (Some(alone), None) => {
                let reason =
                    "previous_hash needs previous_until, the time from which on it is refused";
                return Err(self.error(alone.span(), reason));
            }
            (None, Some(alone)) => {
                return Err(self.error(alone.span(), "previous_until needs previous_hash"));
            }
        };
        if let Some(models) = entry.models.as_ref().filter(|m| m.as_ref().is_empty()) {
            let reason = "models names none; leave it out to allow all, or say disabled = true";
            return Err(self.error(models.span(), reason));
        }
        Ok(ApiKey {
            id,
            name: entry.name.into_inner(),
            hash,
            previous,
            is_admin: entry.admin,
            models: entry.models.map(|models| models.into_inner().into()),
            limits: KeyLimits {
                requests_per_minute: entry.rate_limit_rpm,
                tokens_per_minute: entry.rate_limit_tpm,
                concurrent: entry.max_concurrent,
            },
            expires: entry.expires.map(|at| self.time(&at)).transpose()?,
            is_disabled: entry.disabled,
        })
    }

    fn hash(&self, field: &str, text: &Spanned<String>) -> Result<KeyHash, PolicyError> {
        KeyHash::parse(text.as_ref())
            .map_err(|error| self.error(text.span(), format!("{field} {error}")))
    }

    fn time(&self, at: &Spanned<Datetime>) -> Result<Timestamp, PolicyError> {
        at.as_ref().to_string().parse().map_err(|_| {
            let reason = "a time needs date, time and zone, such as 2027-01-31T12:00:00Z";
            self.error(at.span(), reason)
        })
    }

    fn error(&self, at: Range<usize>, reason: impl Into<String>) -> PolicyError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        PolicyError {
            line: before.matches('\n').count() + 1,
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI";
    const OTHER: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTM";

    fn entry(rest: &str) -> String {
        format!("[[key]]\nid = \"ci\"\nname = \"CI\"\nhash = \"{HASH}\"\n{rest}\n")
    }

    #[test]
    fn every_field_is_read() {
        let text = format!(
            "share_prefix_cache = true\n{}",
            entry(&format!(
                "previous_hash = \"{OTHER}\"\nprevious_until = 2027-01-01T00:00:00Z\nadmin = true\n\
                 models = [\"a\"]\nrate_limit_rpm = 1\nrate_limit_tpm = 2\nmax_concurrent = 3\n\
                 expires = 2027-02-01T00:00:00+01:00\ndisabled = true"
            ))
        );
        let policy = parse(&text).expect("a policy");
        assert!(policy.share_prefix_cache);
        let key = &policy.keys[&KeyId::new("ci").expect("an id")];
        assert_eq!(key.name, "CI");
        let until = key.previous.as_ref().expect("a previous one").1;
        assert_eq!(until.to_string(), "2027-01-01T00:00:00Z");
        assert_eq!(key.models.as_deref(), Some(&["a".to_owned()][..]));
        let limits = [
            key.limits.requests_per_minute,
            key.limits.tokens_per_minute,
            key.limits.concurrent,
        ];
        assert_eq!(
            limits.map(|limit| limit.map(NonZeroU32::get)),
            [1, 2, 3].map(Some)
        );
        let expires = key.expires.expect("a time");
        assert_eq!(expires.to_string(), "2027-01-31T23:00:00Z");
        assert!(key.is_admin && key.is_disabled);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let twice = format!("{}{}", entry(""), entry("").replace(HASH, OTHER));
        let same_hash = format!("{}{}", entry(""), entry("").replace("\"ci\"", "\"cd\""));
        for (text, line, reason) in [
            (String::new(), 1, "there is no key"),
            (
                "share_prefix_cash = true".to_owned(),
                1,
                "unknown field `share_prefix_cash`",
            ),
            (entry("admim = true"), 5, "unknown field `admim`"),
            (entry("models = []"), 5, "models names none"),
            (entry("rate_limit_rpm = 0"), 5, "invalid value"),
            (
                entry("expires = 2027-01-01"),
                5,
                "a time needs date, time and zone",
            ),
            (entry("expires = \"soon\""), 5, "invalid type"),
            (
                entry(&format!("previous_hash = \"{OTHER}\"")),
                5,
                "previous_until",
            ),
            (
                entry("previous_until = 2027-01-01T00:00:00Z"),
                5,
                "previous_hash",
            ),
            (
                entry("").replace("\"ci\"", "\"c-i\""),
                2,
                "an id consists of",
            ),
            (entry("").replace("m=19456", "m=1024"), 4, "hash has memory"),
            (
                entry("").replace(HASH, "sk-stemma-ci-plain"),
                4,
                "hash is not a hash",
            ),
            (
                entry("").replace("name = \"CI\"\n", ""),
                1,
                "missing field `name`",
            ),
            (twice, 7, "there are two keys `ci`"),
            (same_hash, 6, "`cd` and `ci` have the same hash"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(error.reason.contains(reason), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }

    #[test]
    fn a_secret_in_the_wrong_place_is_not_repeated() {
        let secret = "sk-stemma-ci-verysecret";
        for text in [
            entry("").replace(HASH, secret),
            entry("").replace("\"ci\"", &format!("\"{secret}\"")),
            entry(&format!("expires = \"{secret}\"")),
            entry(&format!("max_concurrent = \"{secret}\"")),
            format!("hash = {secret}"),
            format!("{secret} = 1"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(!error.to_string().contains("verysecret"), "{error}");
        }
    }
}
