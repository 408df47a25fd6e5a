//! The behaviours of the RFCs, named test by test, through the public interface.

mod common;
mod dctcp;
mod delivery;
mod handshake;
