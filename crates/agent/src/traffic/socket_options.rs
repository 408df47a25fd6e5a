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
        .map_err(|e| format!("stack.cc = {cc}: this kernel rejects it ({e})"))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use std::os::fd::{AsFd, OwnedFd};
    use tcpassay_case::params::Substrate;

    fn socket() -> OwnedFd {
        sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).expect("a socket")
    }

    fn applied(rows: &[(&str, &str)], cc: &str) -> Result<OwnedFd, Failure> {
        let socket = socket();
        apply(&case(Substrate::Host, rows), socket.as_fd(), 0, cc).map(|()| socket)
    }

    #[test]
    fn the_options_of_a_case_are_set_on_a_socket() {
        let rows = [
            ("app.nodelay", "on"),
            ("app.cork", "on"),
            ("app.notsent_lowat", "128KB"),
            ("app.quickack", "on"),
            ("app.keepalive", "20s"),
            ("app.linger", "3s"),
        ];
        let socket = applied(&rows, "reno").expect("options of every kernel");
        let get = |level, option| sys::get(socket.as_fd(), level, option).expect("an option");
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_CORK), 1);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), 128_000);
        assert_eq!(get(libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), 20);
        assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL), 2);
        let mut linger = [0; 8];
        sys::get_bytes(socket.as_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &mut linger).expect("an option");
        assert_eq!(linger, *[1_i32.to_ne_bytes(), 3_i32.to_ne_bytes()].as_flattened());
    }

    #[test]
    fn an_empty_case_sets_only_the_controller() {
        let (plain, socket) = (socket(), applied(&[], "reno").expect("reno is in every kernel"));
        for (level, option) in [
            (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            (libc::IPPROTO_TCP, libc::TCP_CORK),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::SOL_SOCKET, libc::SO_SNDBUF),
            (libc::SOL_SOCKET, libc::SO_RCVBUF),
        ] {
            let get = |socket: &OwnedFd| sys::get(socket.as_fd(), level, option).expect("an option");
            assert_eq!(get(&socket), get(&plain), "{level} {option}");
        }
        let mut name = [0; 16];
        let n = sys::get_bytes(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name);
        assert_eq!(&name[..5], b"reno\0", "{n:?}");
    }

    #[test]
    fn a_controller_that_the_kernel_does_not_have_is_an_error_with_its_name() {
        let why = applied(&[], "no-such-rule").expect_err("no kernel has it");
        assert!(why.starts_with("stack.cc = no-such-rule: this kernel rejects it ("), "{why}");
    }

    #[test]
    fn a_value_that_the_kernel_changed_is_an_error_with_what_it_made_of_it() {
        let socket = socket();
        let option =
            SocketOption { level: libc::SOL_SOCKET, set: libc::SO_KEEPALIVE, get: libc::SO_KEEPALIVE };
        // The kernel keeps whether the number is 0.
        let set = |value| super::set(socket.as_fd(), option, &value);
        assert_eq!(set(SocketValue::Number { set: 7, back: 7 }), Err("the kernel made it 1".to_owned()));
        assert_eq!(set(SocketValue::Number { set: 7, back: 1 }), Ok(()));
        assert_eq!(set(SocketValue::Transient(0)), Ok(()));
        assert_eq!(sys::get(socket.as_fd(), option.level, option.get).expect("an option"), 0);
        assert_eq!(set(SocketValue::Bytes(1_i32.to_ne_bytes().to_vec())), Ok(()));
        assert_eq!(sys::get(socket.as_fd(), option.level, option.get).expect("an option"), 1);
    }
}
