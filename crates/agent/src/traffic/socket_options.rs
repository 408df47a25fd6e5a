//! The socket options of a case.

use crate::system::Failure;
use std::io;
use std::os::fd::BorrowedFd;
use tcpassay_case::Case;
use tcpassay_case::params::Setting;
use tcpassay_linux::sys;
use tcpassay_tcp::Pacing;
use tcpassay_units::Dur;

/// Sets every option of the case on a socket of a host, each read back; `cc` is the kernel's name of its controller.
pub fn apply(case: &Case, fd: BorrowedFd, host: usize, cc: &str) -> Result<(), Failure> {
    let (tcp, socket) = (libc::IPPROTO_TCP, libc::SOL_SOCKET);
    sys::set_bytes(fd, tcp, libc::TCP_CONGESTION, cc.as_bytes())
        .map_err(|e| format!("stack.cc = {cc}: this kernel does not take it ({e})"))?;
    let mut name = [0; 16];
    let n = sys::get_bytes(fd, tcp, libc::TCP_CONGESTION, &mut name).map_err(|e| e.to_string())?;
    if name[..n].split(|b| *b == 0).next() != Some(cc.as_bytes()) {
        return Err(format!("stack.cc = {cc} did not take effect"));
    }
    let check = |what: &str, level, option, value: i32, back: i32| {
        let done = sys::set(fd, level, option, value).and_then(|()| {
            let got = sys::get(fd, level, option)?;
            if got == back { Ok(()) } else { Err(io::Error::other(format!("it is {got}"))) }
        });
        done.map_err(|e| format!("{what} = {value}: {e}"))
    };
    let settings = &case.hosts[host];
    let stack = &settings.stack;
    let small = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
    let said = |path: &str| case.host_setting(host, path).0;
    // The kernel takes half of what it reports; the row is what it reports.
    for (path, force, get) in [
        ("app.sndbuf", libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ("app.rcvbuf", libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
    ] {
        if let Setting::Bytes(bytes) = said(path) {
            let done = sys::set(fd, socket, force, small(bytes.get() / 2));
            let got = done.and_then(|()| sys::get(fd, socket, get));
            match got {
                Ok(got) if u64::try_from(got).is_ok_and(|n| n == bytes.get() / 2 * 2) => {}
                Ok(got) => return Err(format!("{path} = {bytes}: the kernel made it {got}")),
                Err(e) => return Err(format!("{path} = {bytes}: {e}")),
            }
        }
    }
    if stack.nodelay {
        check("app.nodelay", tcp, libc::TCP_NODELAY, 1, 1)?;
    }
    if stack.cork {
        check("app.cork", tcp, libc::TCP_CORK, 1, 1)?;
    }
    if let Some(low) = stack.notsent_lowat {
        check("app.notsent_lowat", tcp, libc::TCP_NOTSENT_LOWAT, small(low.get()), small(low.get()))?;
    }
    if stack.pacing != Pacing::Off && matches!(said("stack.pacing"), Setting::Text(_)) {
        // No bound at all would be all ones, which leaves pacing as it is (sock_setsockopt).
        let endless = (u64::MAX - 1).to_ne_bytes();
        sys::set_bytes(fd, socket, libc::SO_MAX_PACING_RATE, &endless)
            .map_err(|e| format!("stack.pacing: {e}"))?;
    }
    if let Some(alive) = &stack.keepalive {
        let seconds = |d: Dur| small(d.as_millis().div_ceil(1000)).max(1);
        check("app.keepalive", socket, libc::SO_KEEPALIVE, 1, 1)?;
        let (idle, gap) = (seconds(alive.idle), seconds(alive.interval));
        check("app.keepalive", tcp, libc::TCP_KEEPIDLE, idle, idle)?;
        check("app.keepalive", tcp, libc::TCP_KEEPINTVL, gap, gap)?;
        check("app.keepalive", tcp, libc::TCP_KEEPCNT, small(alive.count.into()), small(alive.count.into()))?;
    }
    if let Setting::Dur(d) = said("app.user_timeout") {
        let ms = small(d.as_millis());
        check("app.user_timeout", tcp, libc::TCP_USER_TIMEOUT, ms, ms)?;
    }
    if let Some(linger) = settings.linger {
        // struct linger: whether, and seconds.
        let mut value = 1_i32.to_ne_bytes().to_vec();
        value.extend(small(linger.as_millis().div_ceil(1000)).to_ne_bytes());
        sys::set_bytes(fd, socket, libc::SO_LINGER, &value).map_err(|e| format!("app.linger: {e}"))?;
    }
    if stack.quickack {
        sys::set(fd, tcp, libc::TCP_QUICKACK, 1).map_err(|e| format!("app.quickack: {e}"))?;
    }
    Ok(())
}
