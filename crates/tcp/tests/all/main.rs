//! Tests of the behaviour that RFCs require, through the public interface. The name of each test is the
//! behaviour.

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
