//! The collectors of a run, which read the data of the recording. They do not change the run.
//!
//! [`tap`] captures packets, [`flow_tracker`] and [`rtt`] derive counters from them. [`tcp_info`],
//! [`inet_diag`], [`queues`], [`nstat`] and [`trace_events`] read the kernel; [`machine_load`] reads the
//! load of the machine.

pub mod flow_tracker;
pub mod host_taps;
pub mod inet_diag;
pub mod machine_load;
pub mod nstat;
pub mod queues;
mod rtt;
pub mod tap;
pub mod tcp_info;
pub mod trace_events;
