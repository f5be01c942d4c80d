//! Saves KV snapshots: the request, and the thread that writes files.

pub(super) mod job;
pub(super) mod request;
pub(super) mod writer;
