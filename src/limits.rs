//! Every bound of the server in one place, each named with its unit.

/// Largest request body, after decompression, unless `--max-body-bytes` says otherwise.
pub const BODY_BYTES_MAX: usize = 100 << 20;
