//! CUBIC, by the equations of RFC 9438.
//!
//! The numbers: windows in segments of 1000 bytes, C = 0.4, beta = 0.7, RTT = 100 ms. An ACK for the whole window takes
//! the window all the way to its target, so that it reads `W_cubic(t + RTT)` (equation 1). After a loss at 100
//! segments: `W_max` = 100, `cwnd_epoch` = 70, K = cbrt(30 / 0.4) = cbrt(75) = 4.217163 s.
//! `W_cubic(t)` = 0.4 (t - K)^3 + 100, in bytes rounded down:
//! 72,083 at 0.1 s; 87,884 at 1.1; 96,204 at 2.1; 100,000 at 4.3; 102,669 at 6.1; 181,436 at 10.1.

use crate::mutant::{self, Mishears, Twisted, default, windowed, with};
use crate::trace::{Outcome, Sender, caught, traces, unharmed};
use tcpassay_cc::{Cause, Cubic, Event, Limited, Params, ResetReason, View, WindowRule};
use tcpassay_units::{Bytes, Dur};

traces! { default("cubic");

    /// Equation 1 at t = 0, 1, 4.2 and 6 s: concave, plateau, convex.
    fn the_window_is_concave_up_to_the_last_maximum_and_convex_beyond_it(t) {
        let start = lost_at_100(t);
        t.expect(70_000, 70_000)?;
        for (ms, window) in [(0, 72_083), (1_000, 87_884), (4_200, 100_000), (6_000, 102_669)] {
            t.at(start, ms);
            t.ack_window();
            t.expect(window, 70_000)?;
        }
        t.expect_inner("k", 4.217_163_326_508_746)?;
        t.expect_inner("w_max", 100_000.0)?;
    }

    /// Section 4.2: the target is at most 1.5 cwnd. After 72.08393 at 0 s, `W_cubic(10.1)` would be 181; 108.1259.
    fn the_target_is_at_most_one_and_a_half_windows(t) {
        let start = lost_at_100(t);
        t.ack_window();
        t.at(start, 10_000);
        t.ack_window();
        t.expect(108_125, 70_000)?;
    }

    /// Section 4.4: (target - cwnd) / cwnd for each segment: an ACK for a tenth of the window goes a tenth of the way
    /// from 70 to 72.08393.
    fn an_ack_moves_the_window_by_its_share_of_the_difference(t) {
        t.put(100_000, 50_000);
        t.lose();
        t.ack(7_000);
        t.expect(70_208, 70_000)?;
    }

    /// Equation 4: with 10 segments and an RTT of 10 ms Reno's estimate leads. alpha = 3 * 0.3 / 1.7 = 9/17 segments
    /// a window from 7, so 7 + 9m/17 after m windows, until it reaches the 10 of before at m = 6 (10.176); then one
    /// segment a window.
    fn in_the_reno_friendly_region_the_window_grows_by_alpha_and_by_one_beyond_the_prior_window(t) {
        t.view.srtt = Some(Dur::from_millis(10));
        t.put(10_000, 5_000);
        t.lose();
        for window in [7_529, 8_058, 8_588, 9_117, 9_647, 10_176, 11_176, 12_176] {
            t.ack_window();
            t.expect(window, 7_000)?;
            t.wait(10);
        }
    }

    /// Section 4.7: the second loss at 70, below `W_max` = 100, sets `W_max` to 70 * 1.7 / 2 = 59.5; cwnd is 49,
    /// K = cbrt(10.5 / 0.4) = 2.971961, and equation 1 gives 50.024 at 0.1 s, 56.876 at 1.1, 59.5008 at 3.1.
    fn a_loss_below_the_last_maximum_converges_fast(t) {
        t.put(100_000, 50_000);
        t.lose();
        t.lose();
        t.expect(49_000, 49_000)?;
        let start = t.view.now;
        for (ms, window) in [(0, 50_024), (1_000, 56_876), (3_000, 59_500)] {
            t.at(start, ms);
            t.ack_window();
            t.expect(window, 49_000)?;
        }
        t.expect_inner("w_max", 59_500.0)?;
        t.expect_inner("k", 2.971_960_976_381_565)?;
    }

    /// Section 4.7's other case: a loss above the last maximum remembers the window itself, 102.669, and leaves 0.7 of it.
    fn a_loss_above_the_last_maximum_remembers_the_window(t) {
        let start = lost_at_100(t);
        for ms in [0, 1_000, 4_200, 6_000] {
            t.at(start, ms);
            t.ack_window();
        }
        t.lose();
        t.expect(71_868, 71_868)?;
        t.expect_inner("w_max", 102_669.0)?;
    }

    /// Section 4.6 uses the flight size: 50 segments in flight under a window of 100 leave 35.
    fn a_loss_leaves_seven_tenths_of_the_flight(t) {
        t.put(100_000, 50_000);
        t.enter(Cause::Loss, 50_000);
        t.expect(35_000, 35_000)?;
    }

    /// Section 4.6: after a mark cwnd may be one segment, after a loss two; ssthresh is at least two.
    fn marks_reduce_down_to_one_segment_and_losses_to_two(t) {
        t.put(2_000, 9_000);
        t.enter(Cause::Ecn, 2_000);
        t.leave();
        t.expect(1_400, 2_000)?;
        t.put(1_000, 2_000);
        t.enter(Cause::Ecn, 1_000);
        t.leave();
        t.expect(1_000, 2_000)?;
        t.put(2_500, 2_000);
        t.lose();
        t.expect(2_000, 2_000)?;
    }

    /// Section 4.8: after the timeout at 100 slow start goes to ssthresh = 70; there K = 0 and `W_max` = 70. At 0 s
    /// the estimate 70 + 9/17 leads; at 2.9 s equation 1 gives 70 + 0.4 * 3^3 = 80.8.
    fn after_a_timeout_the_first_stage_starts_at_its_plateau(t) {
        t.put(100_000, 50_000);
        t.timeout(100_000, false);
        t.expect(1_000, 70_000)?;
        t.leave();
        t.acks(1);
        t.ack(68_000);
        t.expect(70_000, 70_000)?;
        let start = t.view.now;
        t.ack_window();
        t.expect(70_529, 70_000)?;
        t.at(start, 2_900);
        t.ack_window();
        t.expect(80_800, 70_000)?;
    }

    /// Section 4.10: slow start that ends without a loss (here at a threshold of 20) has no `W_max`: K = 0, `W_max` =
    /// `cwnd_prior` = 20, so the estimate grows by a whole segment to 21, and equation 1 gives 20 + 0.4 * 3^3 = 30.8.
    fn a_first_stage_without_a_loss_starts_at_its_plateau(t) {
        t.put(19_000, 20_000);
        t.acks(1);
        t.expect(20_000, 20_000)?;
        let start = t.view.now;
        t.ack_window();
        t.expect(21_000, 20_000)?;
        t.at(start, 2_900);
        t.ack_window();
        t.expect(30_800, 20_000)?;
    }

    /// Sections 4.2 and 5.8: nothing grows while the application limits, and t does not contain that time. The ACK at
    /// 8 s ends the limited time, so that one second later t = 1 s.
    fn time_limited_by_the_application_does_not_count(t) {
        let start = lost_at_100(t);
        t.ack_window();
        t.expect(72_083, 70_000)?;
        t.limited(Limited::App);
        t.at(start, 5_000);
        t.ack_window();
        t.expect(72_083, 70_000)?;
        t.limited(Limited::Cwnd);
        t.at(start, 8_000);
        t.ack_window();
        t.expect(72_083, 70_000)?;
        t.at(start, 9_000);
        t.ack_window();
        t.expect(87_884, 70_000)?;
    }

    /// Section 4.9.2: a false loss at 1.2 s gives window, threshold, `W_max`, K and t back: at 2 s, `W_cubic(2.1)`.
    fn a_false_loss_is_undone_and_the_old_stage_goes_on(t) {
        let start = lost_at_100(t);
        t.ack_window();
        t.at(start, 1_000);
        t.ack_window();
        t.at(start, 1_200);
        t.enter(Cause::Loss, 87_884);
        t.expect(61_519, 61_519)?;
        t.at(start, 1_400);
        t.undo();
        t.expect(87_884, 70_000)?;
        t.at(start, 2_000);
        t.ack_window();
        t.expect(96_204, 70_000)?;
    }

    /// After a restart from idle the stage is a new one with the old `W_max`: slow start to three quarters of 87.884
    /// (65.913), not below the threshold of 70; then K = cbrt(30 / 0.4) again.
    fn after_idle_a_new_stage_begins_with_the_old_maximum(t) {
        let start = lost_at_100(t);
        t.ack_window();
        t.at(start, 1_000);
        t.ack_window();
        t.at(start, 60_000);
        let restart = Bytes::new(10_000);
        t.tell(Event::Resume { idle: Dur::from_secs(59), rto: Dur::from_secs(1), restart });
        t.expect(10_000, 70_000)?;
        t.ack(60_000);
        t.expect(70_000, 70_000)?;
        t.ack_window();
        t.expect(72_083, 70_000)?;
    }
}

/// Recovered from a loss at 100 segments; the stage begins with the next ACK.
fn lost_at_100(t: &mut Sender) -> tcpassay_units::Time {
    t.put(100_000, 50_000);
    t.lose();
    t.view.now
}

fn cubic() -> Twisted<Cubic> {
    Twisted::new(Cubic::new(&mutant::values::<Cubic>(), &Params::default()))
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(windowed(cubic()), |_, _, _| {}));
}

#[test]
fn a_cubic_without_fast_convergence_is_caught() {
    caught(TRACES, || with("cubic", "fast_convergence", 0.0));
}

#[test]
fn a_cubic_that_halves_is_caught() {
    caught(TRACES, || with("cubic", "beta", 0.5));
}

#[test]
fn a_cubic_ten_times_as_aggressive_is_caught() {
    caught(TRACES, || with("cubic", "c", 4.0));
}

#[test]
fn a_cubic_that_does_not_look_a_round_trip_ahead_is_caught() {
    caught(TRACES, || {
        windowed(Twisted { grow: |r: &mut Cubic, v, n| r.grow(&View { srtt: None, ..*v }, n), ..cubic() })
    });
}

#[test]
fn a_cubic_whose_time_runs_while_the_application_limits_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            observe: |r: &mut Cubic, v, a| r.observe(&View { limited: Limited::Cwnd, ..*v }, a),
            ..cubic()
        })
    });
}

#[test]
fn a_cubic_that_keeps_its_maximum_over_a_timeout_is_caught() {
    caught(TRACES, || windowed(Twisted { reset: |_, _, _| {}, ..cubic() }));
}

#[test]
fn a_cubic_that_forgets_its_maximum_after_idle_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            reset: |r: &mut Cubic, v, why| {
                r.reset(v, if why == ResetReason::Idle { ResetReason::Timeout } else { why });
            },
            ..cubic()
        })
    });
}

#[test]
fn a_cubic_that_does_not_undo_its_maximum_is_caught() {
    caught(TRACES, || windowed(Twisted { undo: |_, _, _| {}, ..cubic() }));
}

#[test]
fn a_cubic_without_the_reno_friendly_region_is_caught() {
    // Its cubic curve alone: a flat start at the plateau would stay there for a while.
    let flat = |r: &mut Cubic, v: &View, n: Bytes| {
        let before = r.clone();
        let grown = r.grow(v, n);
        let estimate = |r: &Cubic| {
            r.internals().iter().find(|(name, _)| *name == "w_est").map(|(_, w)| Bytes::from_f64(*w))
        };
        if estimate(r).is_some_and(|w| grown <= w) {
            *r = before;
            return v.control.cwnd;
        }
        grown
    };
    caught(TRACES, || windowed(Twisted { grow: flat, ..cubic() }));
}

#[test]
fn a_cubic_that_counts_acks_instead_of_segments_is_caught() {
    caught(TRACES, || windowed(Twisted { grow: |r: &mut Cubic, v, n| r.grow(v, n.min(v.mss)), ..cubic() }));
}

#[test]
fn a_cubic_that_keeps_two_segments_after_marks_is_caught() {
    let two = |r: &mut Cubic, v: &View, cause, flight| r.reduce(v, cause, flight).max(v.mss * 2);
    caught(TRACES, || windowed(Twisted { reduce: two, ..cubic() }));
}
