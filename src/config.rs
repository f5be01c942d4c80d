//! What the flags, the environment and the file resolve to.
