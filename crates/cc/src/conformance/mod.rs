//! The contract of a controller, as a kit that any controller can be run through.
//!
//! [`check`] plays random but legal histories of a connection to a controller and compares each answer with the clauses
//! of a [`Contract`]. A history is a list of [`Step`]s; a small sender makes events of them in the order that
//! the real one keeps, so that every list of steps is a legal history, and a failing one can be shortened by leaving
//! steps out. The history that is reported is the shortest one found so.
//!
//! ```
//! use tcpassay_cc::conformance::{Contract, check};
//! use tcpassay_cc::{Params, build};
//!
//! check(Contract::Window, || build("reno", &Params::default()).unwrap()).unwrap();
//! ```
//!
//! It tests the contract alone: what any controller owes its sender. Whether a controller does what its RFC says is the
//! business of literal traces.

mod bench;
mod clauses;
mod step;

pub use bench::Coverage;
pub use clauses::{Clause, Contract};
pub use step::Step;

use crate::Controller;
use bench::Bench;
use std::fmt;
use tcpassay_units::Seed;

/// A clause that a controller broke, and the history in which it did.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// Which.
    pub clause: Clause,
    /// What was expected and what came, with the event.
    pub detail: String,
    /// The history; the last step broke the clause.
    pub history: Vec<Step>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}: {}; after", self.clause, self.detail)?;
        self.history.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

impl std::error::Error for Violation {}

/// How many histories [`check`] plays, and how many steps each has.
const HISTORIES: u64 = 200;
const STEPS: usize = 300;

/// Plays random histories, the same every time. `make` must make equal controllers, with equal rng.
///
/// Returns what the histories covered.
///
/// # Errors
///
/// The first violation, shortened.
pub fn check(contract: Contract, make: impl Fn() -> Box<dyn Controller>) -> Result<Coverage, Violation> {
    let mut covered = Coverage::default();
    for seed in 0..HISTORIES {
        let mut rng = Seed(seed).stream("conformance");
        let history: Vec<Step> = (0..STEPS).map(|_| Step::from_bits(rng.below(u64::MAX))).collect();
        match play(contract, &make, &history) {
            Ok(coverage) => covered.add(coverage),
            Err(violation) => return Err(shorten(contract, &make, violation)),
        }
    }
    Ok(covered)
}

/// Plays one history.
///
/// # Errors
///
/// The first clause broken.
pub fn play(
    contract: Contract,
    make: impl Fn() -> Box<dyn Controller>,
    history: &[Step],
) -> Result<Coverage, Violation> {
    let mut bench = Bench::new(contract, make());
    let mut twin = Bench::new(contract, make());
    bench.disturbed = true;
    for (at, step) in history.iter().enumerate() {
        let broken = |(clause, detail)| Violation { clause, detail, history: history[..=at].to_vec() };
        bench.take(*step).map_err(broken)?;
        twin.take(*step).map_err(broken)?;
        bench.same_as(&twin).map_err(broken)?;
    }
    Ok(bench.coverage)
}

/// Leaves out what the violation does not need: halves, then quarters, down to single steps.
fn shorten(contract: Contract, make: &impl Fn() -> Box<dyn Controller>, found: Violation) -> Violation {
    let mut best = found;
    let mut chunk = best.history.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < best.history.len() {
            let mut shorter = best.history.clone();
            shorter.drain(at..(at + chunk).min(shorter.len()));
            match play(contract, make, &shorter) {
                Err(violation) if violation.clause == best.clause => best = violation,
                _ => at += chunk,
            }
        }
        chunk /= 2;
    }
    best
}
