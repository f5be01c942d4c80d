//! Authentication: turns a secret into a caller.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, RwLock},
    time::Instant,
};

use jiff::Timestamp;
use subtle::{Choice, ConstantTimeEq as _};

use super::{
    caller::Caller,
    hash::KeyHash,
    hash_worker::{Digest, HashVerifier},
    policy::{ApiKey, Policy},
    rate_limit::KeyLimiter,
    secret::{DigestKey, KeyId, Secret},
};
use crate::{clock::Clock, lock::IgnorePoison as _};

/// Most wrong secrets that are cached, so that repeating one costs the server nothing.
const WRONG_MAX: usize = 4096;

/// Authenticates callers.
pub struct Authenticator(Kind);

enum Kind {
    Open(Caller),
    Keys(Keys),
    Policy(Box<Keeper>),
}

/// The reason why authentication fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthError {
    /// No secret was presented.
    Missing,
    /// It is not the secret of any key.
    Wrong,
    /// The key has expired.
    Expired,
    /// The key is disabled.
    Disabled,
    /// Too many secrets wait to be checked for this key.
    Crowded,
}

impl Authenticator {
    /// Accepts everyone. `share_owned`: responses that were created under a policy are shared too.
    pub fn open(share_owned: bool) -> Self {
        Self(Kind::Open(Caller::anyone(share_owned)))
    }

    /// Accepts each of these secrets, all as the same caller.
    pub fn keys(secrets: &[Secret], share_owned: bool) -> Self {
        let digest_key = DigestKey::generate();
        let digests = secrets.iter().map(|secret| secret.digest(&digest_key));
        Self(Kind::Keys(Keys {
            digests: digests.collect(),
            digest_key,
            caller: Caller::anyone(share_owned),
        }))
    }

    /// Accepts the secret of each key of the policy, as that key.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn policy(policy: Policy, clock: Arc<dyn Clock>) -> io::Result<Self> {
        Ok(Self(Kind::Policy(Box::new(Keeper {
            clock,
            checker: HashVerifier::start()?,
            decoy: KeyHash::decoy(),
            digest_key: DigestKey::generate(),
            rules: RwLock::new(Arc::new(Rules::of(policy, None))),
            known: Mutex::default(),
        }))))
    }

    /// Replaces the policy, from the next request on. Does nothing without a policy.
    pub fn replace(&self, policy: Policy) {
        if let Kind::Policy(keeper) = &self.0 {
            keeper.replace(policy);
        }
    }

    /// Returns the ids of the policy's keys; empty without a policy.
    pub fn key_ids(&self) -> Vec<KeyId> {
        match &self.0 {
            Kind::Policy(keeper) => keeper.rules().policy.keys.keys().cloned().collect(),
            Kind::Open(_) | Kind::Keys(_) => Vec::new(),
        }
    }

    /// True if everyone is accepted.
    pub fn is_open(&self) -> bool {
        matches!(self.0, Kind::Open(_))
    }

    /// Returns the caller with this secret.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn authenticate(&self, secret: Option<Secret>) -> Result<Caller, AuthError> {
        match &self.0 {
            Kind::Open(caller) => Ok(caller.clone()),
            Kind::Keys(keys) => keys.admit(&secret.ok_or(AuthError::Missing)?),
            Kind::Policy(keeper) => keeper.admit(secret.ok_or(AuthError::Missing)?).await,
        }
    }
}

struct Keys {
    digest_key: DigestKey,
    digests: Vec<Digest>,
    caller: Caller,
}

impl Keys {
    /// Checks a secret in constant time.
    fn admit(&self, secret: &Secret) -> Result<Caller, AuthError> {
        let digest = secret.digest(&self.digest_key);
        let is_one = self
            .digests
            .iter()
            .fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        match is_one.into() {
            true => Ok(self.caller.clone()),
            false => Err(AuthError::Wrong),
        }
    }
}

/// Authenticates by a policy.
struct Keeper {
    clock: Arc<dyn Clock>,
    checker: HashVerifier,
    /// Secrets of unknown keys are compared with this hash, so that they take as long as others.
    decoy: KeyHash,
    digest_key: DigestKey,
    rules: RwLock<Arc<Rules>>,
    known: Mutex<VerifiedSecrets>,
}

/// A policy and the state of its rate limits.
struct Rules {
    policy: Policy,
    allowances: BTreeMap<KeyId, Arc<KeyLimiter>>,
}

impl Rules {
    /// Keeps the rate limit state of keys that were in the policy before.
    fn of(policy: Policy, before: Option<&Self>) -> Self {
        let now = Instant::now();
        let allowance = |key: &ApiKey| {
            let kept = before.and_then(|before| before.allowances.get(&key.id));
            match kept {
                Some(allowance) => {
                    allowance.set_limits(key.limits, now);
                    Arc::clone(allowance)
                }
                None => Arc::new(KeyLimiter::new(key.limits, now)),
            }
        };
        let keys = policy.keys.values();
        let allowances = keys.map(|key| (key.id.clone(), allowance(key))).collect();
        Self { policy, allowances }
    }

    fn caller(&self, key: &ApiKey) -> Caller {
        Caller {
            owner: Some(key.id.as_str().into()),
            reads_all: key.is_admin,
            continues_all: false,
            is_admin: key.is_admin,
            models: key.models.clone(),
            shares_cache: self.policy.share_prefix_cache,
            allowance: self.allowances.get(&key.id).cloned(),
        }
    }
}

/// Results of earlier checks, by digest of the secret.
#[derive(Default)]
struct VerifiedSecrets {
    right: HashMap<Digest, KeyHash>,
    wrong: HashSet<Digest>,
    /// The wrong ones, oldest first.
    wrong_order: VecDeque<Digest>,
}

impl VerifiedSecrets {
    fn remember_wrong(&mut self, digest: Digest) {
        if !self.wrong.insert(digest) {
            return;
        }
        self.wrong_order.push_back(digest);
        if self.wrong_order.len() > WRONG_MAX
            && let Some(oldest) = self.wrong_order.pop_front()
        {
            self.wrong.remove(&oldest);
        }
    }
}

impl Keeper {
    async fn admit(&self, secret: Secret) -> Result<Caller, AuthError> {
        let id = secret.key_id().ok_or(AuthError::Wrong)?;
        let digest = secret.digest(&self.digest_key);
        loop {
            let rules = self.rules();
            let now = self.clock.now();
            let key = rules.policy.keys.get(&id);
            match self.recall(&digest) {
                Some(Some(hash))
                    if let Some(key) = key
                        && accepts(key, &hash, now) =>
                {
                    return valid(key, now).map(|()| rules.caller(key));
                }
                // The secret before a rotation that has ended, or the secret of a removed key.
                Some(_) => return Err(AuthError::Wrong),
                None => {}
            }
            let hashes = match key {
                Some(key) => key.hashes_at(now).cloned().collect(),
                None => vec![self.decoy.clone()],
            };
            let group = key.map(|key| key.id.clone());
            let check = self.checker.check(group, digest, secret.clone(), hashes);
            let matching = check.await.map_err(|_| AuthError::Crowded)?;
            // The policy may have changed in the meantime; the new one then decides.
            if Arc::ptr_eq(&rules, &self.rules()) {
                self.remember(digest, matching.filter(|_| key.is_some()));
            }
        }
    }

    /// Returns the cached result for a secret: the hash that it matches, if any.
    fn recall(&self, digest: &Digest) -> Option<Option<KeyHash>> {
        let known = self.known();
        match known.right.get(digest) {
            Some(hash) => Some(Some(hash.clone())),
            None => known.wrong.contains(digest).then_some(None),
        }
    }

    fn remember(&self, digest: Digest, matching: Option<KeyHash>) {
        let mut known = self.known();
        match matching {
            Some(hash) => drop(known.right.insert(digest, hash)),
            None => known.remember_wrong(digest),
        }
    }

    fn replace(&self, policy: Policy) {
        let mut rules = self.rules.write().ignore_poison();
        *rules = Arc::new(Rules::of(policy, Some(&rules)));
        // A wrong secret may be right under the new policy. A right one is compared with the policy
        // each time, so entries of removed keys can go.
        let keys = rules.policy.keys.values();
        let hashes: HashSet<&KeyHash> = keys.flat_map(|key| key.hashes()).collect();
        let mut known = self.known();
        known.right.retain(|_, hash| hashes.contains(hash));
        known.wrong.clear();
        known.wrong_order.clear();
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().ignore_poison())
    }

    fn known(&self) -> MutexGuard<'_, VerifiedSecrets> {
        // Nothing that holds this can panic half-way.
        self.known.lock().ignore_poison()
    }
}

fn accepts(key: &ApiKey, hash: &KeyHash, now: Timestamp) -> bool {
    key.hashes_at(now).any(|accepted| accepted == hash)
}

fn valid(key: &ApiKey, now: Timestamp) -> Result<(), AuthError> {
    match () {
        () if key.is_disabled => Err(AuthError::Disabled),
        () if key.expires.is_some_and(|expires| expires <= now) => Err(AuthError::Expired),
        () => Ok(()),
    }
}
