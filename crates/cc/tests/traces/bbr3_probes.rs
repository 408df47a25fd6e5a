//! The probes of BBR version 3 for bandwidth: the cycle of `ProbeBW`, its times, and the long-term bound (draft-ietf-ccwg-bbr, sections
//! "`ProbeBW`" and "Probing for Bandwidth In `ProbeBW`").

use crate::bbr3_paths::{
    ack, cruising, cruising_at, limited_round, lossy, lossy_probe, probe_again, probing, rate, round,
    rounds_until_refill, sampled, send,
};
use crate::mutant::default;
use crate::rate_samples::inner;
use crate::trace::{MSS, Outcome, Sender, traces};
use tcpassay_cc::Cause;
use tcpassay_units::Bytes;

traces! { default("bbr3");

    /// `IsTimeToCruise`.
    fn cruise_follows_when_no_more_than_the_product_is_in_flight(t) {
        cruising(t);
        t.expect_inner("mode", 3.0)?;
        rate(t, 99_000)?;
        // Twice the product, and twelve segments that the last ACKs brought at once.
        t.expect(32_000, u64::MAX)?;
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

    /// `UpdateMaxBw`, `AdaptLongTermModel`: samples that the application limits do not end a cycle of the filter, and count only if they are larger.
    fn samples_that_the_application_limits_never_lower_the_bandwidth(t) {
        cruising(t);
        for _ in 0..60 {
            limited_round(t, 5);
        }
        t.expect_inner("max_bandwidth", 100_000.0)?;
        limited_round(t, 20);
        t.expect_inner("max_bandwidth", 200_000.0)?;
    }

    /// `AdvanceMaxBwFilter`: a cycle ends a round trip after its probe. The first one ended after Drain, with ten segments each round trip; the
    /// second one has eight.
    fn the_bandwidth_is_that_of_two_cycles(t) {
        cruising(t);
        for _ in 0..20 {
            let before = inner(t, "mode");
            round(t, 8, 8);
            t.expect_inner("max_bandwidth", 100_000.0)?;
            if before > 4.5 && inner(t, "mode") < 2.5 {
                break;
            }
        }
        t.expect_inner("mode", 2.0)?;
        round(t, 8, 8);
        t.expect_inner("max_bandwidth", 80_000.0)?;
    }

    /// `AdvanceMaxBwFilter`: a sample that the application limits does not end a cycle of the filter.
    fn a_sample_that_the_application_limits_ends_no_cycle_of_the_bandwidth(t) {
        cruising(t);
        for _ in 0..20 {
            let before = inner(t, "mode");
            round(t, 8, 8);
            if before > 4.5 && inner(t, "mode") < 2.5 {
                break;
            }
        }
        t.expect_inner("mode", 2.0)?;
        limited_round(t, 8);
        round(t, 8, 8);
        t.expect_inner("max_bandwidth", 100_000.0)?;
    }

    /// Cwnd gain of `ProbeBW_UP`, `QuantizationBudget`: 22.5 segments, the twelve that ACKs brought at once, and two.
    fn in_up_the_window_is_two_and_a_quarter_products_and_two_segments(t) {
        probing(t);
        round(t, 10, 10);
        t.expect_inner("mode", 5.0)?;
        t.expect(36_500, u64::MAX)?;
    }

    /// `IsTimeToProbeBW`: with a product of 200 segments by the clock, 2 to 3 s after the last probe.
    fn a_probe_of_a_long_path_follows_after_two_to_three_seconds(t) {
        cruising_at(t, 200, 100);
        let rounds = rounds_until_refill(t, 200, 100);
        if !(19..=31).contains(&rounds) {
            return Err(format!("{rounds} round trips of 100 ms"));
        }
    }

    /// `IsRenoCoexistenceProbeTime`: with a product of 100 segments and round trips of 10 ms a probe follows after 62 or 63 round trips, by the draw.
    fn a_probe_follows_after_63_round_trips_at_most(t) {
        t.rtt = 10_000;
        cruising_at(t, 100, 10);
        let rounds = rounds_until_refill(t, 100, 10);
        if !(59..=63).contains(&rounds) {
            return Err(format!("{rounds} round trips of 10 ms"));
        }
    }

    /// `InflightWithHeadroom`: of a bound of eight segments 85 % are 6,800 bytes. Down lasts until no more is in flight, and it is the window of
    /// Cruise. In Down the bound is.
    fn down_lasts_until_there_is_headroom_and_cruise_keeps_it(t) {
        lossy_probe(t, 8_000);
        t.expect_inner("inflight_longterm", 8_000.0)?;
        t.expect(8_000, u64::MAX)?;
        t.flight = 7_000;
        ack(t, 1, 8);
        t.expect_inner("mode", 2.0)?;
        t.expect(8_000, u64::MAX)?;
        t.flight = 6_800;
        ack(t, 1, 8);
        t.expect_inner("mode", 3.0)?;
        t.expect(6_800, u64::MAX)?;
    }

    /// `HandleInflightTooHigh`: the bound is not below 0.7 of the product.
    fn the_long_term_bound_is_at_least_seven_tenths_of_the_product(t) {
        lossy_probe(t, 5_000);
        t.expect_inner("inflight_longterm", 7_000.0)?;
    }

    /// `HandleInflightTooHigh`: a probe sets the bound once; further losses of it change nothing.
    fn a_probe_sets_the_long_term_bound_once(t) {
        lossy_probe(t, 20_000);
        let sent_at = send(t, 15_000);
        t.wait(10);
        lossy(t, 1, 3, sent_at);
        t.expect_inner("inflight_longterm", 20_000.0)?;
    }

    /// `HandleInflightTooHigh`: a probe that the application limits sets no bound.
    fn losses_of_a_probe_that_the_application_limits_set_no_bound(t) {
        probing(t);
        let sent_at = send(t, 20_000);
        t.wait(100);
        sampled(t, 10, 10, sent_at, |ack| {
            ack.lost = Bytes::new(3 * MSS);
            ack.app_limited = true;
        });
        t.expect_inner("mode", 2.0)?;
        t.expect_inner("inflight_longterm", 0.0)?;
    }

    /// `AdaptLongTermModel`: what was in flight without too much loss is safe.
    fn a_larger_flight_without_losses_raises_the_long_term_bound(t) {
        lossy_probe(t, 8_000);
        let sent_at = send(t, 9_000);
        t.wait(10);
        sampled(t, 1, 10, sent_at, |_| {});
        t.expect_inner("inflight_longterm", 9_000.0)?;
    }

    /// `RaiseInflightLongtermSlope`: while the window is the bound, a round trip raises it by one segment, the next by two, then by four.
    fn in_up_the_long_term_bound_grows_by_one_two_and_four_segments(t) {
        lossy_probe(t, 8_000);
        probe_again(t);
        t.expect_inner("mode", 5.0)?;
        t.expect(8_000, u64::MAX)?;
        for (acked, bound) in [(8, 9_000.0), (8, 11_000.0), (9, 15_000.0)] {
            t.expect_inner("mode", 5.0)?;
            round(t, acked, 8);
            t.expect_inner("inflight_longterm", bound)?;
        }
    }

    /// `IsTimeToGoDown`: as long as the bound limits the window, round trips without growth do not end the probe.
    fn a_probe_that_the_bound_limits_is_not_ended_by_a_rate_that_does_not_grow(t) {
        lossy_probe(t, 8_000);
        probe_again(t);
        // Eight ACKs a round trip: with most of them the window has caught up with the bound.
        for _ in 0..32 {
            t.wait(12);
            ack(t, 1, 8);
            t.expect_inner("mode", 5.0)?;
        }
    }

    /// Precautionary probing: after a probe with losses the next one ends when the bound is in flight, and if a round trip later nothing is lost,
    /// another begins at once, which stays at the bound.
    fn after_losses_a_probe_ends_at_the_bound_and_the_next_follows_at_once(t) {
        lossy_probe(t, 8_000);
        probe_again(t);
        t.expect_inner("mode", 5.0)?;
        let sent_at = send(t, 7_999);
        sampled(t, 1, 8, sent_at, |_| {});
        t.expect_inner("mode", 5.0)?;
        let sent_at = send(t, 8_000);
        sampled(t, 1, 8, sent_at, |_| {});
        t.expect_inner("mode", 2.0)?;
        round(t, 8, 8);
        t.expect_inner("mode", 4.0)?;
        round(t, 8, 8);
        t.expect_inner("mode", 5.0)?;
        let sent_at = send(t, 9_000);
        sampled(t, 1, 8, sent_at, |_| {});
        t.expect_inner("mode", 5.0)?;
    }

    /// Precautionary probing: if the short probe also loses too much, the next one does not follow at once.
    fn losses_of_a_probe_that_ended_at_the_bound_delay_the_next_one(t) {
        lossy_probe(t, 8_000);
        probe_again(t);
        let sent_at = send(t, 8_000);
        ack(t, 1, 8);
        t.expect_inner("mode", 2.0)?;
        t.flight = 7_500;
        lossy(t, 1, 3, sent_at);
        t.expect_inner("mode", 2.0)?;
        round(t, 8, 8);
        t.expect_inner("mode", 2.0)?;
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
}
