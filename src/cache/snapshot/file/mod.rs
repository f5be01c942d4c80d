//! The format of a snapshot file, and the hashes that name its prefix.

pub(super) mod format;
pub(super) mod hash;
