//! What sled asks of Linux when it flushes, as it is meant.
//!
//! sled calls `sync_file_range`. That writes pages, but not the file's length, nor where on the disk its blocks lie,
//! nor what the disk holds in a cache of its own. After it sled takes for durable what it has moved, and writes over
//! the place where that lay before, within one and the same flush: a power cut then may leave neither. So this
//! function takes the place of the C library's in the whole program and syncs the file, as sled itself does on
//! every other system.

use std::ffi::{c_int, c_uint};

/// Makes a file durable that is written through `file`, all of it: what comes first must be there first. Gives 0,
/// or -1 with `errno` set.
///
/// An error is never one of space, which the caller would think it could have again: the pages may be gone.
#[unsafe(no_mangle)]
#[expect(
    unsafe_code,
    reason = "it takes the place of a function of the C library"
)]
extern "C" fn sync_file_range(file: c_int, _at: i64, _len: i64, _how: c_uint) -> c_int {
    // SAFETY: any number may be given for a file; the C library answers with an error if it is none.
    let synced = unsafe { libc::fdatasync(file) };
    if synced != 0 {
        // SAFETY: the C library's pointer to this thread's own number is always valid.
        unsafe { *libc::__errno_location() = libc::EIO };
    }
    synced
}

/// Keeps the function in every program that this is part of.
#[used]
static IN_PLACE: extern "C" fn(c_int, i64, i64, c_uint) -> c_int = sync_file_range;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_function_that_sled_calls() {
        let called = libc::sync_file_range as *const ();
        assert_eq!(called, IN_PLACE as *const ());
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        assert_eq!(sync_file_range(-1, 0, 0, 0), -1);
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}
