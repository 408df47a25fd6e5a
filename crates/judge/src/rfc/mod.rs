//! Bounds that every TCP keeps, from segments, and from windows where a log has them.
//!
//! A [`Bound`] is a row of data: name, section of the RFC, strength, statement, exceptions, what it needs from a log, which segments it
//! looks at, and the rule. The rules know nothing of the stack that sent the segments and nothing of the substrate, and apply to captures
//! and to recordings alike. They are conservative: where segments do not prove a violation, they are silent.

mod bound;
mod closing;
mod ecn;
mod opening;
mod recent;
mod repair;
mod restart;
mod retransmission;
mod sack;
mod sack_order;
mod size;
mod slow_start;
mod stamps;
#[cfg(test)]
pub(crate) mod testing;
mod timers;
mod undo;
mod windows;

use crate::finding::Oracle;
use bound::Bound;

/// All bounds, in the order of the documentation.
pub(crate) const BOUNDS: &[Bound] = &[
    retransmission::SACKED_AGAIN,
    repair::REPAIR,
    sack::TOUCH,
    sack::STALE,
    sack::ABOVE_ACK,
    sack::PERMITTED,
    sack_order::FIRST_BLOCK,
    sack_order::DSACK,
    windows::BEYOND,
    windows::SILLY_FILLED,
    restart::RESTART,
    slow_start::STANDS,
    undo::HALF,
    size::ABOVE_MSS,
    timers::SYN,
    timers::DATA,
    timers::PROBES,
    opening::SIMULTANEOUS,
    opening::SYN_AGAIN,
    closing::AFTER_FIN,
    closing::FIN_MOVED,
    stamps::MISSING,
    stamps::BACKWARDS,
    stamps::ECHO,
    recent::RECENT,
    ecn::ANSWER,
    ecn::USE,
];

/// The descriptions of the bounds.
pub(crate) const ORACLES: [Oracle; BOUNDS.len()] = {
    let mut all = [BOUNDS[0].oracle(); BOUNDS.len()];
    let mut place = 0;
    while place < BOUNDS.len() {
        all[place] = BOUNDS[place].oracle();
        place += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use bound::Strength;

    #[test]
    fn each_bound_names_a_section_and_the_strength_that_it_has() {
        for bound in BOUNDS {
            let word = if bound.strength == Strength::Must { "MUST" } else { "SHOULD" };
            assert!(bound.section.starts_with("RFC ") && bound.section.contains(word), "{}", bound.name);
        }
    }

    #[test]
    fn names_of_bounds_are_unique() {
        let mut names: Vec<&str> = BOUNDS.iter().map(|bound| bound.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BOUNDS.len());
    }
}
