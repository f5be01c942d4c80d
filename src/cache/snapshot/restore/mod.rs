//! Restores KV snapshots: the plan, and the threads that read files.

pub(super) mod job;
pub(super) mod plan;
pub(super) mod reader;
