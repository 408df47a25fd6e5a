//! What the SYNs of a connection offer and accept, and a silence after which nothing is answered any more.

use super::ecn::ace;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Flags, Segment};

/// The names of what both ends have to offer, with [`Offers::of`].
const NAMES: [&str; 4] = ["window scale", "SACK permitted", "timestamps", "ECN"];

/// A pause of this length is long enough for a middlebox to forget a connection.
pub(crate) const LONG_PAUSE: Dur = Dur::from_secs(1);

/// What a SYN has of [`NAMES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offers([bool; 4]);

impl Offers {
    /// Those of a SYN or a SYN-ACK whose options are known.
    pub fn of(segment: &Segment) -> Offers {
        let options = &segment.options;
        // RFC 3168 section 6.1.1; RFC 9768 table 2: all three flags, and the answer has any of its codes.
        let asks = !segment.flags.has(Flags::ACK);
        let ecn = match ace(segment.flags) {
            3 | 7 => asks,
            code => !asks && code != 0,
        };
        Offers([options.window_scale.is_some(), options.sack_permitted, options.timestamps.is_some(), ecn])
    }

    pub fn has_scale(self) -> bool {
        self.0[0]
    }

    /// Names of what the SYN offers and the SYN-ACK does not accept.
    pub fn refused(syns: [Option<Offers>; 2]) -> Vec<&'static str> {
        let [Some(asked), Some(answered)] = syns else { return Vec::new() };
        let both = NAMES.iter().zip(asked.0.iter().zip(answered.0));
        both.filter(|(_, (asked, answered))| **asked && !answered).map(|(name, _)| *name).collect()
    }

    /// Whether both ends use ECN, by their SYNs.
    pub fn agree_on_ecn(syns: [Option<Offers>; 2]) -> bool {
        syns.iter().all(|one| one.is_some_and(|offers| offers.0[3]))
    }
}

/// After a long pause the data of an end were not answered any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    pub length: Dur,
    /// When it began.
    pub since: Time,
    /// A retransmission timer has fired since.
    pub fired: bool,
}
