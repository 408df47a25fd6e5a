//! BBR version 3, by draft-ietf-ccwg-bbr. Ten segments of 1000 bytes each 100 ms are 100,000 bytes a second; the product is ten segments.

use crate::mutant::{Mishears, default, with};
use crate::rate_samples::{self, inner, paced, sample};
use crate::trace::{MSS, Outcome, Sender, caught, traces, unharmed};
use tcpassay_cc::{Ack, Cause, Event, Limited, View};
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

    /// ... or after three round trips.
    fn drain_ends_after_three_round_trips(t) {
        filled(t);
        for _ in 0..3 {
            round(t, 10, 10);
            t.expect_inner("mode", 1.0)?;
        }
        round(t, 10, 10);
        t.expect_inner("mode", 2.0)?;
    }

    /// `IsTimeToCruise`.
    fn cruise_follows_when_no_more_than_the_product_is_in_flight(t) {
        cruising(t);
        t.expect_inner("mode", 3.0)?;
        rate(t, 99_000)?;
        // Twice the product, and twelve segments that the last ACKs brought at once.
        t.expect(32_000, u64::MAX)?;
    }

    /// `UpdateMinRTT`.
    fn a_smaller_round_trip_time_is_taken_at_once(t) {
        cruising(t);
        t.rtt = 50_000;
        ack(t, 1, 10);
        t.expect_inner("min_rtt", 0.05)?;
    }

    /// `IsRenoCoexistenceProbeTime`: after as many round trips as segments are the product, ten; nine or ten from a draw. Then a round trip
    /// of Refill at the bandwidth, and Up with a quarter more.
    fn a_probe_follows_after_as_many_round_trips_as_the_product_has_segments(t) {
        cruising(t);
        let mut rounds = 0;
        while inner(t, "mode") < 3.5 && rounds < 20 {
            round(t, 10, 10);
            rounds += 1;
        }
        if !(7..=10).contains(&rounds) {
            return Err(format!("{rounds} round trips"));
        }
        t.expect_inner("mode", 4.0)?;
        rate(t, 99_000)?;
        round(t, 10, 10);
        t.expect_inner("mode", 5.0)?;
        rate(t, 123_750)?;
    }

    /// `IsTimeToGoDown`: three round trips without a quarter more end the probe.
    fn a_probe_ends_when_the_rate_does_not_grow(t) {
        probing(t);
        for _ in 0..2 {
            round(t, 10, 10);
            t.expect_inner("mode", 5.0)?;
        }
        round(t, 10, 10);
        t.expect_inner("mode", 2.0)?;
        rate(t, 89_100)?;
    }

    /// `HandleInflightTooHigh`: three segments lost of twenty in flight are more than 2 %; what was in flight is the bound, and Down follows.
    fn losses_of_a_probe_set_the_long_term_bound(t) {
        probing(t);
        let sent_at = send(t, 20_000);
        t.wait(100);
        lossy(t, 10, 3, sent_at);
        t.expect_inner("mode", 2.0)?;
        t.expect_inner("inflight_longterm", 20_000.0)?;
    }

    /// Of 400 segments in flight, 8 lost are 2 %, which is not more.
    fn two_per_cent_are_not_too_much(t) {
        probing(t);
        let sent_at = send(t, 400_000);
        t.wait(100);
        lossy(t, 10, 8, sent_at);
        t.expect_inner("mode", 5.0)?;
        t.expect_inner("inflight_longterm", 0.0)?;
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

    /// `HandleSpuriousLossDetection`: back to Refill, without the bound.
    fn an_undo_restores_the_bounds_and_probes_again(t) {
        probing(t);
        let sent_at = send(t, 20_000);
        t.wait(100);
        t.enter(Cause::Loss, 20_000);
        lossy(t, 10, 3, sent_at);
        t.expect_inner("mode", 2.0)?;
        t.undo();
        t.expect_inner("mode", 4.0)?;
        t.expect_inner("inflight_longterm", 0.0)?;
    }

    /// `HandleRestartFromIdle`.
    fn after_a_pause_of_the_application_the_rate_is_the_bandwidth(t) {
        probing(t);
        rate(t, 123_750)?;
        t.flight = 1_000;
        t.tell(Event::Sent { bytes: Bytes::new(1_000), app_limited: true });
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

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn signals(bytes: u64) -> f64 {
    bytes as f64
}

/// Asserts a pacing rate in bytes per second.
#[track_caller]
fn rate(t: &Sender, expected: u64) -> Outcome {
    paced(t, expected, 1)
}

/// Sends a segment now, after which `flight` bytes are in flight.
fn send(t: &mut Sender, flight: u64) -> Time {
    t.flight = flight;
    t.tell(Event::Sent { bytes: Bytes::new(MSS), app_limited: false });
    t.view.now
}

fn sampled(t: &mut Sender, acked: u64, delivered: u64, sent_at: Time, change: impl FnOnce(&mut Ack)) {
    rate_samples::sampled(t, acked, sample(delivered, 100_000, sent_at), change);
}

/// An ACK with a sample of `delivered` segments in 100 ms.
fn ack(t: &mut Sender, acked: u64, delivered: u64) {
    sampled(t, acked, delivered, Time::ZERO, |_| {});
}

fn lossy(t: &mut Sender, acked: u64, lost: u64, sent_at: Time) {
    sampled(t, acked, 10, sent_at, |ack| ack.lost = Bytes::new(lost * MSS));
}

fn round(t: &mut Sender, acked: u64, delivered: u64) {
    t.wait(100);
    ack(t, acked, delivered);
}

/// The pipe is full, 40 segments are in flight.
fn filled(t: &mut Sender) {
    t.flight = 40_000;
    for _ in 0..4 {
        round(t, 10, 10);
    }
}

/// In Cruise, with ten segments in flight.
fn cruising(t: &mut Sender) {
    filled(t);
    t.flight = 10_000;
    ack(t, 1, 10);
    ack(t, 1, 10);
}

/// In Up, with ten segments in flight.
fn probing(t: &mut Sender) {
    cruising(t);
    for _ in 0..20 {
        if inner(t, "mode") > 4.5 {
            break;
        }
        round(t, 10, 10);
    }
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(default("bbr3"), |_, _, _| {}));
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
        caught(TRACES, || with("bbr3", name, value));
    }
}

#[test]
fn a_controller_that_ignores_an_input_is_caught() {
    let faults: [fn(&mut View, &mut Event, &mut u64); 6] = [
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
        caught(TRACES, || Mishears::boxed(default("bbr3"), fault));
    }
}
