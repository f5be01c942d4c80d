//! Defines `sync_file_range` as `fdatasync` for the whole program, so that sled's flush is durable
//! on Linux.
//!
//! On Linux sled flushes with `sync_file_range`. That call writes pages. It does not sync the
//! file's length, the location of its blocks, or the disk's write cache. Within one flush, sled
//! then treats moved data as durable and overwrites the segment it came from. A power cut at that
//! moment can lose both copies. This definition overrides the C library's function. On other
//! systems sled syncs the file itself. See docs/adr/0023.

use std::ffi::{c_int, c_uint};

/// Syncs all of `file` with `fdatasync`. Returns 0, or -1 with `errno` set.
///
/// Every error becomes `EIO`. After a failed sync dirty pages may be lost, so the caller must not
/// treat the error as a recoverable full disk.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "it replaces a function of the C library")]
extern "C" fn sync_file_range(file: c_int, _at: i64, _len: i64, _how: c_uint) -> c_int {
    // SAFETY: fdatasync accepts any integer; an invalid descriptor gives an error.
    let synced = unsafe { libc::fdatasync(file) };
    if synced != 0 {
        // SAFETY: the C library's pointer to this thread's errno is always valid.
        unsafe { *libc::__errno_location() = libc::EIO };
    }
    synced
}

/// Keeps the linker from dropping the function.
#[used]
static IN_PLACE: extern "C" fn(c_int, i64, i64, c_uint) -> c_int = sync_file_range;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sled_calls_this_definition() {
        let called = libc::sync_file_range as *const ();
        assert_eq!(called, IN_PLACE as *const ());
    }

    #[test]
    fn a_bad_descriptor_gives_eio() {
        assert_eq!(sync_file_range(-1, 0, 0, 0), -1);
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}
