//! What Vegas and its modification share: the measuring, once a round trip, of how many of the sender's packets stand in
//! queues, and everything that follows from it but the two decisions in which they differ.

use crate::{Ack, Additive, Reset, View};
use tcpassay_units::{Bytes, Dur};

/// A round with enough samples, as a rule judges it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'a> {
    pub view: &'a View,
    /// The smallest round-trip time of the round, and of the connection.
    pub rtt: Dur,
    pub base: Dur,
}

impl Measured<'_> {
    /// The packets expected to stand in queues, rounded down: `cwnd * (rtt - base) / base` (Linux).
    pub(crate) fn queued(&self) -> u64 {
        scaled(self.view.control.cwnd / self.view.mss, self.rtt.saturating_sub(self.base), self.base)
    }

    /// The window that the path holds without a queue, `cwnd * base / rtt`, and one packet for the truncation; not above
    /// the present window, and at least two packets.
    pub(crate) fn predicted(&self) -> Bytes {
        let View { mss, control, .. } = *self.view;
        let packets = scaled(control.cwnd / mss, self.base, self.rtt);
        mss.saturating_mul(packets.saturating_add(1)).min(control.cwnd).max(mss * 2)
    }
}

/// What the window does in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// One packet more.
    Up,
    /// Nothing.
    Stay,
    /// One packet less, but at least two.
    Down,
}

/// The bookkeeping of a Vegas: rounds, and Reno's increase for those that have too few samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rounds {
    queue: Queue,
    increase: Additive,
}

impl Rounds {
    /// As Linux counts: in microseconds, and anew whenever data leave with nothing in flight (`tcp_vegas_pkts_acked`,
    /// `tcp_vegas_cwnd_event`).
    pub(crate) fn linux() -> Rounds {
        Rounds { queue: Queue { linux: true, ..Queue::default() }, increase: Additive::default() }
    }

    /// Takes the ACK in.
    pub(crate) fn observe(&mut self, view: &View, ack: &Ack) {
        self.queue.observe(view, ack);
    }

    /// The present ACK ended a round with too few samples.
    pub(crate) fn unsure(&self) -> bool {
        self.queue.verdict == Some(Verdict::Unsure)
    }

    /// Congestion avoidance: where the present ACK ended a round, the window that `judge` wants.
    pub(crate) fn grow(
        &mut self,
        view: &View,
        acked: Bytes,
        judge: impl FnOnce(&Measured<'_>) -> Change,
    ) -> Bytes {
        let View { mss, control, .. } = *view;
        match self.queue.verdict() {
            None => control.cwnd,
            Some(Verdict::Unsure) => self.increase.grow(control.cwnd, mss, acked),
            Some(Verdict::Measured { rtt, base }) => match judge(&Measured { view, rtt, base }) {
                Change::Up => control.cwnd.saturating_add(mss),
                Change::Stay => control.cwnd,
                Change::Down => control.cwnd.saturating_sub(mss).max(mss * 2),
            },
        }
    }

    /// Slow start: where the present ACK ended a round with enough samples and `full` says so, the window to leave with.
    pub(crate) fn leave_slow_start(
        &mut self,
        view: &View,
        full: impl FnOnce(&Measured<'_>) -> bool,
    ) -> Option<Bytes> {
        let Some(Verdict::Measured { rtt, base }) = self.queue.verdict() else { return None };
        let measured = Measured { view, rtt, base };
        full(&measured).then(|| measured.predicted())
    }

    /// Half the flight (RFC 5681).
    pub(crate) fn reduce(&mut self, view: &View, flight: Bytes) -> Bytes {
        self.increase.clear();
        (flight / 2).max(view.mss * 2)
    }

    pub(crate) fn reset(&mut self, why: Reset) {
        self.queue.reset(why);
        if why != Reset::Recovered {
            self.increase.clear();
        }
    }

    /// Half the flight in whole packets (`tcp_reno_ssthresh`).
    pub(crate) fn reduce_linux(&mut self, view: &View, flight: Bytes) -> Bytes {
        self.increase.clear();
        view.mss * (flight / view.mss / 2).max(2)
    }

    pub(crate) fn undo(&mut self, before: &Rounds) {
        self.queue.reset(Reset::Recovered);
        self.increase = before.increase;
    }

    pub(crate) fn internals(&self) -> Vec<(&'static str, f64)> {
        self.queue.internals()
    }
}

/// Round-trip times, gathered over rounds.
#[derive(Clone, PartialEq, Debug, Default)]
struct Queue {
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
    /// See [`Rounds::linux`].
    linux: bool,
    /// Linux: the last ACK left nothing in flight, so that the next data begin anew.
    drained: bool,
}

/// What a round says.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    /// Too few samples: they may all come from delayed ACKs.
    Unsure,
    /// The smallest round-trip times of the round and of the connection.
    Measured { rtt: Dur, base: Dur },
}

/// Fewer would mean one ACK a round trip, almost certainly a delayed one.
const ENOUGH_SAMPLES: u32 = 3;

impl Queue {
    /// Takes the ACK in.
    fn observe(&mut self, view: &View, ack: &Ack) {
        if self.linux && std::mem::replace(&mut self.drained, view.flight.is_zero()) {
            self.base = None;
            self.wipe();
        }
        if let Some(rtt) = ack.rtt {
            let rtt = if self.linux {
                Dur::from_micros(rtt.as_nanos() / 1000 + 1)
            } else {
                rtt.max(Dur::from_nanos(1))
            };
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
    fn verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    /// Samples from before do not speak of what comes.
    fn reset(&mut self, why: Reset) {
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

    fn internals(&self) -> Vec<(&'static str, f64)> {
        let seconds = |rtt: Option<Dur>| rtt.map_or(0.0, Dur::as_secs_f64);
        vec![("base_rtt", seconds(self.base)), ("min_rtt", seconds(self.min))]
    }
}

/// `n * numerator / denominator`, rounded down.
fn scaled(n: u64, numerator: Dur, denominator: Dur) -> u64 {
    let wide = u128::from(n) * u128::from(numerator.as_nanos()) / u128::from(denominator.as_nanos());
    u64::try_from(wide).unwrap_or(u64::MAX)
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
