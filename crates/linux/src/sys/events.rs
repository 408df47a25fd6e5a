//! Waiting: poll(2), epoll(7), eventfd(2) and `timerfd_create(2)`.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

use super::call::{check, count};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Waits until a descriptor has something to read or its other end is closed. Returns false after `milliseconds`.
pub fn wait_readable(fd: BorrowedFd, milliseconds: i32) -> io::Result<bool> {
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure.
        match check(unsafe { libc::poll(&raw mut one, 1, milliseconds) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|n| n > 0),
        }
    }
}

/// A timer (`timerfd_create(2)`), which is readable from the instant on that [`set_timer`] sets.
pub fn timer() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd =
        check(unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a timer to an instant of the clock of [`now`](super::now), instead of the previous instant. 0 disarms the timer.
pub fn set_timer(fd: BorrowedFd, at: u64) -> io::Result<()> {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let at = libc::timespec {
        tv_sec: (at / 1_000_000_000).cast_signed(),
        tv_nsec: (at % 1_000_000_000).cast_signed(),
    };
    let spec = libc::itimerspec { it_interval: zero, it_value: at };
    // SAFETY: the kernel reads one itimerspec; no old one is asked for.
    check(unsafe {
        libc::timerfd_settime(fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, std::ptr::null_mut())
    })
    .map(drop)
}

/// An epoll instance.
pub fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: takes a number.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A counter (eventfd(2)), which is readable while it is not 0.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the system call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds 1 to an eventfd.
pub fn eventfd_add(eventfd: BorrowedFd) -> io::Result<()> {
    let one = 1_u64;
    // SAFETY: the kernel reads the eight bytes of the number.
    count(unsafe { libc::write(eventfd.as_raw_fd(), (&raw const one).cast(), 8) }).map(drop)
}

/// Sets an eventfd to 0.
pub fn eventfd_reset(eventfd: BorrowedFd) -> io::Result<()> {
    let mut n = 0_u64;
    // SAFETY: the kernel writes the eight bytes of the number.
    count(unsafe { libc::read(eventfd.as_raw_fd(), (&raw mut n).cast(), 8) }).map(drop)
}

/// Adds `fd` to an epoll instance. `token` is returned with its events. A descriptor is removed when it is closed.
pub fn watch(poll: BorrowedFd, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    control(poll, libc::EPOLL_CTL_ADD, fd, events, token)
}

/// Changes the events for which an epoll instance watches `fd`.
pub fn modify_watch(poll: BorrowedFd, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    control(poll, libc::EPOLL_CTL_MOD, fd, events, token)
}

fn control(poll: BorrowedFd, what: i32, fd: BorrowedFd, events: i32, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
    // SAFETY: the kernel reads one epoll_event.
    check(unsafe { libc::epoll_ctl(poll.as_raw_fd(), what, fd.as_raw_fd(), &raw mut event) }).map(drop)
}

/// Waits for events and replaces the contents of `into` by them, as `(token, events)`.
pub fn wait(poll: BorrowedFd, into: &mut Vec<(u64, i32)>) -> io::Result<()> {
    const MOST: usize = 64;
    into.clear();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    let most = i32::try_from(MOST).expect("64");
    // SAFETY: the kernel writes at most MOST events.
    let n = match check(unsafe { libc::epoll_wait(poll.as_raw_fd(), events.as_mut_ptr(), most, -1) }) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
        other => other?,
    };
    let n = usize::try_from(n).expect("not negative");
    into.extend(events[..n].iter().map(|e| (e.u64, e.events.cast_signed())));
    Ok(())
}
