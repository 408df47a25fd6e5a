//! System calls that `std` does not have, with safe arguments. Each function returns the error of the system call that fails.
//!
//! This file has the calls on processes, namespaces, files and clocks; sockets, network interfaces and waiting for events are in files
//! of their own. The numbers and layouts are from `libc`. Those that `libc` lacks are declared in the function that uses them, with the
//! name of the kernel's header.

#![expect(unsafe_code, reason = "system calls that std does not have; each block says why it is sound")]

mod call;
mod events;
mod interface;
mod processors;
mod program;
mod socket;

pub(crate) use call::{check, text};
pub use events::{
    epoll, eventfd, eventfd_add, eventfd_reset, modify_watch, set_timer, timer, wait, wait_readable, watch,
};
pub use interface::{
    DROP_ALL, attach_filter, bind_packet, bind_packet_to_send, ethtool, ethtool_words, ignore_outgoing,
    interface_index, interface_index_by, offload,
};
pub use processors::Processors;
pub use program::map_program;
pub use socket::{
    accept, bind, connect, discard, discard_all, get, get_bytes, listen, local_address, make_blocking,
    readable, receive, receive_from, receive_two, send, send_again, send_datagrams, send_to, set, set_bytes,
    shutdown_write, socket,
};

use call::count;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// mount(2) without options.
pub fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let (source, target, kind) = (text(source), text(target), text(kind));
    // SAFETY: three NUL-terminated strings that outlive the call; no data pointer is given.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
        .map(drop)
}

/// Moves this process to a new network namespace (unshare(2)).
pub fn unshare_net() -> io::Result<()> {
    // SAFETY: takes a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this process to an existing network namespace (setns(2)).
pub fn enter(namespace: BorrowedFd) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a number.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Writes all file systems and powers the machine off (reboot(2)). Returns only on failure.
pub fn power_off() -> io::Error {
    // SAFETY: neither takes a pointer.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    io::Error::last_os_error()
}

/// Adds `seed` to the kernel's random number generator as 512 bits of entropy, so that no reader waits for entropy.
pub fn credit_randomness(random: BorrowedFd, seed: [u8; 64]) -> io::Result<()> {
    // include/uapi/linux/random.h: struct rand_pool_info, RNDADDENTROPY = _IOW('R', 3, int[2]).
    #[repr(C)]
    struct Pool {
        bits: libc::c_int,
        size: libc::c_int,
        bytes: [u8; 64],
    }
    let pool = Pool { bits: 512, size: 64, bytes: seed };
    // SAFETY: the structure is the one this request reads, and outlives the call.
    check(unsafe { libc::ioctl(random.as_raw_fd(), 0x4008_5203, &raw const pool) }).map(drop)
}

/// `CLOCK_REALTIME` in nanoseconds. Recordings use this clock.
pub fn now() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, in nanoseconds. The two clocks are not read at the same instant, and another process may run
/// in between. Therefore the function makes several attempts and uses the shortest one.
pub fn realtime_offset() -> u64 {
    let read = |_| {
        let (before, realtime, after) = (monotonic(), now(), monotonic());
        (after - before, realtime - u64::midpoint(before, after))
    };
    (0..8).map(read).min().expect("eight attempts").1
}

/// Moves this process to a new mount namespace. Later mounts are visible in this process and its children only, and end with them.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE)
}

/// Returns true if the effective user is root.
pub fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Gives the process the highest priority of normal scheduling (nice -20). With autogroups (sched(7)) a nice value counts only within a
/// session; therefore the process becomes the leader of a new session, whose autogroup gets the same nice value.
pub fn raise_priority() -> io::Result<()> {
    // SAFETY: takes nothing. The call fails for the leader of a process group, for which the nice value of the process must suffice.
    if unsafe { libc::setsid() } >= 0 {
        // The file exists only in kernels with autogroups.
        let _ = std::fs::write("/proc/self/autogroup", "-20");
    }
    // SAFETY: takes numbers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}

/// Schedules this thread before all normal ones and those of a lower priority (`SCHED_FIFO`); with a priority of 0 normally again with its
/// nice value. Threads and processes that it creates meanwhile are scheduled normally.
pub fn schedule_first(priority: u8) -> io::Result<()> {
    let policy = if priority > 0 { libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK } else { libc::SCHED_OTHER };
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the parameters outlive the call.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)
}

/// Lets the kernel kill this process when its parent ends for any reason (`PR_SET_PDEATHSIG`). Returns the process id of the parent.
pub fn end_with_parent() -> io::Result<i32> {
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: takes and changes nothing.
    Ok(unsafe { libc::getppid() })
}

/// Creates a copy of this process (fork(2)). Returns 0 in the copy, and its process id in this process.
///
/// # Errors
/// As the system call; also if this process has several threads, of which the copy would have only one.
pub fn fork() -> io::Result<i32> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads is not copied"));
    }
    // SAFETY: there is one thread, so that no lock is held by a thread that the copy does not have.
    check(unsafe { libc::fork() })
}

/// Waits for the end of a child process. Returns its wait status, which is 0 if it ended with exit code 0.
pub fn wait_for_child(process: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: writes one int.
        match check(unsafe { libc::waitpid(process, &raw mut status, 0) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|_| status),
        }
    }
}

/// Separates this process from the session in which it was started: signals that end the session do not end it.
pub fn detach() -> io::Result<()> {
    // SAFETY: takes nothing.
    check(unsafe { libc::setsid() })?;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: the signal is ignored; no handler is installed.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The text of a file of the kernel, such as one of `/proc`, which has no size. `std` begins with short reads and asks for the size first;
/// each further system call stops a guest.
pub fn read_text(path: &str) -> io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut bytes = vec![0; 65_536];
    let mut len = 0;
    loop {
        match read(file.as_fd(), &mut bytes[len..])? {
            0 => break,
            n => len += n,
        }
        if len == bytes.len() {
            bytes.resize(2 * len, 0);
        }
    }
    bytes.truncate(len);
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Reads from a descriptor (read(2)). Returns the number of bytes, 0 at the end.
pub fn read(fd: BorrowedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is as long as it says.
    count(unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

/// Locks an open file (flock(2)) until the process ends. Returns false if another process has the lock.
pub fn try_lock(file: BorrowedFd) -> io::Result<bool> {
    // SAFETY: takes a descriptor and a number.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// The CPU time of this process in nanoseconds.
pub fn cpu_time() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The CPU time of the children of this process for which it has waited, in nanoseconds.
pub fn children_cpu_time() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage, of which every bit pattern is valid, zeros included.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanoseconds = |time: libc::timeval| {
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1000
    };
    nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(which, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// Sets the limits of open files of this process (`RLIMIT_NOFILE`).
pub fn allow_files(n: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: n, rlim_max: n };
    // SAFETY: the kernel reads one rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Limits the address space of this process (`RLIMIT_AS`): a larger allocation ends it.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads one rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }).map(drop)
}

#[cfg(test)]
mod tests;
