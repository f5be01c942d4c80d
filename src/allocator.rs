//! How the program's allocator is set.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// Of mimalloc's options, which have fixed numbers, the one for how long memory that is free is kept
/// before the system has it back, in milliseconds.
const PURGE_DELAY: mi_option_t = 15;

/// With the usual second, buffers of the session log went back while others like them were asked for, and
/// a tenth of a busy log's time was the system's, which filled huge pages with zeros.
const FREE_MEMORY_KEPT_MS: c_long = 10_000;

/// Keeps memory that is free a while longer than usual. To be called first, and only where mimalloc is the
/// allocator; elsewhere it does nothing.
#[expect(unsafe_code, reason = "the allocator is a C library")]
pub fn keep_free_memory() {
    // SAFETY: this sets one number in the allocator's own table.
    unsafe { mi_option_set(PURGE_DELAY, FREE_MEMORY_KEPT_MS) }
}
