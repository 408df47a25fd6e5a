//! Literal traces of every controller, and planted faults that the traces must detect.
//!
//! Every number was derived by hand or with exact arithmetic outside this code from the source that the
//! controller cites. The comment of a trace describes the derivation.

mod bbr;
mod bbr3;
mod bbr3_paths;
mod bbr3_probes;
mod cubic;
mod cubic_linux;
mod dctcp;
mod freebsd;
mod hystart;
mod mutant;
mod mvegas;
mod rate_samples;
mod reno;
mod skeleton;
mod trace;
mod vegas;
