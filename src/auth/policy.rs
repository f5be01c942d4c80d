//! A key policy as data: the keys and their permissions.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{hash::KeyHash, rate_limit::KeyLimits, secret::KeyId};

/// All keys, by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// True if all keys share one prefix cache. The time to the first token can then reveal to one
    /// key what another has sent.
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
    /// Hash of its secret.
    pub hash: KeyHash,
    /// Hash of the secret before a rotation, and the end of its acceptance.
    pub previous: Option<(KeyHash, Timestamp)>,
    /// True if it may read, list and delete what other keys created.
    pub is_admin: bool,
    /// The models that it may use; `None` for all.
    pub models: Option<Arc<[String]>>,
    /// Rate limits.
    pub limits: KeyLimits,
    /// End of the key's validity.
    pub expires: Option<Timestamp>,
    /// True if the key is disabled.
    pub is_disabled: bool,
}

impl ApiKey {
    /// Returns the hashes of its secrets, the one before a rotation included.
    pub fn hashes(&self) -> impl Iterator<Item = &KeyHash> {
        let previous = self.previous.iter().map(|(hash, _)| hash);
        std::iter::once(&self.hash).chain(previous)
    }

    /// Returns the hashes of the secrets that are accepted at `now`.
    pub fn hashes_at(&self, now: Timestamp) -> impl Iterator<Item = &KeyHash> {
        let is_over = self
            .previous
            .as_ref()
            .is_some_and(|(_, until)| *until <= now);
        self.hashes().take(if is_over { 1 } else { 2 })
    }
}
