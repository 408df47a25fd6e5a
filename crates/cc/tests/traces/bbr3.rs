//! BBR version 3, by draft-ietf-ccwg-bbr. Ten segments of 1000 bytes each 100 ms are 100,000 bytes a second; the product is ten segments.

use crate::bbr3_paths::{
    ack, cruising, filled, limited_round, lossy, probing, rate, round, sampled, send, signals, startup_losses,
};
use crate::bbr3_probes;
use crate::mutant::{Mishears, default, with};
use crate::rate_samples::inner;
use crate::trace::{MSS, Outcome, Sender, Trace, caught, traces, unharmed};
use tcpassay_cc::{Cause, Event, Limited, View};
use tcpassay_units::{Bytes, Dur, Time};

traces! { default("bbr3");

    /// `InitPacingRate`: 2.77 initial windows each round trip.
    fn before_any_sample_the_rate_is_277_hundredths_of_the_initial_window(t) {
        t.expect(10_000, u64::MAX)?;
        rate(t, 277_000)?;
    }

    /// Twenty segments in 100 ms: 2.77 * 200,000 * 0.99.
    fn in_startup_the_rate_follows_the_bandwidth_with_a_gain_of_277_hundredths(t) {
        round(t, 10, 10);
        rate(t, 277_000)?;
        t.expect(20_000, u64::MAX)?;
        round(t, 20, 20);
        rate(t, 548_460)?;
    }

    /// `CheckFullBWReached`: the second, third and fourth round trip of ten segments bring no quarter more. Drain: half of the bandwidth.
    fn three_round_trips_without_a_quarter_more_end_startup(t) {
        t.flight = 40_000;
        for _ in 0..3 {
            round(t, 10, 10);
            t.expect_inner("mode", 0.0)?;
        }
        round(t, 10, 10);
        t.expect_inner("mode", 1.0)?;
        rate(t, 49_500)?;
    }

    /// `CheckDrainDone`: until the product is in flight, which is ten segments; with no more in flight Down is over at once.
    fn drain_ends_when_the_product_is_in_flight(t) {
        filled(t);
        t.flight = 11_000;
        ack(t, 1, 10);
        t.expect_inner("mode", 1.0)?;
        t.flight = 10_000;
        ack(t, 1, 10);
        t.expect_inner("mode", 3.0)?;
        rate(t, 99_000)?;
    }

    /// `CheckDrainDone`: Drain lasts three round trips at most.
    fn drain_ends_after_three_round_trips(t) {
        filled(t);
        for _ in 0..3 {
            round(t, 10, 10);
            t.expect_inner("mode", 1.0)?;
        }
        round(t, 10, 10);
        t.expect_inner("mode", 2.0)?;
    }

    /// `UpdateMinRTT`.
    fn a_smaller_round_trip_time_is_taken_at_once(t) {
        cruising(t);
        t.rtt = 50_000;
        ack(t, 1, 10);
        t.expect_inner("min_rtt", 0.05)?;
    }

    /// `LossLowerBounds`, once for each round trip with a loss: the largest delivery of the round trip, or 0.7 of the bound before. In the
    /// first round trip ten segments were delivered, in the second five.
    fn losses_while_cruising_lower_the_short_term_bounds(t) {
        cruising(t);
        let first = (signals(t.cwnd()) * 0.7).floor().max(10_000.0);
        for _ in 0..2 {
            let sent_at = send(t, 10_000);
            t.wait(100);
            sampled(t, 5, 5, sent_at, |ack| ack.lost = Bytes::new(MSS));
            round(t, 5, 5);
        }
        t.expect_inner("bandwidth", 70_000.0)?;
        t.expect_inner("inflight_shortterm", (first * 0.7).floor().max(5_000.0))?;
        t.expect_inner("max_bandwidth", 100_000.0)?;
    }

    /// `CheckProbeRTT` every 5 s: half of the product, which is five segments, for 200 ms and a round trip.
    fn every_five_seconds_half_of_the_product_for_200_ms(t) {
        cruising(t);
        t.limited(Limited::App);
        t.wait(4_900);
        ack(t, 1, 10);
        t.flight = 5_000;
        for _ in 0..3 {
            t.wait(100);
            ack(t, 1, 10);
        }
        t.expect_inner("mode", 6.0)?;
        t.expect(5_000, u64::MAX)?;
        round(t, 5, 5);
        t.wait(200);
        round(t, 5, 5);
        t.expect_inner("mode", 3.0)?;
    }

    /// `CheckStartupHighLoss`: six ACKs that report losses in a round trip of recovery, 2 % lost.
    fn six_losses_in_a_round_trip_of_recovery_end_startup(t) {
        round(t, 10, 10);
        round(t, 20, 20);
        round(t, 10, 10);
        t.enter(Cause::Loss, 20_000);
        let sent_at = send(t, 20_000);
        for _ in 0..6 {
            lossy(t, 1, 1, sent_at);
            t.expect_inner("mode", 0.0)?;
        }
        t.flight = 60_000;
        t.wait(100);
        lossy(t, 20, 1, sent_at);
        t.expect_inner("mode", 1.0)?;
        t.expect_inner("full", 1.0)?;
        // The product is more than what was delivered in the round trip.
        t.expect_inner("inflight_longterm", 20_000.0)?;
    }

    /// `CheckStartupHighLoss`: five ACKs that report losses are too few.
    fn five_losses_in_a_round_trip_of_recovery_do_not_end_startup(t) {
        round(t, 10, 10);
        round(t, 20, 20);
        t.enter(Cause::Loss, 20_000);
        startup_losses(t, 4);
        t.expect_inner("mode", 0.0)?;
    }

    /// `CheckStartupHighLoss`: losses count only in a recovery.
    fn losses_without_a_recovery_do_not_end_startup(t) {
        round(t, 10, 10);
        round(t, 20, 20);
        startup_losses(t, 6);
        t.expect_inner("mode", 0.0)?;
    }

    /// `HandleSpuriousLossDetection`: back to Startup, whose pipe is not full.
    fn an_undo_after_the_losses_of_startup_goes_back_to_startup(t) {
        round(t, 10, 10);
        round(t, 20, 20);
        t.enter(Cause::Loss, 20_000);
        startup_losses(t, 6);
        t.expect_inner("mode", 1.0)?;
        t.undo();
        t.expect_inner("mode", 0.0)?;
        t.expect_inner("full", 0.0)?;
        t.expect_inner("inflight_longterm", 0.0)?;
    }

    /// `CheckFullBWReached` ignores round trips that the application limits.
    fn round_trips_that_the_application_limits_do_not_end_startup(t) {
        round(t, 10, 10);
        for _ in 0..5 {
            limited_round(t, 5);
        }
        t.expect_inner("mode", 0.0)?;
        t.expect_inner("full", 0.0)?;
    }

    /// `UpdateMinRTT`: a longer round-trip time is taken when the shortest one is ten seconds old.
    fn the_shortest_round_trip_time_is_valid_for_ten_seconds(t) {
        cruising(t);
        t.rtt = 100_000;
        t.flight = 4_000;
        ack(t, 1, 10);
        t.rtt = 99_000;
        ack(t, 1, 10);
        t.rtt = 150_000;
        for _ in 0..98 {
            round(t, 10, 10);
            t.expect_inner("min_rtt", 0.099)?;
        }
        for _ in 0..4 {
            round(t, 10, 10);
        }
        t.expect_inner("min_rtt", 0.15)?;
    }

    /// `CheckProbeRTT`: a pause of the application is as good as `ProbeRTT`.
    fn after_a_pause_of_the_application_there_is_no_probe_of_the_round_trip_time(t) {
        cruising(t);
        t.wait(6_000);
        t.flight = 1_000;
        t.tell(Event::Sent { bytes: Bytes::new(1_000), app_limited: true, idle: None });
        ack(t, 1, 10);
        t.expect_inner("mode", 4.0)?;
    }

    /// `ExitProbeRTT`: before the pipe was full, back to Startup.
    fn before_the_pipe_is_full_a_probe_of_the_round_trip_time_ends_in_startup(t) {
        round(t, 10, 10);
        t.wait(6_000);
        ack(t, 1, 10);
        t.expect_inner("mode", 6.0)?;
        t.flight = 4_000;
        ack(t, 1, 10);
        for wait in [100, 100] {
            t.wait(wait);
            ack(t, 4, 4);
            t.expect_inner("mode", 6.0)?;
        }
        t.wait(1);
        ack(t, 4, 4);
        t.expect_inner("mode", 0.0)?;
    }

    /// `ExitProbeRTT`: the short-term bounds are removed.
    fn a_probe_of_the_round_trip_time_resets_the_short_term_bounds(t) {
        cruising(t);
        t.wait(5_000);
        ack(t, 1, 1);
        t.expect_inner("mode", 6.0)?;
        let sent_at = send(t, 4_000);
        t.wait(50);
        sampled(t, 2, 2, sent_at, |ack| ack.lost = Bytes::new(MSS));
        t.wait(50);
        ack(t, 4, 4);
        if inner(t, "inflight_shortterm") < 1.0 {
            return Err("a loss sets the short-term bound".to_owned());
        }
        t.wait(151);
        ack(t, 4, 4);
        t.expect_inner("mode", 3.0)?;
        t.expect_inner("inflight_shortterm", 0.0)?;
    }

    /// `SaveCwnd`, `RestoreCwnd`, `BoundCwndForModel`: the end of a recovery restores the window of before, and the next ACK bounds it again.
    fn the_end_of_a_recovery_restores_the_window_within_the_bounds(t) {
        cruising(t);
        t.expect(32_000, u64::MAX)?;
        t.enter(Cause::Loss, 10_000);
        let sent_at = send(t, 10_000);
        t.wait(100);
        lossy(t, 5, 1, sent_at);
        round(t, 10, 10);
        t.expect(22_400, u64::MAX)?;
        t.leave();
        t.expect(32_000, u64::MAX)?;
        ack(t, 1, 10);
        t.expect(22_400, u64::MAX)?;
    }

    /// `UpdateACKAggregation`: what the last ACKs brought at once, twelve segments, counts for ten round trips. After a short
    /// silence each ACK brings ten.
    fn aggregated_acks_widen_the_window_for_ten_round_trips(t) {
        cruising(t);
        t.wait(50);
        for _ in 0..4 {
            round(t, 10, 10);
            t.expect(32_000, u64::MAX)?;
        }
    }

    /// `HandleSpuriousLossDetection`: the short-term bounds are those of before.
    fn an_undo_restores_the_short_term_bounds(t) {
        cruising(t);
        t.enter(Cause::Loss, 10_000);
        for _ in 0..2 {
            let sent_at = send(t, 10_000);
            t.wait(100);
            sampled(t, 5, 5, sent_at, |ack| ack.lost = Bytes::new(MSS));
            round(t, 5, 5);
        }
        t.expect_inner("bandwidth", 70_000.0)?;
        t.undo();
        t.expect_inner("bandwidth", 100_000.0)?;
        t.expect_inner("inflight_shortterm", 0.0)?;
    }

    /// `QuantizationBudget`: at one segment each round trip three super-segments of two are the target.
    fn the_window_is_at_least_three_super_segments(t) {
        t.flight = 40_000;
        for _ in 0..4 {
            round(t, 1, 1);
        }
        t.flight = 1_000;
        for _ in 0..40 {
            round(t, 1, 1);
        }
        t.expect(6_000, u64::MAX)?;
    }

    /// `OnEnterRTO`, `RestoreCwnd`.
    fn a_timeout_leaves_what_is_in_flight_and_a_segment_and_the_end_restores_the_window(t) {
        cruising(t);
        let before = t.cwnd();
        t.flight = 3_000;
        t.timeout(before, false);
        t.expect(4_000, u64::MAX)?;
        t.leave();
        t.expect(before, u64::MAX)?;
    }

    /// `HandleRestartFromIdle`.
    fn after_a_pause_of_the_application_the_rate_is_the_bandwidth(t) {
        probing(t);
        rate(t, 123_750)?;
        t.flight = 1_000;
        t.tell(Event::Sent { bytes: Bytes::new(1_000), app_limited: true, idle: None });
        rate(t, 99_000)?;
    }

    /// The draft has no response to marks.
    fn marks_change_nothing(t) {
        cruising(t);
        for _ in 0..3 {
            t.wait(100);
            sampled(t, 10, 10, Time::ZERO, |ack| ack.marked = Bytes::new(10_000));
        }
        t.expect_inner("inflight_shortterm", 0.0)?;
    }
}

/// With `ecn = 1`: everything marked for a round trip, alpha at first 1: a third less.
#[test]
fn with_the_response_to_marks_the_bound_shrinks() {
    let mut t = Sender::new(with("bbr3", "ecn", 1.0), 10 * MSS);
    cruising(&mut t);
    let cwnd = signals(t.cwnd());
    let alpha = inner(&t, "alpha");
    t.wait(100);
    sampled(&mut t, 10, 10, Time::ZERO, |ack| ack.marked = Bytes::new(10_000));
    assert!(inner(&t, "alpha") > alpha, "a round trip of marks");
    let bound = inner(&t, "inflight_shortterm");
    assert!(bound < cwnd && bound > cwnd / 2.0, "{bound} of {cwnd}");
}

/// The traces of this file and those of the probes.
fn all() -> Vec<(&'static str, Trace)> {
    [TRACES, bbr3_probes::TRACES].concat()
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(&all(), || Mishears::boxed(default("bbr3"), |_, _, _| {}));
}

#[test]
fn wrong_constants_are_caught() {
    for (name, value) in [
        ("loss_thresh", 0.2),
        ("loss_thresh", 0.01),
        ("beta", 0.6),
        ("cwnd_gain", 1.5),
        ("probe_rtt_interval", 10.0),
    ] {
        caught(&all(), || with("bbr3", name, value));
    }
}

#[test]
fn a_controller_that_ignores_an_input_is_caught() {
    let faults: [fn(&mut View, &mut Event, &mut u64); 8] = [
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.app_limited = false;
            }
        },
        |v, _, _| v.limited = Limited::App,
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.lost = Bytes::ZERO;
            }
        },
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.sample = None;
            }
        },
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.rtt = Some(Dur::from_millis(200));
            }
        },
        |_, e, _| {
            if let Event::RecoveryExit { spurious, .. } = e {
                *spurious = false;
            }
        },
        |_, e, _| {
            if let Event::Sent { app_limited, .. } = e {
                *app_limited = false;
            }
        },
        // What was in flight when it was sent.
        |v, e, _| {
            if matches!(e, Event::Sent { .. }) {
                v.flight = v.flight / 2;
            }
        },
    ];
    for fault in faults {
        caught(&all(), || Mishears::boxed(default("bbr3"), fault));
    }
}
