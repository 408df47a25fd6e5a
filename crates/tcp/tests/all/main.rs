//! The behaviours of the RFCs, named test by test, through the public interface.

mod accecn;
mod accecn_linux;
mod accecn_option;
mod close;
mod common;
mod dctcp;
mod delivery;
mod ecn;
mod handshake;
mod receive;
mod timers;
