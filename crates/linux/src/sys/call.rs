//! Results and arguments of system calls, common to the calls of all files.

use std::ffi::CString;
use std::io;
use std::mem::size_of;

/// The result of a call that returns -1 on failure.
pub(crate) fn check(code: libc::c_int) -> io::Result<libc::c_int> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

/// The result of a call that returns a number of bytes, or -1 on failure.
pub(super) fn count(n: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// `s` as the kernel reads it.
pub(crate) fn text(s: &str) -> CString {
    CString::new(s).expect("paths and names of interfaces have no NUL")
}

/// The size of a structure, as calls on sockets have it.
pub(super) fn len_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("small structures")
}
