//! Secrets as clients present them, and the ids of keys that are part of them.

use std::fmt;

use rand::{RngExt as _, distr::Alphanumeric};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, ZeroizeOnDrop};

/// Prefix of every secret, before the key's id.
const PREFIX: &str = "sk-stemma-";
/// Letters and digits of a new secret's random part: 256 bits.
const RANDOM_LEN: usize = 43;
/// Longest secret that is looked at, in bytes.
const LEN_MAX: usize = 1024;
/// Longest id of a key, in bytes.
const ID_LEN_MAX: usize = 64;

/// The stable name of a key, `[a-z0-9_]+`: the owner of what is created with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

impl KeyId {
    /// Checks an id.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Result<Self, InvalidKeyId> {
        let is_fit = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let fits = !text.is_empty() && text.len() <= ID_LEN_MAX && text.bytes().all(is_fit);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidKeyId)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text cannot be the id of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id consists of 1 to {ID_LEN_MAX} characters `a` to `z`, `0` to `9` and `_`")]
pub struct InvalidKeyId;

/// A secret. Never printed, and erased when it is dropped.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the secret in the value of an `Authorization` header: `Bearer`, in any case, and the
    /// secret.
    pub fn of_authorization(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (scheme, secret) = text.trim_ascii().split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        is_bearer.then(|| Self::of_header(secret.as_bytes()))?
    }

    /// Returns the secret in a header's whole value: visible ASCII characters.
    pub fn of_header(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value.trim_ascii()).ok()?;
        let is_fit = (1..=LEN_MAX).contains(&text.len());
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_fit && is_visible).then(|| Self(text.to_owned()))
    }

    /// Generates a new secret for a key: `sk-stemma-<id>-<random>`.
    pub fn generate(id: &KeyId) -> Self {
        let mut random: String = rand::rng()
            .sample_iter(Alphanumeric)
            .take(RANDOM_LEN)
            .map(char::from)
            .collect();
        let secret = Self(format!("{PREFIX}{id}-{random}"));
        random.zeroize();
        secret
    }

    /// Returns the id within the secret, if it has one. The id grants nothing.
    pub fn key_id(&self) -> Option<KeyId> {
        let (id, random) = self.0.strip_prefix(PREFIX)?.split_once('-')?;
        let is_random = !random.is_empty() && random.bytes().all(|b| b.is_ascii_alphanumeric());
        KeyId::new(id).ok().filter(|_| is_random)
    }

    /// Returns the secret's text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a keyed digest, which identifies the secret within this process and does not reveal
    /// it.
    pub(super) fn digest(&self, key: &DigestKey) -> [u8; 32] {
        let digest = Sha256::new().chain_update(key.0).chain_update(&self.0);
        digest.finalize().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// Key of the secrets' digests; random in every process.
#[derive(ZeroizeOnDrop)]
pub(super) struct DigestKey([u8; 32]);

impl DigestKey {
    pub(super) fn generate() -> Self {
        Self(rand::random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_secret_names_its_key_and_no_two_are_equal() {
        let id = KeyId::new("team_1").expect("an id");
        let (one, other) = (Secret::generate(&id), Secret::generate(&id));
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.key_id(), Some(id));
        assert_eq!(one.expose().len(), "sk-stemma-team_1-".len() + RANDOM_LEN);
    }

    #[test]
    fn what_has_not_the_form_names_no_key() {
        for text in [
            "",
            "sk-stemma-",
            "sk-stemma-ci",
            "sk-stemma-ci-",
            "sk-stemma--x",
            "sk-stemma-Ci-x",
            "sk-stemma-ci-x-y",
            "sk-stemma-ci-ü",
            "sk-other-ci-x",
        ] {
            assert_eq!(Secret::new(text.to_owned()).key_id(), None, "{text}");
        }
    }

    #[test]
    fn headers_hold_a_secret_or_they_do_not() {
        let of = |value: &str| Secret::of_authorization(value.as_bytes());
        for value in ["Bearer abc", "bearer abc", "BEARER  abc ", " Bearer abc"] {
            assert_eq!(of(value).expect(value).expose(), "abc");
        }
        let long = format!("Bearer {}", "a".repeat(LEN_MAX + 1));
        for value in [
            "",
            "abc",
            "Bearer",
            "Bearer ",
            "Basic abc",
            "Bearer a b",
            "Bearer ä",
            &long,
        ] {
            assert!(of(value).is_none(), "{value}");
        }
        assert!(Secret::of_authorization(b"Bearer \xff").is_none());
        assert!(Secret::of_header(b"a\0b").is_none());
    }

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new("sk-stemma-ci-abc".to_owned());
        assert!(!format!("{secret:?}").contains("abc"));
    }

    #[test]
    fn ids_are_short_and_plain() {
        for text in ["", "A", "a-b", "a b", "ä", &"a".repeat(65)] {
            assert_eq!(KeyId::new(text), Err(InvalidKeyId), "{text}");
        }
        assert!(KeyId::new(&"a".repeat(64)).is_ok());
    }
}
