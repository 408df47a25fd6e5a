//! CUBIC as `tcp_cubic.c` of Linux 6.1 computes it.
//!
//! The numbers come from its integers, worked outside this code: `bic_scale` 41, `beta` 717, `beta_scale` 15, HZ 1000;
//! segments of 1000 bytes, `delay_min` 100 ms unless said. After a loss at 100 segments 100 * 717 / 1024 = 70 are left, and
//! `bic_K` is the root of (2^40 / 410) * 30, 4317.

use crate::mutant::Mishears;
use crate::trace::{Outcome, Sender, caught, traces};
use tcpassay_cc::{Arithmetic, Cause, Controller, Event, HystartDetect, HystartMode, Params, build};
use tcpassay_units::{Bytes, Dur};

const NEVER: u64 = u64::MAX;

fn linux() -> Box<dyn Controller> {
    let hystart = HystartMode::Linux(HystartDetect::ALL);
    build("cubic", &Params { hystart, arithmetic: Arithmetic::Linux, ..Params::default() }).unwrap()
}

traces! { linux();

    /// Targets 73, 91 (of 94: 73 / 21 = 3, a segment for each 3, and the 73 of the window), 100, 102.
    fn a_count_of_segments_leads_along_the_cubic(t) {
        t.put(100_000, 50_000);
        t.lose();
        t.expect(70_000, 70_000)?;
        let start = t.view.now;
        for (ms, window) in [(0, 73_000), (1_000, 91_000), (4_200, 100_000), (6_000, 102_000)] {
            t.at(start, ms);
            t.ack_window();
            t.expect(window, 70_000)?;
        }
        t.expect_inner("k", 4317.0 / 1024.0)?;
    }

    /// `cubictcp_cwnd_event`: at 4.2 s the epoch is 1.2 s old, the target 91; 73 / 18 = 4, a segment for each 4. With the pause it would
    /// be 110.
    fn the_first_transmission_after_a_pause_moves_the_epoch_by_the_time_without_transmissions(t) {
        t.put(100_000, 50_000);
        t.lose();
        let start = t.view.now;
        t.ack_window();
        t.expect(73_000, 70_000)?;
        t.at(start, 4_000);
        let idle = Some(Dur::from_secs(3));
        t.tell(Event::Sent { bytes: Bytes::new(1_000), app_limited: true, idle });
        t.at(start, 4_200);
        t.ack_window();
        t.expect(91_000, 70_000)?;
    }

    /// 70 * 717 / 1024 = 49, and 70 * 1741 / 2048 = 59.
    fn reductions_are_rounded_down_to_whole_segments(t) {
        t.put(100_000, 50_000);
        t.lose();
        t.lose();
        t.expect(49_000, 49_000)?;
        t.expect_inner("last_max_segments", 59.0)?;
    }

    /// Two are left, whatever it was.
    fn losses_and_marks_leave_two_segments(t) {
        t.put(2_000, 9_000);
        t.enter(Cause::Ecn, 2_000);
        t.leave();
        t.expect(2_000, 2_000)?;
    }

    /// A round trip of 10 ms: Reno's window is looked at after 31 ms without a change alone, so that 10 segments
    /// are reached after 50 ms and not after 30.
    fn reno_s_window_is_followed_when_the_count_is_made_anew(t) {
        t.rtt = 10_000;
        t.put(10_000, 5_000);
        t.lose();
        t.expect(7_000, 7_000)?;
        let start = t.view.now;
        let windows = [8, 8, 8, 8, 8, 11, 11, 11, 11, 11, 13];
        for (n, window) in (0..).zip(windows) {
            t.at(start, 10 * n);
            t.ack_window();
            t.expect(window * 1000, 7_000)?;
        }
    }

    /// Slow start ended without a loss: a segment for each 20.
    fn before_a_loss_the_window_grows_by_a_twentieth(t) {
        t.put(49_000, 50_000);
        t.acks(1);
        let start = t.view.now;
        for (ms, window) in [(0, 52), (100, 55), (200, 57), (300, 60)] {
            t.at(start, ms);
            t.ack_window();
            t.expect(window * 1000, 50_000)?;
        }
    }

    /// `tcp_reno_undo_cwnd`: the old maximum stays the one of the false loss.
    fn an_undo_restores_the_window_alone(t) {
        t.put(100_000, 200_000);
        t.enter(Cause::Loss, 100_000);
        t.undo();
        t.expect(100_000, 200_000)?;
        t.expect_inner("last_max_segments", 100.0)?;
    }

    /// A round of 20 segments with 1 ms between ACKs: (100 + 1) / 2 = 50.5 ms after its first ACK the train is
    /// too long, at the 52nd, when the window is 20 + 51 and 52 wait to be counted.
    fn a_long_train_of_acks_ends_slow_start(t) {
        t.put(20_000, NEVER);
        t.flight = 200_000;
        for _ in 0..52 {
            t.acks(1);
            t.wait(1);
        }
        t.expect(71_000, 71_000)?;
    }

    /// `hystart_update` lowers ssthresh before `cubictcp_cong_avoid` counts the segments of the same ACK. The first count is 20, of which this
    /// ACK is one: 19 further segments enlarge the window.
    fn the_ack_at_which_slow_start_ends_counts_in_congestion_avoidance(t) {
        t.put(20_000, NEVER);
        t.flight = 200_000;
        for _ in 0..52 {
            t.acks(1);
            t.wait(1);
        }
        for _ in 0..18 {
            t.acks(1);
        }
        t.expect(71_000, 71_000)?;
        t.acks(1);
        t.expect(72_000, 71_000)?;
    }
}

#[test]
fn a_clock_that_is_half_a_second_late_is_caught() {
    // Every event half a second late: the cubic is elsewhere.
    caught(TRACES, || {
        Mishears::boxed(linux(), |view, event, acks| {
            if let Event::Ack(_) = event {
                *acks += 1;
                if *acks > 1 {
                    view.now += Dur::from_millis(500);
                }
            }
        })
    });
}

#[test]
fn the_arithmetic_of_the_rfc_is_caught() {
    caught(TRACES, || build("cubic", &Params::default()).unwrap());
}

#[test]
fn a_cubic_that_counts_pauses_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(linux(), |_, event, _| {
            if let Event::Sent { idle, .. } = event {
                *idle = None;
            }
        })
    });
}
