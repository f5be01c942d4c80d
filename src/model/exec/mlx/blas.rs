//! The library behind MLX's matrix products on Linux CPUs.

/// Names of OpenBLAS's function that sets the number of threads: its own, and that of the build in
/// SciPy's wheels.
#[cfg(target_os = "linux")]
const SET_THREADS: [&std::ffi::CStr; 2] = [
    c"openblas_set_num_threads",
    c"scipy_openblas_set_num_threads",
];

/// Makes OpenBLAS work in the calling thread only, if it is linked. Its own threads would spin on
/// processors that the CPU streams use.
#[cfg(target_os = "linux")]
pub(super) fn use_one_thread() {
    for name in SET_THREADS {
        // SAFETY: the name is a C string, and the default handle is always open.
        #[expect(unsafe_code, reason = "OpenBLAS may or may not be linked")]
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if address.is_null() {
            continue;
        }
        // SAFETY: in every version of OpenBLAS the function of this name takes one C int, returns
        // nothing, and may be called at any time from any thread.
        #[expect(unsafe_code, reason = "a function found by name")]
        unsafe {
            let set_threads: unsafe extern "C" fn(libc::c_int) = std::mem::transmute(address);
            set_threads(1);
        }
    }
}

/// Elsewhere the system's own library shares its work among cores without waiting busily.
#[cfg(not(target_os = "linux"))]
pub(super) fn use_one_thread() {}
