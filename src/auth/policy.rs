//! A key policy as data: which keys there are and what each may do.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{hash::KeyHash, rate_limit::KeyLimits, secret::KeyId};

/// All keys, by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// True if all keys share one prefix cache, so that how soon an answer begins can tell one key
    /// what another has sent.
    pub share_prefix_cache: bool,
    /// The keys.
    pub keys: BTreeMap<KeyId, Arc<ApiKey>>,
}

/// One key.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiKey {
    /// Its stable name.
    pub id: KeyId,
    /// Display name.
    pub name: String,
    /// Of its secret.
    pub hash: KeyHash,
    /// Of the secret before a rotation, which is accepted until then.
    pub previous: Option<(KeyHash, Timestamp)>,
    /// True if it may read, list and delete what other keys created.
    pub is_admin: bool,
    /// The models that it may use; `None` for all.
    pub models: Option<Arc<[String]>>,
    /// Rate limits.
    pub limits: KeyLimits,
    /// From when on it is refused.
    pub expires: Option<Timestamp>,
    /// True if it is refused.
    pub is_disabled: bool,
}

impl ApiKey {
    /// The hashes of its secrets, that before a rotation included.
    pub fn hashes(&self) -> impl Iterator<Item = &KeyHash> {
        let previous = self.previous.iter().map(|(hash, _)| hash);
        std::iter::once(&self.hash).chain(previous)
    }

    /// The hashes of the secrets that are accepted at a time.
    pub fn hashes_at(&self, now: Timestamp) -> impl Iterator<Item = &KeyHash> {
        let is_over = self
            .previous
            .as_ref()
            .is_some_and(|(_, until)| *until <= now);
        self.hashes().take(if is_over { 1 } else { 2 })
    }
}
