//! The on-disk format: envelopes, records, events, and migrations.

pub mod codec;
pub mod event;
pub mod event_batch;
pub mod hash_chain;
pub mod migrate;
pub mod record;
