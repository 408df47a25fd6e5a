//! Vegas, by the arithmetic of Linux `tcp_vegas.c`: `diff = cwnd * (rtt - base) / base` packets, rounded down, with
//! the smallest round-trip time of the round; below alpha = 2 one more, above beta = 4 one less, above gamma = 1 out
//! of slow start to `cwnd * base / rtt + 1`. The base is 100 ms throughout.

use crate::mutant::{self, Mishears, Twisted, default, windowed, with};
use crate::trace::{MSS, Outcome, Sender, caught, traces, unharmed};
use tcpassay_cc::{Ack, Cause, Event, Params, Vegas, View, WindowRule};
use tcpassay_units::{Bytes, Dur};

traces! { default("vegas");

    /// 20 * 9 / 100 = 1.8, so 1: fewer than alpha.
    fn below_alpha_the_window_grows_by_one_a_round_trip(t) {
        avoiding(t, 20_000);
        round(t, &[109, 109, 109]);
        t.expect(21_000, 20_000)?;
        round(t, &[109, 109, 109]);
        t.expect(22_000, 20_000)?;
    }

    /// 20 * 10 / 100 = 2 and 20 * 20 / 100 = 4: alpha and beta themselves are in between, and so is 24.9 ms: 4.98.
    fn from_alpha_to_beta_the_window_rests(t) {
        avoiding(t, 20_000);
        for rtt in [110, 115, 120, 124] {
            round(t, &[rtt, rtt, rtt]);
            t.expect(20_000, 20_000)?;
        }
    }

    /// 20 * 25 / 100 = 5: more than beta. ssthresh goes down with it, so that slow start does not resume.
    fn above_beta_the_window_shrinks_by_one_a_round_trip(t) {
        avoiding(t, 20_000);
        round(t, &[125, 125, 125]);
        t.expect(19_000, 19_000)?;
        // 19 * 30 / 100 = 5.7.
        round(t, &[130, 130, 130]);
        t.expect(18_000, 18_000)?;
    }

    /// 130, 110, 150 ms: 110 decides, 2 packets. By the mean it would be 6, by the last 10.
    fn the_smallest_round_trip_time_of_the_round_decides(t) {
        avoiding(t, 20_000);
        round(t, &[130, 110, 150]);
        t.expect(20_000, 20_000)?;
    }

    /// One adjustment a round trip: 20 ACKs in one round add nothing before its end.
    fn inside_a_round_nothing_changes(t) {
        avoiding(t, 20_000);
        t.acks(20);
        t.expect(20_000, 20_000)?;
        round(t, &[100]);
        t.expect(21_000, 20_000)?;
    }

    /// Two samples of 200 ms would say 20 packets; three do.
    fn two_samples_a_round_are_not_trusted(t) {
        avoiding(t, 20_000);
        round(t, &[200, 200]);
        t.expect(20_000, 20_000)?;
        round(t, &[200, 200, 200]);
        t.expect(19_000, 19_000)?;
    }

    /// Without enough samples the ACK that ends a round counts as Reno's: one for each of 20 rounds, with the one that
    /// `avoiding` told, is a window of 21 segments at the 20th.
    fn with_one_ack_a_round_growth_is_renos(t) {
        avoiding(t, 21_000);
        for _ in 0..19 {
            round(t, &[100]);
        }
        t.expect(21_000, 21_000)?;
        round(t, &[100]);
        t.expect(22_000, 21_000)?;
    }

    /// At 22 segments 22 * 4 / 100 = 0.88 packets: slow start goes on and adds one with each ACK.
    fn slow_start_goes_on_with_a_packet_queued(t) {
        t.put(19_000, u64::MAX);
        t.acks(1);
        round(t, &[104, 104, 104]);
        t.expect(23_000, u64::MAX)?;
        // 25 * 7 / 100 = 1.75, not more than gamma.
        round(t, &[107, 107, 107]);
        t.expect(26_000, u64::MAX)?;
    }

    /// At the end of the round 22 segments: 22 * 10 / 100 = 2.2, more than gamma. 22 * 100 / 110 = 20, and one.
    fn slow_start_ends_with_the_window_that_the_path_holds_and_one(t) {
        t.put(19_000, u64::MAX);
        t.acks(1);
        round(t, &[110, 110, 110]);
        t.expect(21_000, 21_000)?;
    }

    /// The round in which a recovery ended does not count; the next one says 10 * 100 / 100 = 10 packets.
    fn after_a_recovery_a_whole_round_of_samples_is_awaited(t) {
        avoiding(t, 20_000);
        t.lose();
        t.expect(10_000, 10_000)?;
        round(t, &[200, 200, 200]);
        t.expect(10_000, 10_000)?;
        round(t, &[200, 200, 200]);
        t.expect(9_000, 9_000)?;
    }

    /// The path may have changed: 200 ms is the base now, and nothing is queued.
    fn after_idle_the_base_is_learnt_anew(t) {
        avoiding(t, 20_000);
        let restart = Bytes::new(20_000);
        t.tell(Event::Resume { idle: Dur::from_secs(5), rto: Dur::from_secs(1), restart });
        round(t, &[200, 200, 200]);
        round(t, &[200, 200, 200]);
        t.expect(21_000, 20_000)?;
    }

    /// 2 * 300 / 100 = 6 packets, but two segments stay.
    fn two_segments_stay(t) {
        avoiding(t, 2_000);
        round(t, &[400, 400, 400]);
        t.expect(2_000, 2_000)?;
    }

    /// A loss is processed as in Reno.
    fn a_loss_halves_the_flight(t) {
        avoiding(t, 20_000);
        t.enter(Cause::Loss, 16_000);
        t.expect(8_000, 8_000)?;
    }

    /// Measured on every ACK, decided only when the window limits: unused windows stay.
    fn a_window_that_is_not_used_is_not_judged(t) {
        avoiding(t, 20_000);
        t.limited(tcpassay_cc::Limited::App);
        round(t, &[100, 100, 100]);
        t.expect(20_000, 20_000)?;
    }
}

/// In congestion avoidance with a base of 100 ms; a round has just begun.
pub fn avoiding(t: &mut Sender, cwnd: u64) {
    t.put(cwnd, cwnd);
    t.rtt = 100_000;
    t.acks(1);
}

/// ACKs with these samples in milliseconds; the last one ends the round.
pub fn round(t: &mut Sender, samples: &[u64]) {
    for (i, ms) in samples.iter().enumerate() {
        if i + 1 == samples.len() {
            t.next_round();
        }
        t.rtt = ms * 1000;
        t.ack(MSS);
    }
}

fn vegas() -> Twisted<Vegas> {
    Twisted::new(Vegas::new(&mutant::values::<Vegas>(), &Params::default()))
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(windowed(vegas()), |_, _, _| {}));
}

#[test]
fn a_vegas_that_takes_the_largest_round_trip_time_is_caught() {
    // Samples are withheld to the end of the round, and then the largest is told three times.
    let largest = || {
        windowed(Twisted {
            observe: |r: &mut Vegas, v, ack| {
                if ack.rtt.is_some() {
                    for _ in 0..3 {
                        r.observe(v, &Ack { round: ack.round - 1, ..*ack });
                    }
                }
                r.observe(v, &Ack { rtt: None, ..*ack });
            },
            ..vegas()
        })
    };
    caught(TRACES, || {
        Mishears::boxed(largest(), |_, event, memory| {
            let Event::Ack(ack) = event else { return };
            // Round in the high half, the largest sample in the low half.
            let sample = ack.rtt.map_or(0, Dur::as_micros).max(*memory & 0xffff_ffff);
            let ends = ack.round != *memory >> 32;
            ack.rtt = ends.then(|| Dur::from_micros(sample));
            *memory = ack.round << 32 | if ends { 0 } else { sample };
        })
    });
}

#[test]
fn a_vegas_that_takes_the_smoothed_round_trip_time_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(default("vegas"), |view, event, smoothed| {
            let Event::Ack(Ack { rtt: Some(rtt), .. }) = event else { return };
            *smoothed = if *smoothed == 0 { rtt.as_nanos() } else { (*smoothed * 7 + rtt.as_nanos()) / 8 };
            view.srtt = Some(Dur::from_nanos(*smoothed));
            *rtt = Dur::from_nanos(*smoothed);
        })
    });
}

#[test]
fn a_vegas_that_judges_with_every_ack_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            grow: |r: &mut Vegas, v, n| {
                let window = r.grow(v, n);
                if window == v.control.cwnd { window + v.mss } else { window }
            },
            ..vegas()
        })
    });
}

#[test]
fn a_vegas_that_trusts_one_sample_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            observe: |r: &mut Vegas, v, a| {
                r.observe(v, &Ack { round: a.round - 1, ..*a });
                r.observe(v, &Ack { round: a.round - 1, ..*a });
                r.observe(v, a);
            },
            ..vegas()
        })
    });
}

#[test]
fn a_vegas_with_other_bounds_is_caught() {
    for (param, value) in
        [("alpha", 1.0), ("alpha", 3.0), ("beta", 3.0), ("beta", 5.0), ("gamma", 0.0), ("gamma", 2.0)]
    {
        caught(TRACES, || with("vegas", param, value));
    }
}

#[test]
fn a_vegas_that_stays_in_slow_start_is_caught() {
    caught(TRACES, || windowed(Twisted { leave_slow_start: |_, _| None, ..vegas() }));
}

#[test]
fn a_vegas_that_leaves_slow_start_with_half_its_window_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            leave_slow_start: |r: &mut Vegas, v| r.leave_slow_start(v).map(|_| v.control.cwnd / 2),
            ..vegas()
        })
    });
}

#[test]
fn a_vegas_that_uses_samples_from_before_idle_or_recovery_is_caught() {
    caught(TRACES, || windowed(Twisted { reset: |_, _, _| {}, ..vegas() }));
}

#[test]
fn a_vegas_that_grows_an_unused_window_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(default("vegas"), |view: &mut View, _, _| view.limited = tcpassay_cc::Limited::Cwnd)
    });
}
