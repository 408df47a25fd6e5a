//! Tests of the crate from outside.

mod analysis;
mod copies;
mod damage;
mod feedback;
mod files;
mod limits;
mod links;
mod made;
mod probes;
mod siftr;
mod silences;
mod threads;
mod tunnels;
mod waits;
