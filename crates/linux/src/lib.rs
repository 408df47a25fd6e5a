//! Typed access to the Linux kernel.
//!
//! * [`sys`] - system calls of the agent that `std` does not have.
//! * [`syscall`] - system calls exactly as a packetdrill script makes them, with the `errno` that the kernel gave.
//! * [`ring`] - memory that the kernel shares with a process: rings of packet sockets and of perf events.
//! * [`netlink`] - queueing disciplines and the TCP sockets of a network namespace.
//! * [`perf`], [`tracefs`] - trace events of the kernel.
//! * [`tcp_info`] - the layout of `struct tcp_info`.
//!
//! All unsafe code outside of `bpf` and `bridge` is in this crate: in `sys`, `syscall` and `ring`. Each block says why it is
//! sound. The crate knows nothing of cases, plans and recordings.

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
