//! HyStart++: the first slow start ends when the round-trip time increases, before losses occur.
//!
//! Source: RFC 9406 section 4.2, with the constants of section 4.3.
//!
//! Differences:
//!
//! * Rounds are those of [`Ack::round`], which end when an ACK covers data sent after the previous end; they differ
//!   from the RFC's `windowEnd` by at most one ACK.
//! * [`ByteCounting`](crate::ByteCounting) defines how many bytes an ACK may count, as for every slow start (the
//!   RFC's L: 8 segments, unlimited with pacing).

use crate::Ack;
use tcpassay_units::Dur;

/// The growth of slow start on an ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// Standard slow start.
    Standard,
    /// Conservative slow start: a quarter of the growth.
    Conservative,
    /// Slow start ends.
    Leave,
}

/// The state of RFC 9406.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct HystartPlusPlus {
    round: u64,
    last_min: Option<Dur>,
    min: Option<Dur>,
    samples: u32,
    css: Option<Conservative>,
}

/// The state of conservative slow start.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Conservative {
    baseline: Dur,
    rounds: u32,
}

const MIN_RTT_THRESH: Dur = Dur::from_millis(4);
const MAX_RTT_THRESH: Dur = Dur::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_ROUNDS: u32 = 5;

impl HystartPlusPlus {
    /// `CSS_GROWTH_DIVISOR`.
    pub(crate) const CSS_GROWTH_DIVISOR: u64 = 4;

    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Growth {
        if ack.round != self.round && self.new_round(ack.round) {
            return Growth::Leave;
        }
        if let Some(rtt) = ack.rtt {
            self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= N_RTT_SAMPLE
            && let Some(min) = self.min
        {
            self.judge(min);
        }
        if self.css.is_some() { Growth::Conservative } else { Growth::Standard }
    }

    /// Whether conservative slow start has lasted its number of rounds.
    fn new_round(&mut self, round: u64) -> bool {
        self.round = round;
        self.last_min = self.min.take();
        self.samples = 0;
        let Some(css) = &mut self.css else { return false };
        // The round in which it began counts, even if it began in the middle.
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }

    fn judge(&mut self, min: Dur) {
        match (self.css, self.last_min) {
            // The increase was jitter.
            (Some(css), _) if min < css.baseline => self.css = None,
            (None, Some(last)) => {
                let thresh = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if min >= last.saturating_add(thresh) {
                    self.css = Some(Conservative { baseline: min, rounds: 0 });
                }
            }
            _ => {}
        }
    }
}
