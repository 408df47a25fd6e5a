//! The common part of Vegas and modified Vegas: once per round trip it estimates how many of the sender's packets are
//! queued. The two controllers differ only in the two decisions based on this estimate.

use crate::{Ack, AckCount, AdditiveIncrease, ResetReason, View};
use tcpassay_units::{Bytes, Dur};

/// The measurement of a round with enough samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttMeasurement<'a> {
    pub view: &'a View,
    /// The smallest round-trip time of the round, and of the connection.
    pub rtt: Dur,
    pub base: Dur,
}

impl RttMeasurement<'_> {
    /// The estimated number of queued packets, rounded down: `cwnd * (rtt - base) / base` (Linux).
    pub(crate) fn queued(&self) -> u64 {
        scaled(self.view.control.cwnd / self.view.mss, self.rtt.saturating_sub(self.base), self.base)
    }

    /// The window that fills the path without a queue, `cwnd * base / rtt`, plus one packet because of the
    /// truncation; at most the current window and at least two packets.
    pub(crate) fn predicted(&self) -> Bytes {
        let View { mss, control, .. } = *self.view;
        let packets = scaled(control.cwnd / mss, self.base, self.rtt);
        mss.saturating_mul(packets.saturating_add(1)).min(control.cwnd).max(mss * 2)
    }
}

/// The change of the window in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WindowChange {
    /// Increase by one packet.
    Up,
    /// No change.
    Stay,
    /// Decrease by one packet, to at least two.
    Down,
}

/// The round-trip measurements of a Vegas controller, and Reno's increase for rounds with too few samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct VegasRounds {
    queue: Queue,
    increase: AdditiveIncrease,
}

impl VegasRounds {
    /// Measures as in Linux: in microseconds, and with a new base RTT whenever data is sent with nothing in flight
    /// (`tcp_vegas_pkts_acked`, `tcp_vegas_cwnd_event`).
    pub(crate) fn linux() -> VegasRounds {
        VegasRounds {
            queue: Queue { linux: true, end: FIRST, ..Queue::default() },
            increase: AdditiveIncrease::linux(),
        }
    }

    /// An ACK of everything below `acked` arrives, when data below `sent` were sent.
    pub(crate) fn counted(&mut self, count: &AckCount) {
        self.queue.counted = (count.acked, count.sent);
    }

    /// Processes an ACK.
    pub(crate) fn observe(&mut self, view: &View, ack: &Ack) {
        self.queue.observe(view, ack);
    }

    /// Whether the current ACK ended a round with too few samples.
    pub(crate) fn unsure(&self) -> bool {
        self.queue.verdict == Some(Verdict::Unsure)
    }

    /// Congestion avoidance: when the current ACK ended a round, the window that `judge` selects.
    pub(crate) fn grow(
        &mut self,
        view: &View,
        acked: Bytes,
        judge: impl FnOnce(&RttMeasurement<'_>) -> WindowChange,
    ) -> Bytes {
        let View { mss, control, .. } = *view;
        match self.queue.verdict() {
            None => control.cwnd,
            Some(Verdict::Unsure) => self.increase.grow(control.cwnd, mss, acked),
            Some(Verdict::Measured { rtt, base }) => match judge(&RttMeasurement { view, rtt, base }) {
                WindowChange::Up => control.cwnd.saturating_add(mss),
                WindowChange::Stay => control.cwnd,
                WindowChange::Down => control.cwnd.saturating_sub(mss).max(mss * 2),
            },
        }
    }

    /// Slow start: the window with which slow start ends, when the current ACK ended a round with enough samples and
    /// `full` returns true for it.
    pub(crate) fn leave_slow_start(
        &mut self,
        view: &View,
        full: impl FnOnce(&RttMeasurement<'_>) -> bool,
    ) -> Option<Bytes> {
        let Some(Verdict::Measured { rtt, base }) = self.queue.verdict() else { return None };
        let measured = RttMeasurement { view, rtt, base };
        full(&measured).then(|| measured.predicted())
    }

    /// Half of the flight size (RFC 5681).
    pub(crate) fn reduce(&mut self, view: &View, flight: Bytes) -> Bytes {
        self.increase.clear();
        (flight / 2).max(view.mss * 2)
    }

    pub(crate) fn reset(&mut self, why: ResetReason) {
        self.queue.reset(why);
        if why != ResetReason::Recovered {
            self.increase.clear();
        }
    }

    /// Half of the flight size in whole packets (`tcp_reno_ssthresh`).
    pub(crate) fn reduce_linux(&mut self, view: &View, flight: Bytes) -> Bytes {
        self.increase.clear();
        view.mss * (flight / view.mss / 2).max(2)
    }

    pub(crate) fn undo(&mut self, before: &VegasRounds) {
        self.queue.reset(ResetReason::Recovered);
        self.increase = before.increase;
    }

    pub(crate) fn internals(&self) -> Vec<(&'static str, f64)> {
        self.queue.internals()
    }
}

/// The round-trip time measurements by round.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, PartialEq, Debug, Default)]
struct Queue {
    /// The smallest round-trip time since the connection began or resumed after idle (`baseRTT`).
    base: Option<Dur>,
    /// The smallest round-trip time of the current round (`minRTT`).
    min: Option<Dur>,
    samples: u32,
    round: u64,
    /// The current round is incomplete; the next complete round begins when it ends.
    partial: bool,
    /// The result of the round that the current ACK ended.
    verdict: Option<Verdict>,
    /// See [`VegasRounds::linux`].
    linux: bool,
    /// Linux: the last ACK left nothing in flight, so that the base RTT is measured anew when data is sent, and a round begins.
    drained: bool,
    /// Linux: what the last ACK acknowledged, and what was sent by then.
    counted: (u64, u64),
    /// Linux: the round ends when more than this is acknowledged (`beg_snd_nxt`).
    end: u64,
    /// [`Queue::end`] if the last ACK left nothing in flight.
    end_if_drained: u64,
    /// Linux: the sender suspects or repairs a loss, and Reno decides (`tcp_vegas_state`).
    suspended: bool,
    /// Linux: something was sent with nothing in flight since then, and Vegas decides again (`tcp_vegas_cwnd_event`): the first
    /// retransmission after a timeout is.
    resumed: bool,
    /// Linux: the present ACK ends a recovery, and its sample came before the round that begins then.
    ends_episode: bool,
}

/// The result of a round.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    /// Too few samples: all of them may come from delayed ACKs.
    Unsure,
    /// The smallest round-trip times of the round and of the connection.
    Measured { rtt: Dur, base: Dur },
}

/// The first position of data, which is sent next when the connection is established.
const FIRST: u64 = 1;
/// Fewer samples mean one ACK per round trip, which is very likely a delayed one.
const ENOUGH_SAMPLES: u32 = 3;

impl Queue {
    /// Processes an ACK.
    fn observe(&mut self, view: &View, ack: &Ack) {
        if self.linux {
            if std::mem::replace(&mut self.drained, view.flight.is_zero()) {
                self.base = None;
                self.end = self.end_if_drained;
                self.wipe();
                self.resumed = self.suspended;
            }
            self.end_if_drained = self.counted.1;
        }
        if let Some(rtt) = ack.rtt {
            let rtt = if self.linux {
                Dur::from_micros(rtt.as_nanos() / 1000 + 1)
            } else {
                rtt.max(Dur::from_nanos(1))
            };
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            if !self.ends_episode {
                self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
                self.samples += 1;
            }
        }
        self.ends_episode = false;
        self.verdict = None;
        if self.linux && std::mem::replace(&mut self.suspended, !view.open) != self.suspended {
            self.round = ack.round;
            self.end = self.counted.1;
            self.wipe();
            self.resumed = false;
        }
        if self.suspended && !self.resumed {
            self.verdict = Some(Verdict::Unsure);
            return;
        }
        let over = if self.linux && self.counted.1 > 0 {
            self.counted.0 > self.end
        } else {
            ack.round != self.round
        };
        if over {
            self.round = ack.round;
            self.end = self.counted.1;
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

    /// The result of the round that the current ACK ended, if any; each result is returned once.
    fn verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    /// Discards the samples, because they do not describe the new state.
    fn reset(&mut self, why: ResetReason) {
        self.wipe();
        self.verdict = None;
        self.partial = !self.linux || self.counted.1 == 0;
        self.end = self.counted.1;
        self.ends_episode = self.linux && self.counted.1 > 0 && why == ResetReason::Recovered;
        if why == ResetReason::Idle || self.linux && why == ResetReason::Timeout {
            self.base = None;
        }
        if self.linux && why == ResetReason::Timeout {
            (self.suspended, self.resumed) = (true, true);
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
