//! The path of a case in the kernel: network namespaces joined by veth pairs, queue disciplines, offloads, sysctls, and impairments
//! of single packets.
//!
//! [`topology`] decides what has to exist, as data. [`build`] creates it and reads it back. [`qdiscs`] writes the command lines of
//! `tc`, and [`commands`] executes those of an ordinary case without it; [`sysctls`], [`offloads`] and [`module_parameters`] map the settings of hosts to knobs of Linux. [`relay`] carries the packets
//! of links whose [`impairments`] no queue discipline provides; [`nic`] times receive interrupts; [`completions`] delays transmit completions;
//! [`ack_marks`] marks returning ACKs.

pub mod ack_marks;
pub mod build;
pub mod commands;
pub mod completions;
pub mod impairments;
pub mod middlebox;
pub mod module_parameters;
pub mod nic;
pub mod offloads;
pub mod qdiscs;
pub mod relay;
pub mod sysctls;
pub mod topology;
