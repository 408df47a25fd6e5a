//! Tests of the crate from outside.

mod analysis;
mod copies;
mod damage;
mod feedback;
mod files;
mod icmp;
mod limits;
mod links;
mod made;
mod points;
mod probes;
mod siftr;
mod silences;
mod threads;
mod tunnels;
mod waits;
