//! Tests of the crate from outside.

mod analysis;
mod damage;
mod files;
mod links;
mod made;
mod siftr;
mod threads;
