//! HyStart of Linux's CUBIC: when the first slow start ends without a loss or a mark (`hystart_update` of `tcp_cubic.c`; Ha and Rhee,
//! "Taming the elephants", 2011).
//!
//! The rule is applied to the ACKs of the log twice: once with thresholds that are a little lower, and once with thresholds that are a little
//! higher than those of Linux. Slow start must not end before the first one is met, and must end when the second one is met.

use super::names::WINDOW_GROWTH as NAME;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_cc::{HystartDetect, HystartMode};
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::{StateChange, TcpState, WindowCause};
use tcpassay_tcp::{Config, Pacing};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// `hystart_low_window`: below this window in segments slow start goes on.
const LOW_WINDOW: u64 = 16;
/// `hystart_ack_delta_us`: ACKs with a larger distance are not of one train.
const TRAIN_GAP: Dur = Dur::from_millis(2);
/// `HYSTART_MIN_SAMPLES`.
const SAMPLES: u32 = 8;
/// `HYSTART_DELAY_MIN` and `HYSTART_DELAY_MAX`.
const RISE: (Dur, Dur) = (Dur::from_millis(4), Dur::from_millis(16));
/// Largest value of `hystart_ack_delay`: the time of four super-segments of 64 KiB at the pacing rate, which in slow start is twice the window
/// per SRTT.
const ACK_DELAY: Dur = Dur::from_millis(1);
const SUPER_SEGMENTS: u64 = 4 * 65_536;
/// Tolerance of all times, or an eighth of a shorter time.
const SPARE: Dur = Dur::from_micros(100);
/// Arrivals after which slow start must have ended: the log of a kernel has the window that a later segment meets.
const ARRIVALS: u32 = 2;

/// An ACK of new data.
#[derive(Clone, Copy, Debug)]
struct Ack {
    at: Time,
    una: u64,
    nxt: u64,
    sample: Dur,
}

/// The state of HyStart with one set of thresholds.
#[derive(Clone, Copy, Debug, Default)]
struct Detector {
    /// True: the thresholds are higher than those of Linux; false: lower.
    late: bool,
    /// SND.NXT at the begin of the round (`end_seq`).
    end: u64,
    round: Time,
    train: Time,
    /// The shortest sample of the round and their number.
    least: Option<Dur>,
    samples: u32,
    found: bool,
}

impl Detector {
    fn begins_round(&mut self, ack: &Ack) {
        if ack.una > self.end {
            *self = Detector {
                late: self.late,
                end: ack.nxt,
                round: ack.at,
                train: ack.at,
                found: self.found,
                ..Detector::default()
            };
        }
    }

    /// `shortest`: the shortest round-trip time of the connection. `window`: upper bound of the window in bytes.
    fn on_ack(&mut self, ack: &Ack, shortest: Dur, window: u64, detect: HystartDetect) {
        let widened = |threshold: Dur| {
            let spare = SPARE.min(threshold / 8);
            if self.late { threshold + SPARE } else { threshold.saturating_sub(spare) }
        };
        // SRTT is at least the shortest round-trip time.
        let least_delay = (shortest * SUPER_SEGMENTS / (2 * window.max(1))).min(ACK_DELAY);
        let gap = if self.late { TRAIN_GAP.saturating_sub(SPARE) } else { TRAIN_GAP + SPARE };
        let span = (shortest + if self.late { ACK_DELAY } else { least_delay }) / 2;
        let rise = shortest + (shortest / 8).clamp(RISE.0, RISE.1);
        let (span, rise) = (widened(span), widened(rise));
        if detect.train && ack.at.since(self.train) <= gap {
            self.train = ack.at;
            self.found |= ack.at.since(self.round) > span;
        }
        if detect.delay {
            let least = self.least.map_or(ack.sample, |least| least.min(ack.sample));
            self.least = Some(least);
            if self.samples < SAMPLES {
                self.samples += 1;
            } else {
                self.found |= least > rise;
            }
        }
    }
}

/// HyStart in the first slow start of one sender.
#[derive(Clone, Debug)]
pub(super) struct Hystart {
    early: Detector,
    late: Detector,
    shortest: Option<Dur>,
    /// An ACK whose effect is not known until the window that it met is known.
    pending: Option<Ack>,
    /// The ACK at which slow start must end, its row, and the number of arrivals since.
    due: Option<(Time, usize, u32)>,
    row: usize,
    /// True after a loss, a mark, a retransmission or the end of slow start.
    over: bool,
}

impl Default for Hystart {
    fn default() -> Hystart {
        Hystart {
            early: Detector { end: 1, ..Detector::default() },
            late: Detector { end: 1, late: true, ..Detector::default() },
            shortest: None,
            pending: None,
            due: None,
            row: 0,
            over: false,
        }
    }
}

/// What HyStart detects at the sender of `step`, if the rule applies to it: ACKs reach it and segments leave it when the log says so.
fn detects(context: &Context<'_>, step: &Step<'_>) -> Option<HystartDetect> {
    let settings = context.settings(step.flow)?;
    let Config { hystart: HystartMode::Linux(detect), pacing: Pacing::Off, .. } = settings.stack else {
        return None;
    };
    let at_once =
        settings.nic.gro_timeout.is_zero() && context.facts.is_some_and(|facts| !facts.queues_in_host());
    let cubic = context.recording.flows[step.flow].cc == "cubic";
    (cubic && at_once && context.in_virtual_time()).then_some(detect)
}

fn leaves_established(step: &Step<'_>) -> bool {
    let from = Some(TcpState::Established);
    matches!(step.event.state_change(), Some(StateChange::Moved { from: before, .. }) if before == from)
}

impl Hystart {
    /// Processes a row of the log.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if self.over {
            return;
        }
        let Some(detect) = detects(context, step) else {
            self.over = true;
            return;
        };
        if step.event.kind == EventKind::Window {
            self.ends(context, step, found);
            return;
        }
        self.take(context, step, detect);
        match step.event.kind {
            EventKind::In if !step.flags().has(Flags::SYN) => {
                self.arrival(context, step, found);
                if context.exact() {
                    self.take(context, step, detect);
                }
            }
            EventKind::Congestion | EventKind::TimerFire | EventKind::Retransmit => self.over = true,
            // A kernel logs the windows of established connections only (`tcp_rcv_established`).
            EventKind::State if !context.exact() => self.over |= leaves_established(step),
            _ => {}
        }
    }

    /// Applies the pending ACK. In the log of a kernel the row of the window that an ACK met follows the row of the ACK; in that of the model
    /// the row of the window that it left.
    fn take(&mut self, context: &Context<'_>, step: &Step<'_>, detect: HystartDetect) {
        let Some(ack) = self.pending.take() else { return };
        let shortest = self.shortest.map_or(ack.sample, |least| least.min(ack.sample));
        self.shortest = Some(shortest);
        let mss = context.mss(step.flow);
        let window = step.before.cwnd.max(ack.nxt - ack.una);
        for detector in [&mut self.early, &mut self.late] {
            detector.begins_round(&ack);
            if step.before.cwnd >= LOW_WINDOW * mss {
                detector.on_ack(&ack, shortest, window, detect);
            }
        }
        if self.late.found && self.due.is_none() {
            self.due = Some((ack.at, self.row, 0));
        }
    }

    fn arrival(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if step.flags().has(Flags::ECE) || step.end.sacked > 0 {
            self.over = true;
            return;
        }
        if let Some((at, row, arrivals)) = &mut self.due
            && step.at() > *at
        {
            *arrivals += 1;
            if *arrivals > ARRIVALS {
                let (since, row) = (*at, *row);
                self.over = true;
                found.add(step.of_sender(context, NAME, "slow start outlasts HyStart's condition").since(row, since), || {
                    format!(
                        "The ACKs of a round of {} came close together for more than half of the shortest round-trip time, or its round-trip times \
                         had risen by an eighth, at {since:#}; slow start did not end (Linux: hystart_update).", context.who(step.flow)
                    )
                });
                return;
            }
        }
        let Some(sample) = step.end.taken.sample else { return };
        self.pending = Some(Ack { at: step.at(), una: step.end.now.una, nxt: step.before.nxt, sample });
        self.row = step.row;
    }

    /// Checks whether slow start ends at this change of the window.
    fn ends(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let (before, after) = (step.before.ssthresh, step.end.now.ssthresh);
        if before != u64::MAX || after == u64::MAX || step.before.cwnd == 0 {
            return;
        }
        self.over = true;
        // A loss that one duplicate ACK shows (early retransmit without SACK) has no earlier row than this one.
        let by_loss = matches!(step.event.window_cause(), Some(WindowCause::Enter | WindowCause::Timeout));
        if !self.early.found && !by_loss {
            found.add(step.of_sender(context, NAME, "slow start ends before HyStart's condition"), || {
                format!(
                    "Slow start of {} ended with a window of {} bytes, without a loss or a mark: the ACKs of this round had not come close together \
                     for half of the shortest round-trip time, and its round-trip times had not risen by an eighth (Linux: hystart_update).",
                    context.who(step.flow), step.end.now.cwnd
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: HystartDetect = HystartDetect::ALL;
    const SHORTEST: Dur = Dur::from_millis(40);
    /// So large that the delay of ACKs is at least 5 us.
    const WINDOW: u64 = 1_000_000_000;

    fn ack(ms: u64, una: u64, nxt: u64, sample_ms: u64) -> Ack {
        Ack { at: Time::ZERO + Dur::from_millis(ms), una, nxt, sample: Dur::from_millis(sample_ms) }
    }

    /// Applies ACKs and returns whether the condition is met with the lower and with the higher thresholds.
    fn met(acks: &[Ack], detect: HystartDetect) -> (bool, bool) {
        let Hystart { mut early, mut late, .. } = Hystart::default();
        for one in acks {
            for detector in [&mut early, &mut late] {
                detector.begins_round(one);
                detector.on_ack(one, SHORTEST, WINDOW, detect);
            }
        }
        (early.found, late.found)
    }

    /// ACKs each 2 ms (1.8 ms rounded up is of the train, too) from 100 ms on, of one round.
    fn train(count: u64) -> Vec<Ack> {
        (0..count).map(|n| ack(100 + n, 1000 + n, 5000, 40)).collect()
    }

    #[test]
    fn a_train_of_half_the_shortest_round_trip_meets_the_condition() {
        assert_eq!(met(&train(20), BOTH), (false, false), "19 ms");
        assert_eq!(met(&train(21), BOTH), (true, false), "20 ms, half of 40 ms");
        assert_eq!(met(&train(22), BOTH), (true, true), "21 ms: half of 41 ms with the delay of ACKs");
    }

    #[test]
    fn a_gap_ends_a_train_and_a_new_round_begins_another() {
        let mut gap = train(15);
        gap.extend((15..30).map(|n| ack(105 + n, 1000 + n, 5000, 40)));
        assert_eq!(met(&gap, BOTH), (false, false), "a gap of 6 ms");
        let mut rounds = train(15);
        rounds.extend((15..30).map(|n| ack(100 + n, 6000 + n, 9000, 40)));
        assert_eq!(met(&rounds, BOTH), (false, false), "two rounds of 15 ms");
    }

    #[test]
    fn nine_samples_that_rose_by_an_eighth_meet_the_condition() {
        let rising =
            |sample, count| (0..count).map(|n| ack(100 + 5 * n, 1000, 5000, sample)).collect::<Vec<_>>();
        assert_eq!(met(&rising(46, 8), BOTH), (false, false), "eight samples");
        assert_eq!(met(&rising(46, 9), BOTH), (true, true), "40 ms and an eighth are 45 ms");
        assert_eq!(met(&rising(45, 9), BOTH), (true, false));
        assert_eq!(met(&rising(44, 9), BOTH), (false, false));
        let train_only = HystartDetect { train: true, delay: false };
        assert_eq!(met(&rising(46, 9), train_only), (false, false));
    }
}
