//! The thread that compares secrets with hashes. Argon2 is expensive by design, and must not delay
//! running streams.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

use tokio::sync::oneshot;

use super::{
    fair_queue::FairQueue,
    hash::{KeyHash, Workspace},
    secret::{KeyId, Secret},
};
use crate::lock::IgnorePoison as _;

/// Different secrets that may wait for one key.
const WAITING_MAX: usize = 16;
/// Nice value of the thread, so that it yields to the threads that answer.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;

/// A digest of a secret.
pub(super) type Digest = [u8; 32];

/// Compares secrets with hashes, one at a time. Keys take turns, and equal concurrent secrets are
/// compared once.
pub(super) struct HashVerifier(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Waiting checks, by the key that a secret names, if there is such a key.
    line: FairQueue<Option<KeyId>, Check>,
    /// Requests that wait for a secret's result.
    askers: HashMap<Digest, Vec<Reply>>,
    closed: bool,
}

/// Receives the hash that matches, if any.
type Reply = oneshot::Sender<Option<KeyHash>>;

struct Check {
    digest: Digest,
    secret: Secret,
    hashes: Vec<KeyHash>,
}

/// The error for a key with too many waiting secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

impl HashVerifier {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                line: FairQueue::new(WAITING_MAX),
                askers: HashMap::new(),
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let worker = Arc::clone(&shared);
        thread::Builder::new()
            .name("key-check".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self(shared))
    }

    /// Returns the one of `hashes` that a secret matches. `key` is the queue that the check waits
    /// in.
    pub(super) async fn check(
        &self,
        key: Option<KeyId>,
        digest: Digest,
        secret: Secret,
        hashes: Vec<KeyHash>,
    ) -> Result<Option<KeyHash>, Crowded> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.0.state();
            if let Some(askers) = state.askers.get_mut(&digest) {
                askers.push(reply);
            } else {
                let check = Check {
                    digest,
                    secret,
                    hashes,
                };
                state.line.push(key, check).map_err(|_| Crowded)?;
                state.askers.insert(digest, vec![reply]);
                self.0.changed.notify_one();
            }
        }
        answer.await.map_err(|_| Crowded)
    }
}

impl Drop for HashVerifier {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds this can panic half-way.
        self.state.lock().ignore_poison()
    }

    fn run(&self) {
        yield_to_others();
        let mut workspace = Workspace::default();
        while let Some(check) = self.next() {
            let matches = |hash: &&KeyHash| hash.matches(&check.secret, &mut workspace);
            let matching = check.hashes.iter().find(matches);
            let askers = self.state().askers.remove(&check.digest);
            for asker in askers.into_iter().flatten() {
                // The request may have been cancelled.
                let _ = asker.send(matching.cloned());
            }
        }
    }

    /// Waits for the next check that still has a waiting request.
    fn next(&self) -> Option<Check> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let Some(check) = state.line.pop() else {
                let waited = self.changed.wait(state);
                state = waited.ignore_poison();
                continue;
            };
            let askers = state.askers.get(&check.digest);
            if askers.is_some_and(|askers| askers.iter().any(|asker| !asker.is_closed())) {
                return Some(check);
            }
            state.askers.remove(&check.digest);
        }
    }
}

/// Lowers the thread's priority. On Linux niceness belongs to threads; elsewhere it would be the
/// whole process's.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::warn!(%error, "hash worker: nice value not set");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> (Digest, Secret) {
        let mut digest = [0; 32];
        digest[..text.len()].copy_from_slice(text.as_bytes());
        (digest, Secret::new(text.to_owned()))
    }

    #[tokio::test]
    async fn the_matching_hash_comes_back_to_everybody_who_asked() {
        let checker = HashVerifier::start().expect("a thread");
        let (digest, right) = secret("right");
        let hashes = vec![
            KeyHash::of(&secret("other").1).expect("a hash"),
            KeyHash::of(&right).expect("a hash"),
        ];
        let check = || checker.check(None, digest, right.clone(), hashes.clone());
        let both = futures::future::join(check(), check()).await;
        assert_eq!(
            both,
            (Ok(Some(hashes[1].clone())), Ok(Some(hashes[1].clone())))
        );
        let (digest, wrong) = secret("wrong");
        let wrong = checker.check(None, digest, wrong, hashes).await;
        assert_eq!(wrong, Ok(None));
    }

    #[tokio::test]
    async fn a_crowd_for_one_key_is_turned_away_and_others_are_served() {
        let checker = HashVerifier::start().expect("a thread");
        let (digest, right) = secret("right");
        let hash = vec![KeyHash::of(&right).expect("a hash")];
        let crowd = (0..100).map(|n| {
            let (digest, wrong) = secret(&format!("wrong {n}"));
            checker.check(None, digest, wrong, hash.clone())
        });
        let id = KeyId::new("ci").expect("an id");
        let served = checker.check(Some(id), digest, right, hash.clone());
        let (crowd, served) = futures::future::join(futures::future::join_all(crowd), served).await;
        assert_eq!(served, Ok(Some(hash[0].clone())));
        let turned_away = crowd.iter().filter(|outcome| outcome.is_err()).count();
        assert!(
            (100 - WAITING_MAX - 2..100).contains(&turned_away),
            "{turned_away}"
        );
        assert!(
            crowd
                .iter()
                .all(|outcome| matches!(outcome, Err(Crowded) | Ok(None)))
        );
    }
}
