//! The on-disk format: envelopes, records, payloads, events, and migrations.

pub mod codec;
pub mod event;
pub mod event_batch;
pub mod hash_chain;
pub mod migrate;
pub mod payload;
pub mod record;
pub mod session_events;
#[path = "../../../migrations/v1.rs"]
pub mod v1;
