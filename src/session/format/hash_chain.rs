//! The chain of digests over a session's events: one changed, missing or moved event breaks it.

use sha2::{Digest, Sha256};

use super::payload::Payload;

/// The chain of a session without events.
pub const START: [u8; 32] = [0; 32];

/// Digest of one event, which can be taken before its place in the session is known.
pub fn event_digest(payload: &Payload) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update([payload.kind as u8]);
    hasher.update(payload.schema.to_le_bytes());
    hasher.update(&payload.bytes);
    hasher.finalize().into()
}

/// The chain after one more event.
pub fn link(chain: &[u8; 32], event_digest: &[u8; 32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(chain);
    hasher.update(event_digest);
    hasher.finalize().into()
}

/// The chain over events from the first on.
pub fn over<'a>(payloads: impl IntoIterator<Item = &'a Payload>) -> [u8; 32] {
    payloads
        .into_iter()
        .fold(START, |chain, payload| link(&chain, &event_digest(payload)))
}
