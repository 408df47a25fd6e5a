//! Typed access to the Linux kernel.
//!
//! * [`sys`] - system calls that `std` does not have, with safe arguments.
//! * [`syscall`] - the system calls of packetdrill scripts, which return the `errno` of the kernel.
//! * [`ring`] - ring buffers that the kernel shares with a process, of packet sockets and of perf events.
//! * [`netlink`] - queueing disciplines, interfaces and the TCP sockets of a network namespace.
//! * [`perf`], [`tracefs`] - trace events of the kernel.
//! * [`tcp_info`] - the layout of `struct tcp_info`.
//!
//! `sys`, `syscall` and `ring` contain unsafe code; each block says why it is sound. The agent contains none. This crate does not
//! depend on cases, plans or recordings.

#![expect(
    clippy::missing_errors_doc,
    reason = "a function returns the error of the system call that it makes"
)]

pub mod netlink;
pub mod perf;
pub mod ring;
pub mod sys;
pub mod syscall;
pub mod tcp_info;
pub mod tracefs;
