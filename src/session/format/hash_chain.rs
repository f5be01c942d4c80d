//! The SHA-256 chain over a session's events. A changed, missing or moved event breaks the chain.

use sha2::{Digest, Sha256};

use super::payload::Payload;

/// The chain value of a session without events.
pub const START: [u8; 32] = [0; 32];

/// Returns the digest of one event. The digest does not depend on the event's number, so it can be
/// computed early.
pub fn event_digest(payload: &Payload) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update([payload.kind as u8]);
    hasher.update(payload.schema.to_le_bytes());
    hasher.update(&payload.bytes);
    hasher.finalize().into()
}

/// Returns the chain value after one more event.
pub fn link(chain: &[u8; 32], event_digest: &[u8; 32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(chain);
    hasher.update(event_digest);
    hasher.finalize().into()
}

/// Returns the chain value over events, from the first one.
pub fn over<'a>(payloads: impl IntoIterator<Item = &'a Payload>) -> [u8; 32] {
    payloads
        .into_iter()
        .fold(START, |chain, payload| link(&chain, &event_digest(payload)))
}
