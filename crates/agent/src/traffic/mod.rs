//! The applications of a case on real sockets.
//!
//! [`runtime`] owns the sockets of all hosts and their epoll instance. [`app_calls`] is the socket interface that the workload's
//! applications call. [`socket_options`] sets the options of the case, [`cc_engine`] registers controllers that Linux does not have,
//! [`io_threads`] moves bulk data in a guest, and [`udp_background`] sends the background datagrams.

pub mod app_calls;
pub mod cc_engine;
pub mod io_threads;
pub mod runtime;
mod socket_options;
pub mod udp_background;
