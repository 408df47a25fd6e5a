//! Literal traces of every controller, and planted faults that they tell from it.
//!
//! Every number was derived from the source that the controller names, by hand or with exact arithmetic outside this
//! code; the comment of a trace says how.

mod bbr;
mod bbr3;
mod cubic;
mod cubic_linux;
mod dctcp;
mod freebsd;
mod hystart;
mod mutant;
mod mvegas;
mod reno;
mod skeleton;
mod trace;
mod vegas;
