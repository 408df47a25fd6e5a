//! Vegas: once per round trip it compares the window with the window that fills the path without a queue.
//!
//! Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet" (1995), as
//! implemented in Linux `net/ipv4/tcp_vegas.c`.
//!
//! Differences of Linux, and of this implementation, from the paper:
//!
//! * The data path implements loss detection and recovery, without the fine-grained timers of Vegas.
//! * Slow start doubles the window every round trip instead of every other one.
//! * The actual rate is computed from the smallest round-trip time of the last round, which excludes delayed ACKs. A
//!   round with fewer than three samples is ignored, and its last ACK is processed as in Reno.
//! * At the end of slow start the window is set to the one that fills the path without a queue, plus one packet.
//! * The queue is estimated as `cwnd * (rtt - base) / base` packets, slightly more than the paper's `cwnd * (rtt -
//!   base) / rtt`.
//! * After recovery, a timeout or idle, Vegas waits for a complete round of samples; after idle it measures `baseRTT`
//!   again.
//!
//! Differences from Linux:
//!
//! * A window that the sender does not fill is not changed (the app-limited rule of [`Windowed`](crate::Windowed)).
//!   Linux changes it, and its slow start increases it, except in rounds with too few samples
//!   (`tcp_vegas_cong_avoid`); [`Arithmetic::Linux`] does the same.
//! * A complete round of samples ends at the second end of a round of the sender's counter, one to two round trips
//!   after recovery; in Linux it is exactly one.
//! * Idle means longer than the RTO. Linux measures `baseRTT` again whenever it sends with nothing in flight
//!   (`CA_EVENT_TX_START`), and computes in microseconds; [`Arithmetic::Linux`] does both.
//! * After a loss the window is half of the flight size (RFC 5681); with [`Arithmetic::Linux`] in whole segments
//!   (`tcp_reno_ssthresh`).
//! * ssthresh is not raised to three quarters of the window each round trip (Linux `tcp_current_ssthresh`). Vegas
//!   does not read ssthresh before the next loss, which sets it.

use super::vegas_rounds::{VegasRounds, WindowChange, above, below};
use crate::{
    Ack, AckCount, Arithmetic, Cause, LinuxParam, ModuleValue, ParamInfo, ParamValues, Params, ResetReason,
    View, WindowRule,
};
use tcpassay_units::Bytes;

/// Vegas (Brakmo and Peterson; Linux).
#[derive(Clone, PartialEq, Debug)]
pub struct Vegas {
    alpha: f64,
    beta: f64,
    gamma: f64,
    rounds: VegasRounds,
    linux: bool,
}

impl Vegas {
    /// Creates the rule from the parameters declared in [`WindowRule::PARAMS`].
    pub fn new(values: &ParamValues, params: &Params) -> Vegas {
        let linux = params.arithmetic == Arithmetic::Linux;
        Vegas {
            alpha: values.get("alpha"),
            beta: values.get("beta"),
            gamma: values.get("gamma"),
            rounds: if linux { VegasRounds::linux() } else { VegasRounds::default() },
            linux,
        }
    }
}

impl WindowRule for Vegas {
    const NAME: &'static str = "vegas";
    const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "alpha",
            default: 2.0,
            range: (0.0, 1000.0),
            doc: "fewer queued packets than this: the window grows by one a round trip",
            linux: LinuxParam::Module { file: "tcp_vegas/parameters/alpha", form: ModuleValue::Packets },
        },
        ParamInfo {
            name: "beta",
            default: 4.0,
            range: (0.0, 1000.0),
            doc: "more queued packets than this: the window shrinks by one a round trip",
            linux: LinuxParam::Module { file: "tcp_vegas/parameters/beta", form: ModuleValue::Packets },
        },
        ParamInfo {
            name: "gamma",
            default: 1.0,
            range: (0.0, 1000.0),
            doc: "more queued packets than this end slow start",
            linux: LinuxParam::Module { file: "tcp_vegas/parameters/gamma", form: ModuleValue::Packets },
        },
    ];

    const WANTS_COUNTS: bool = true;

    fn counted(&mut self, count: &AckCount) {
        self.rounds.counted(count);
    }

    fn observe(&mut self, view: &View, ack: &Ack) {
        self.rounds.observe(view, ack);
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let (alpha, beta) = (self.alpha, self.beta);
        self.rounds.grow(view, acked, |round| match round.queued() {
            queued if above(queued, beta) => WindowChange::Down,
            queued if below(queued, alpha) => WindowChange::Up,
            _ => WindowChange::Stay,
        })
    }

    fn reduce(&mut self, view: &View, _cause: Cause, flight: Bytes) -> Bytes {
        if self.linux { self.rounds.reduce_linux(view, flight) } else { self.rounds.reduce(view, flight) }
    }

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        let gamma = self.gamma;
        self.rounds.leave_slow_start(view, |round| above(round.queued(), gamma))
    }

    fn grows_unused(&self) -> bool {
        self.linux && !self.rounds.unsure()
    }

    fn reset(&mut self, _view: &View, why: ResetReason) {
        self.rounds.reset(why);
    }

    fn undo(&mut self, _view: &View, before: &Vegas) {
        self.rounds.undo(&before.rounds);
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rounds.internals()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ack, AckCount, Arithmetic, Cause, Control, Controller, Event, Limited, Params, View, build};
    use tcpassay_units::{Bytes, Dur};

    /// A round trip of 30 ms in which one segment of 1000 bytes arrives with each ACK, the sender limited by the application.
    struct Idler {
        cc: Box<dyn Controller>,
        control: Control,
        round: u64,
        acked: u64,
    }

    impl Idler {
        fn new(arithmetic: Arithmetic, cwnd: u64, ssthresh: Bytes) -> Idler {
            let cc = build("vegas", &Params { arithmetic, ..Params::default() }).expect("a controller");
            let control = Control { cwnd: Bytes::new(cwnd), ssthresh, pacing: None };
            Idler { cc, control, round: 0, acked: 1 }
        }

        fn ack(&mut self, rtt: Dur, flight: u64, ends: bool) -> u64 {
            self.round += u64::from(ends);
            self.acked += u64::from(ends);
            self.cc.counted(&AckCount { acked: self.acked, sent: self.acked, packets: 1, marked: false });
            let mss = Bytes::new(1000);
            let view =
                View { flight: Bytes::new(flight), limited: Limited::App, ..View::start(mss, self.control) };
            let ack = Ack {
                acked: mss,
                delivered: mss,
                lost: Bytes::ZERO,
                marked: Bytes::ZERO,
                rtt: Some(rtt),
                sample: None,
                app_limited: true,
                round: self.round,
                reordered: false,
            };
            self.control = self.cc.on(&view, &Event::Ack(ack));
            self.control.cwnd.get()
        }
    }

    const RTT: Dur = Dur::from_millis(30);

    /// `tcp_vegas_cong_avoid` calls `tcp_slow_start` without `tcp_is_cwnd_limited`.
    #[test]
    fn with_linux_arithmetic_slow_start_raises_a_window_that_nobody_fills() {
        let mut linux = Idler::new(Arithmetic::Linux, 40_000, Bytes::MAX);
        let mut rfc = Idler::new(Arithmetic::Rfc, 40_000, Bytes::MAX);
        for n in 1..=4 {
            assert_eq!(linux.ack(RTT, 4000, false), 40_000 + n * 1000);
            assert_eq!(rfc.ack(RTT, 4000, false), 40_000);
        }
        // Four equal samples: nothing is queued, so that slow start continues also at the end of the round.
        assert_eq!(linux.ack(RTT, 4000, true), 45_000);
        // One sample: the last ACK of the round is processed as in Reno, which requires that the window was filled.
        assert_eq!(linux.ack(RTT, 4000, true), 45_000);
    }

    /// `tcp_vegas_cong_avoid`: one packet more for a round with fewer than alpha queued.
    #[test]
    fn with_linux_arithmetic_congestion_avoidance_judges_a_window_that_nobody_fills() {
        for (arithmetic, after) in [(Arithmetic::Linux, 21_000), (Arithmetic::Rfc, 20_000)] {
            let mut t = Idler::new(arithmetic, 20_000, Bytes::new(20_000));
            for _ in 0..2 {
                assert_eq!(t.ack(RTT, 4000, false), 20_000);
            }
            assert_eq!(t.ack(RTT, 4000, true), after, "{arithmetic:?}");
        }
    }

    /// `tcp_vegas_cwnd_event` with `CA_EVENT_TX_START`: 60 ms are 20 queued packets beside a base of 30 ms, and none beside 60 ms.
    #[test]
    fn with_linux_arithmetic_the_base_is_learnt_anew_when_data_leave_with_nothing_in_flight() {
        for (left, after) in [(4000, 19_000), (0, 21_000)] {
            let mut t = Idler::new(Arithmetic::Linux, 20_000, Bytes::new(20_000));
            for _ in 0..2 {
                t.ack(RTT, 4000, false);
            }
            t.ack(RTT, left, true);
            t.control.cwnd = Bytes::new(20_000);
            for ends in [false, false, true] {
                t.ack(RTT * 2, 4000, ends);
            }
            assert_eq!(t.control.cwnd.get(), after, "{left} bytes in flight");
        }
    }

    /// An ACK of one packet up to `acked`.
    fn of_a_packet(acked: u64, app_limited: bool) -> Event {
        let mss = Bytes::new(1000);
        Event::Ack(Ack {
            acked: mss,
            delivered: mss,
            lost: Bytes::ZERO,
            marked: Bytes::ZERO,
            rtt: Some(RTT),
            sample: None,
            app_limited,
            round: acked,
            reordered: false,
        })
    }

    /// `tcp_vegas_state`: while a loss is suspected each ACK counts as in Reno, and a round begins when that ends.
    #[test]
    fn with_linux_arithmetic_reno_decides_while_a_loss_is_suspected() {
        let mss = Bytes::new(1000);
        let mut t = Idler::new(Arithmetic::Linux, 4000, Bytes::new(4000));
        let mut windows = Vec::new();
        // 40 ms beside a base of 30 ms would be one queued packet, for which Vegas adds one each round.
        for (n, open) in [true, false, false, false, false, true, true, true, true].into_iter().enumerate() {
            let acked = 1001 + 1000 * u64::try_from(n).expect("a few");
            t.cc.counted(&AckCount { acked, sent: acked + 3000, packets: 1, marked: false });
            let view = View { flight: mss * 4, open, ..View::start(mss, t.control) };
            t.control = t.cc.on(&view, &of_a_packet(acked, false));
            windows.push(t.control.cwnd / mss);
        }
        // The first ACK ends a round with one sample and counts as in Reno, too. The round that begins with the sixth ACK ends with the last.
        assert_eq!(windows, [4, 4, 4, 5, 5, 5, 5, 5, 5]);
    }

    /// `vegas_enable`: after a recovery a round begins with what is sent next, and its end is an ACK of such data (`beg_snd_nxt`).
    #[test]
    fn with_linux_arithmetic_vegas_decides_after_a_timeout_whose_retransmission_leaves_with_nothing_in_flight()
     {
        let mss = Bytes::new(1000);
        let mut t = Idler::new(Arithmetic::Linux, 4000, Bytes::new(4000));
        t.cc.counted(&AckCount { acked: 1001, sent: 9001, packets: 1, marked: false });
        let view = View { flight: mss * 4, ..View::start(mss, t.control) };
        t.control = t.cc.on(&view, &Event::Timeout { flight: mss * 4, again: false });
        assert_eq!((t.control.cwnd, t.control.ssthresh), (mss, mss * 2));
        let mut windows = Vec::new();
        for acked in [2001, 3001, 4001, 5001, 6001] {
            t.cc.counted(&AckCount { acked, sent: 9001, packets: 1, marked: false });
            let view = View { flight: mss, open: false, ..View::start(mss, t.control) };
            t.control = t.cc.on(&view, &of_a_packet(acked, false));
            windows.push(t.control.cwnd / mss);
        }
        assert_eq!(windows, [2, 2, 2, 2, 2], "its round is not over; Reno would add a packet for every two");
    }

    #[test]
    fn with_linux_arithmetic_a_round_after_a_recovery_ends_with_an_ack_of_what_was_sent_after_it() {
        let mut t = Idler::new(Arithmetic::Linux, 20_000, Bytes::new(20_000));
        let mss = Bytes::new(1000);
        let view = View { flight: mss * 4, ..View::start(mss, t.control) };
        t.cc.counted(&AckCount { acked: 5001, sent: 9001, packets: 1, marked: false });
        let reduced = t.cc.on(&view, &Event::Congestion { cause: Cause::Loss, flight: mss * 20 });
        let view = View { control: reduced, ..view };
        t.control = t.cc.on(&view, &Event::RecoveryExit { spurious: false, exit: Bytes::MAX });
        assert_eq!(t.control.cwnd, mss * 10);
        let mut windows = Vec::new();
        // The ACK that ends the recovery brings no sample of the round, so that its first end has two; the next one has three.
        let acks = [
            (5001, 9001),
            (9001, 12_001),
            (10_001, 13_001),
            (12_001, 14_001),
            (13_001, 15_001),
            (14_001, 16_001),
        ];
        for (acked, sent) in acks {
            t.cc.counted(&AckCount { acked, sent, packets: 1, marked: false });
            let view = View { flight: mss * 4, limited: Limited::App, ..View::start(mss, t.control) };
            t.control = t.cc.on(&view, &of_a_packet(acked, true));
            windows.push(t.control.cwnd / mss);
        }
        assert_eq!(windows, [10, 10, 10, 10, 10, 11]);
    }
}
