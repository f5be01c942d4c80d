//! Settings of the memory allocator.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// Number of mimalloc's option `purge_delay`: milliseconds until free memory is returned to the
/// system.
const PURGE_DELAY: mi_option_t = 15;

/// With the default of one second, buffers of the session log were returned while similar ones were
/// allocated. The system then spent a tenth of a busy log's time on zeroing huge pages.
const FREE_MEMORY_KEPT_MS: c_long = 10_000;

/// Keeps memory that is free a while longer than usual. To be called first, and only where mimalloc is the
/// allocator; elsewhere it does nothing.
#[expect(unsafe_code, reason = "the allocator is a C library")]
pub fn keep_free_memory() {
    // SAFETY: this sets one number in the allocator's own table.
    unsafe { mi_option_set(PURGE_DELAY, FREE_MEMORY_KEPT_MS) }
}
