//! The applications of a case on real sockets.
//!
//! [`runtime`] owns the sockets of all hosts and their epoll instance; an [`endpoint`] is one end of a connection. [`app_calls`] is the
//! socket interface that the applications of the workload call, and [`app_row`] logs their calls. [`addresses`] identifies the connections of the workload, and
//! [`first_connections`] opens the first ones before the start. [`socket_options`] sets the options of the case, [`cc_engine`] registers
//! controllers that Linux does not have, [`io_threads`] moves bulk data in a guest, and [`udp_background`] sends the background datagrams.

pub mod addresses;
pub mod app_calls;
mod app_row;
pub mod cc_engine;
mod endpoint;
mod epoll_token;
pub mod first_connections;
mod halted;
mod io_threads;
pub mod runtime;
mod socket_options;
pub mod udp_background;

pub use endpoint::Readiness;
pub use epoll_token::EpollToken;
