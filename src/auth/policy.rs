//! A key policy as data: which keys there are and what each may do.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{allowance::Limits, hash::KeyHash, secret::KeyId};

/// All keys, by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// Whether all keys share one prefix cache, so that how soon an answer begins can tell one key
    /// what another has sent.
    pub share_prefix_cache: bool,
    /// The keys.
    pub keys: BTreeMap<KeyId, Arc<Key>>,
}

/// One key.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its stable name.
    pub id: KeyId,
    /// What people call it.
    pub name: String,
    /// Of its secret.
    pub hash: KeyHash,
    /// Of the secret before a rotation, which is accepted until then.
    pub previous: Option<(KeyHash, Timestamp)>,
    /// Whether it may read, list and delete what other keys created.
    pub is_admin: bool,
    /// The models that it may use; `None` for all.
    pub models: Option<Arc<[String]>>,
    /// How much it may ask for.
    pub limits: Limits,
    /// From when on it is refused.
    pub expires: Option<Timestamp>,
    /// Whether it is refused.
    pub is_disabled: bool,
}

impl Key {
    /// Whether the key is accepted at all at a time.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        !self.is_disabled && self.expires.is_none_or(|expires| now < expires)
    }

    /// The hashes of the secrets that are accepted at a time.
    pub fn hashes_at(&self, now: Timestamp) -> impl Iterator<Item = &KeyHash> {
        let previous = self.previous.as_ref();
        let previous = previous.filter(move |(_, until)| now < *until);
        std::iter::once(&self.hash).chain(previous.map(|(hash, _)| hash))
    }
}
