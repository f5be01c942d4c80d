//! The caller, as all modules below HTTP see it.

use std::sync::Arc;

use super::rate_limit::KeyLimiter;

/// A caller and its permissions.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Id of the key under a policy: the owner of what is created.
    pub owner: Option<Arc<str>>,
    /// True if things of every owner can be read, listed and deleted.
    pub reads_all: bool,
    /// True if things of every owner can be continued.
    pub continues_all: bool,
    /// True if operators' routes are open.
    pub is_admin: bool,
    /// The models that may be used; `None` for all.
    pub models: Option<Arc<[String]>>,
    /// True if the prefix cache is shared with other owners.
    pub shares_cache: bool,
    /// The caller's rate limits, if it has any.
    pub allowance: Option<Arc<KeyLimiter>>,
}

impl Caller {
    /// Somebody on a server without a key policy, where everything is shared. With `share_owned`,
    /// what was created under a policy is shared too.
    pub fn anyone(share_owned: bool) -> Self {
        Self {
            reads_all: share_owned,
            continues_all: share_owned,
            is_admin: true,
            shares_cache: true,
            ..Self::default()
        }
    }

    /// True if a model may be used.
    pub fn may_use(&self, model: &str) -> bool {
        let models = self.models.as_deref();
        models.is_none_or(|models| models.iter().any(|name| name == model))
    }
}
