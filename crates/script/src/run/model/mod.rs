//! The model as a stack under test.
//!
//! The modules form layers. A module uses only the layers above it in this table.
//!
//! | layer | modules |
//! | --- | --- |
//! | data | `error_queue`, `fast_open`, `socket`, `connections` |
//! | settings | `config`, `config_linux`, `config_freebsd`, `controller` |
//! | state of the model | `args`, `buffers`, `state` |
//! | system calls by group | `open`, `send`, `receive`, `control`, `setsockopt`, `getsockopt`, `poll`, `epoll`, `files`, `fast_open_calls`, `error_queue_read` |
//! | dispatch of system calls | `syscalls` |
//! | packets, `tcpi_*` values | `packets`, `icmp`, `tcp_info` |
//! | interface of the runner | `target` |

pub(super) mod args;
pub(super) mod buffers;
mod config;
mod config_freebsd;
mod config_linux;
mod connections;
mod control;
mod controller;
mod epoll;
mod error_queue;
mod error_queue_read;
pub(super) mod fast_open;
mod fast_open_calls;
mod files;
mod getsockopt;
mod icmp;
#[cfg(test)]
mod knob_tests;
mod open;
mod packets;
mod poll;
mod receive;
mod send;
mod setsockopt;
mod socket;
mod state;
mod syscalls;
mod target;
mod tcp_info;

pub use state::{Model, SocketUnderTest};
