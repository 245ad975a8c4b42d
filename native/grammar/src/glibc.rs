//! Binds some functions to their older symbol versions, so that the library loads with a glibc
//! older than the one it was linked with: version 2.34 moved the functions of libpthread and libdl
//! into libc, and 2.33 gave `stat` its own symbols. The behaviour is the same.
use std::arch::global_asm;
use std::ffi::{c_char, c_int, c_void};

global_asm!(
    ".symver dlsym, dlsym@GLIBC_2.2.5",
    ".symver pthread_attr_setstacksize, pthread_attr_setstacksize@GLIBC_2.2.5",
    ".symver pthread_create, pthread_create@GLIBC_2.2.5",
    ".symver pthread_detach, pthread_detach@GLIBC_2.2.5",
    ".symver pthread_getattr_np, pthread_getattr_np@GLIBC_2.2.5",
    ".symver pthread_join, pthread_join@GLIBC_2.2.5",
    ".symver pthread_key_create, pthread_key_create@GLIBC_2.2.5",
    ".symver pthread_key_delete, pthread_key_delete@GLIBC_2.2.5",
    ".symver pthread_setname_np, pthread_setname_np@GLIBC_2.12",
    ".symver pthread_setspecific, pthread_setspecific@GLIBC_2.2.5",
);

/// The version of the `struct stat` layout on x86-64.
const STAT_VERSION: c_int = 1;

unsafe extern "C" {
    fn __xstat64(version: c_int, path: *const c_char, status: *mut c_void) -> c_int;
    fn __fxstat64(version: c_int, file: c_int, status: *mut c_void) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, status: *mut c_void) -> c_int {
    unsafe { __xstat64(STAT_VERSION, path, status) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(file: c_int, status: *mut c_void) -> c_int {
    unsafe { __fxstat64(STAT_VERSION, file, status) }
}
