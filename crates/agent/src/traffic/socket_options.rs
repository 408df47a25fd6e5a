//! The socket options of a case.

use crate::system::Failure;
use std::io;
use std::os::fd::BorrowedFd;
use tcpassay_case::params::linux::{SocketOption, SocketValue};
use tcpassay_case::{Asked, Case, Change};
use tcpassay_linux::sys;

/// Sets every option of the case on a socket of a host, each read back; `cc` is the kernel's name of its controller.
pub fn apply(case: &Case, fd: BorrowedFd, host: usize, cc: &str) -> Result<(), Failure> {
    let tcp = libc::IPPROTO_TCP;
    sys::set_bytes(fd, tcp, libc::TCP_CONGESTION, cc.as_bytes())
        .map_err(|e| format!("stack.cc = {cc}: this kernel does not take it ({e})"))?;
    let mut name = [0; 16];
    let n = sys::get_bytes(fd, tcp, libc::TCP_CONGESTION, &mut name).map_err(|e| e.to_string())?;
    if name[..n].split(|b| *b == 0).next() != Some(cc.as_bytes()) {
        return Err(format!("stack.cc = {cc} did not take effect"));
    }
    for Asked { parameter, setting, change } in case.changes(host) {
        let Change::Socket(option, value) = change else { continue };
        set(fd, option, &value).map_err(|why| format!("{} = {setting}: {why}", parameter.path))?;
    }
    Ok(())
}

/// Sets an option, and reads it back where the kernel reports what was set.
fn set(fd: BorrowedFd, option: SocketOption, value: &SocketValue) -> Result<(), Failure> {
    let failed = |e: io::Error| e.to_string();
    match value {
        SocketValue::Number { set, back } => {
            sys::set(fd, option.level, option.set, *set).map_err(failed)?;
            let got = sys::get(fd, option.level, option.get).map_err(failed)?;
            if got == *back { Ok(()) } else { Err(format!("the kernel made it {got}")) }
        }
        SocketValue::Transient(n) => sys::set(fd, option.level, option.set, *n).map_err(failed),
        SocketValue::Bytes(bytes) => sys::set_bytes(fd, option.level, option.set, bytes).map_err(failed),
    }
}
