//! Builds the running server from its configuration.
