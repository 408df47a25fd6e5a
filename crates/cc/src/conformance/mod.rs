//! The contract of a controller, as a test kit for any controller.
//!
//! [`check`] generates random but legal histories of a connection and compares each output of the controller with the
//! clauses of a [`Contract`]. A history is a list of [`HistoryStep`]s. A small test sender converts the steps to
//! events in the order of the real sender. Every list of steps is therefore a legal history, and a failing history
//! can be shortened by removing steps; the reported history is the shortest one found.
//!
//! ```
//! use tcpassay_cc::conformance::{Contract, check};
//! use tcpassay_cc::{Params, build};
//!
//! check(Contract::Window, || build("reno", &Params::default()).unwrap()).unwrap();
//! ```
//!
//! The kit tests the contract between controller and sender. Tests with literal traces verify that a controller
//! follows its RFC.

mod clauses;
mod recovery;
mod sender;
mod step;
mod words;

pub use clauses::{Clause, Contract};
pub use sender::Coverage;
pub use step::HistoryStep;

use crate::Controller;
use sender::TestSender;
use std::fmt;
use tcpassay_units::Seed;

/// A clause that a controller violated, with the history.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// The violated clause.
    pub clause: Clause,
    /// The expected and the actual output, with the event.
    pub detail: String,
    /// The history; its last step violates the clause.
    pub history: Vec<HistoryStep>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}: {}", self.clause, self.clause.rule())?;
        writeln!(f, "{}", self.detail)?;
        writeln!(f, "The shortest history with segments of 1 KB and an initial window of 10 KB:")?;
        self.history.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

impl std::error::Error for Violation {}

/// Number of histories of [`check`], and number of steps of each.
const HISTORIES: u64 = 200;
const STEPS: usize = 300;

/// Plays random histories, which are the same in every run. `make` must create equal controllers with equal random
/// streams.
///
/// Returns the number of events that the histories covered.
///
/// # Errors
///
/// The first violation, shortened.
pub fn check(contract: Contract, make: impl Fn() -> Box<dyn Controller>) -> Result<Coverage, Violation> {
    let (covered, mut found) = search(contract, make, (HISTORIES, 1), || true);
    found.pop().map_or(Ok(covered), Err)
}

/// As [`check`] with this number of histories, but returns a violation of each clause that a history violates, in the order in which they were found.
///
/// A clause that was found does not count in later histories. A later violation may therefore be a consequence of an
/// earlier one. `goes_on` is asked before each history, and ends the search with `false`.
pub fn check_all(
    contract: Contract,
    histories: u64,
    make: impl Fn() -> Box<dyn Controller>,
    goes_on: impl Fn() -> bool,
) -> (Coverage, Vec<Violation>) {
    search(contract, make, (histories, Clause::ALL.len()), goes_on)
}

fn search(
    contract: Contract,
    make: impl Fn() -> Box<dyn Controller>,
    (histories, most): (u64, usize),
    goes_on: impl Fn() -> bool,
) -> (Coverage, Vec<Violation>) {
    let mut covered = Coverage::default();
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for seed in 0..histories {
        let mut rng = Seed(seed).stream("conformance");
        let history: Vec<HistoryStep> =
            (0..STEPS).map(|_| HistoryStep::from_bits(rng.below(u64::MAX))).collect();
        loop {
            if !goes_on() {
                return (covered, found);
            }
            match play_except(contract, &make, &history, &known) {
                Ok(coverage) => {
                    covered.add(coverage);
                    break;
                }
                Err(violation) => {
                    let shorter = shorten(contract, &make, violation, &known, &goes_on);
                    known.push(shorter.clause);
                    found.push(shorter);
                    if found.len() == most {
                        return (covered, found);
                    }
                }
            }
        }
    }
    (covered, found)
}

/// Plays one history.
///
/// # Errors
///
/// The first violation.
pub fn play(
    contract: Contract,
    make: impl Fn() -> Box<dyn Controller>,
    history: &[HistoryStep],
) -> Result<Coverage, Violation> {
    play_except(contract, make, history, &[])
}

/// Plays one history, in which violations of the clauses `known` do not count.
fn play_except(
    contract: Contract,
    make: impl Fn() -> Box<dyn Controller>,
    history: &[HistoryStep],
    known: &[Clause],
) -> Result<Coverage, Violation> {
    let mut sender = TestSender::new(contract, make(), known);
    let mut twin = TestSender::new(contract, make(), known);
    sender.disturbed = true;
    for (at, step) in history.iter().enumerate() {
        let broken = |(clause, detail)| Violation { clause, detail, history: history[..=at].to_vec() };
        sender.take(*step).map_err(broken)?;
        twin.take(*step).map_err(broken)?;
        sender.same_as(&twin).map_err(broken)?;
    }
    Ok(sender.coverage)
}

/// Removes steps that are not needed for the violation: halves, then quarters, down to single steps.
fn shorten(
    contract: Contract,
    make: &impl Fn() -> Box<dyn Controller>,
    found: Violation,
    known: &[Clause],
    goes_on: &impl Fn() -> bool,
) -> Violation {
    let mut best = found;
    let mut chunk = best.history.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < best.history.len() && goes_on() {
            let mut shorter = best.history.clone();
            shorter.drain(at..(at + chunk).min(shorter.len()));
            match play_except(contract, make, &shorter, known) {
                Err(violation) if violation.clause == best.clause => best = violation,
                _ => at += chunk,
            }
        }
        chunk /= 2;
    }
    best
}
