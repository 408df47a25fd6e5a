//! What Vegas measures: once a round trip, how many of the sender's packets stand in queues.

use crate::{Ack, Reset, View};
use tcpassay_units::{Bytes, Dur};

/// Round-trip times, gathered over rounds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Queue {
    /// The smallest round-trip time since the connection began or resumed from idle (`baseRTT`).
    base: Option<Dur>,
    /// The smallest of this round (`minRTT`).
    min: Option<Dur>,
    samples: u32,
    round: u64,
    /// The round that is running began in the middle: its end starts a whole one.
    partial: bool,
    /// What the round that this ACK ended says.
    verdict: Option<Verdict>,
}

/// What a round says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// Too few samples: they may all come from delayed ACKs.
    Unsure,
    /// The smallest round-trip times of the round and of the connection.
    Measured { rtt: Dur, base: Dur },
}

/// Fewer would mean one ACK a round trip, almost certainly a delayed one.
const ENOUGH_SAMPLES: u32 = 3;

impl Queue {
    /// Takes the ACK in.
    pub(crate) fn observe(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(Dur::from_nanos(1));
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        self.verdict = None;
        if ack.round != self.round {
            self.round = ack.round;
            self.verdict = match (self.min, self.base) {
                _ if self.partial => None,
                (Some(rtt), Some(base)) if self.samples >= ENOUGH_SAMPLES => {
                    Some(Verdict::Measured { rtt, base })
                }
                _ => Some(Verdict::Unsure),
            };
            self.wipe();
        }
    }

    /// What the round says that the present ACK ended, if it ended one; each round is judged once.
    pub(crate) fn verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    /// Samples from before do not speak of what comes.
    pub(crate) fn reset(&mut self, why: Reset) {
        self.wipe();
        self.verdict = None;
        self.partial = true;
        if why == Reset::Idle {
            self.base = None;
        }
    }

    fn wipe(&mut self) {
        self.min = None;
        self.samples = 0;
        self.partial = false;
    }

    pub(crate) fn internals(&self) -> Vec<(&'static str, f64)> {
        let seconds = |rtt: Option<Dur>| rtt.map_or(0.0, Dur::as_secs_f64);
        vec![("base_rtt", seconds(self.base)), ("min_rtt", seconds(self.min))]
    }
}

/// The packets expected to stand in queues, rounded down: `cwnd * (rtt - base) / base` (Linux).
pub(crate) fn queued(view: &View, rtt: Dur, base: Dur) -> u64 {
    scaled(view.control.cwnd / view.mss, rtt.saturating_sub(base), base)
}

/// The window that the path holds without a queue, `cwnd * base / rtt`, and one packet for the truncation; not above
/// the present window.
pub(crate) fn predicted(view: &View, rtt: Dur, base: Dur) -> Bytes {
    let packets = scaled(view.control.cwnd / view.mss, base, rtt);
    view.mss.saturating_mul(packets.saturating_add(1)).min(view.control.cwnd)
}

/// `n * numerator / denominator`, rounded down.
fn scaled(n: u64, numerator: Dur, denominator: Dur) -> u64 {
    let wide = u128::from(n) * u128::from(numerator.as_nanos()) / u128::from(denominator.as_nanos());
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// The window one packet smaller, at least two.
pub(crate) fn one_less(view: &View) -> Bytes {
    view.control.cwnd.saturating_sub(view.mss).max(view.mss * 2)
}

/// Whether `n` packets are more than `bound`.
#[expect(clippy::cast_precision_loss, reason = "a queue of 2^53 packets is not met")]
pub(crate) fn above(n: u64, bound: f64) -> bool {
    n as f64 > bound
}

/// Whether `n` packets are fewer than `bound`.
#[expect(clippy::cast_precision_loss, reason = "a queue of 2^53 packets is not met")]
pub(crate) fn below(n: u64, bound: f64) -> bool {
    (n as f64) < bound
}
