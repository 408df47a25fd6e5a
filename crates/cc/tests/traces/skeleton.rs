//! The common behaviour of window-based controllers ([`Windowed`](tcpassay_cc::Windowed)), tested with Reno,
//! whose numbers are simple.

use crate::mutant::{Mishears, default};
use crate::trace::{Outcome, Sender, caught, traces};
use tcpassay_cc::{Arithmetic, ByteCounting, Cause, Control, Event, Limited, Params, View, build};
use tcpassay_units::{Bytes, Dur};

const NEVER: u64 = u64::MAX;

traces! { default("reno");

    /// RFC 5681 equation 2: every acknowledged segment adds one, so ten make twenty, and twenty make forty.
    fn slow_start_doubles_the_window_each_round_trip(t) {
        t.acks(10);
        t.expect(20_000, NEVER)?;
        t.acks(20);
        t.expect(40_000, NEVER)?;
    }

    /// From 12 segments an ACK for two reaches ssthresh at 12.5; the 1.5 segments left over count in congestion
    /// avoidance, where 11 more complete a window of 12.5.
    fn what_slow_start_has_left_at_ssthresh_counts_in_congestion_avoidance(t) {
        t.put(12_000, 12_500);
        t.ack(2_000);
        t.expect(12_500, 12_500)?;
        t.acks(10);
        t.expect(12_500, 12_500)?;
        t.acks(1);
        t.expect(13_500, 12_500)?;
    }

    /// RFC 3168 section 6.1.2: the ACK that reports a mark earns nothing, in slow start or after it, also when the reduction that
    /// it begins is told later. After a timeout it counts.
    fn an_ack_with_a_mark_does_not_raise_the_window(t) {
        t.put(10_000, NEVER);
        t.ack_with(2_000, |ack| ack.marked = Bytes::new(2_000));
        t.expect(10_000, NEVER)?;
        t.put(10_000, 8_000);
        t.ack_with(10_000, |ack| ack.marked = Bytes::new(1_000));
        t.expect(10_000, 8_000)?;
        t.ack(10_000);
        t.expect(11_000, 8_000)?;
        t.timeout(10_000, false);
        t.ack_with(1_000, |ack| ack.marked = Bytes::new(1_000));
        t.expect(2_000, 5_000)?;
    }

    /// ACKs of a recovery, also ones for a whole window, add nothing; nor does the ACK that ends it.
    fn the_window_rests_in_recovery(t) {
        t.put(20_000, 8_000);
        t.enter(Cause::Loss, 20_000);
        t.acks(20);
        t.expect(10_000, 10_000)?;
        t.leave();
        t.ack(20_000);
        t.expect(10_000, 10_000)?;
        t.ack(10_000);
        t.expect(11_000, 10_000)?;
    }

    /// RFC 6582's rule lets cwnd leave recovery at max(flight, MSS) + MSS, here two segments; the cumulative ACK for
    /// the whole window must not give it back in slow start. The next one counts.
    fn the_exit_rule_bounds_the_window_and_the_ack_that_ends_recovery_does_not_lift_it(t) {
        t.put(20_000, 8_000);
        t.enter(Cause::Loss, 20_000);
        t.leave_within(2_000);
        t.ack(20_000);
        t.expect(2_000, 10_000)?;
        t.ack(2_000);
        t.expect(4_000, 10_000)?;
    }

    /// RFC 5681 section 3.1: one segment, half the flight in ssthresh; then slow start, while losses are repaired, too.
    fn a_timeout_leaves_one_segment_and_slow_start_begins_again(t) {
        t.put(20_000, 8_000);
        t.timeout(20_000, false);
        t.expect(1_000, 10_000)?;
        t.acks(1);
        t.expect(2_000, 10_000)?;
        t.acks(2);
        t.expect(4_000, 10_000)?;
        t.leave();
        t.acks(1);
        t.expect(5_000, 10_000)?;
        t.acks(3);
        t.expect(8_000, 10_000)?;
    }

    /// RFC 5681 section 3.1: ssthresh is held constant when the retransmission is lost again.
    fn a_repeated_timeout_does_not_halve_again(t) {
        t.put(20_000, 8_000);
        t.timeout(20_000, false);
        t.timeout(20_000, true);
        t.timeout(20_000, true);
        t.expect(1_000, 10_000)?;
    }

    /// After progress a timeout is a new event: half of the four segments that slow start had reached.
    fn a_timeout_after_progress_halves_again(t) {
        t.put(20_000, 8_000);
        t.timeout(20_000, false);
        t.acks(3);
        t.expect(4_000, 10_000)?;
        t.timeout(17_000, false);
        t.expect(1_000, 2_000)?;
    }

    /// One window, one halving: a loss of 20 leaves 10, and the timeout of its retransmission leaves 10 again.
    fn a_timeout_in_a_recovery_does_not_halve_the_same_window_twice(t) {
        t.put(20_000, 8_000);
        t.enter(Cause::Loss, 20_000);
        t.timeout(20_000, false);
        t.expect(1_000, 10_000)?;
    }

    /// Slow start after a timeout counts what an ACK delivers: of ten segments acknowledged, SACK had reported nine.
    fn after_a_timeout_what_sack_had_reported_does_not_count(t) {
        t.put(20_000, 8_000);
        t.timeout(20_000, false);
        t.ack_with(10_000, |ack| ack.delivered = Bytes::new(1_000));
        t.expect(2_000, 10_000)?;
    }

    /// Restored as it was, and growth goes on with the next ACK.
    fn a_false_recovery_is_undone(t) {
        t.put(20_000, 15_000);
        t.enter(Cause::Loss, 20_000);
        t.acks(3);
        t.undo();
        t.expect(20_000, 15_000)?;
        t.ack(20_000);
        t.expect(21_000, 15_000)?;
    }

    /// The first slow start resumes, with no threshold.
    fn a_false_recovery_in_the_first_slow_start_is_undone_to_slow_start(t) {
        t.enter(Cause::Loss, 10_000);
        t.expect(5_000, 5_000)?;
        t.undo();
        t.expect(10_000, NEVER)?;
        t.acks(10);
        t.expect(20_000, NEVER)?;
    }

    /// Loss, then timeout, both false: what was before the first of them returns.
    fn a_false_recovery_with_a_timeout_in_it_is_undone_to_its_beginning(t) {
        t.put(20_000, 15_000);
        t.enter(Cause::Loss, 20_000);
        t.timeout(20_000, false);
        t.timeout(20_000, true);
        t.undo();
        t.expect(20_000, 15_000)?;
    }

    /// DSACKs come a round trip after the retransmission, mostly when the recovery is over: what it took is given back.
    fn a_recovery_proven_false_after_its_end_is_undone(t) {
        t.put(20_000, 15_000);
        t.enter(Cause::Loss, 20_000);
        t.leave();
        t.ack(20_000);
        t.ack(10_000);
        t.expect(11_000, 10_000)?;
        t.undo();
        t.expect(20_000, 15_000)?;
    }

    /// A second proof finds nothing more to undo.
    fn a_recovery_is_undone_once(t) {
        t.put(20_000, 15_000);
        t.enter(Cause::Loss, 20_000);
        t.undo();
        t.put(5_000, 4_000);
        t.undo();
        t.expect(5_000, 4_000)?;
    }

    /// A mark halved 20 to 10; the timeout that followed was false, the mark was not.
    fn a_false_timeout_after_a_mark_is_undone_to_the_marks_reduction(t) {
        t.put(20_000, 15_000);
        t.enter(Cause::Ecn, 20_000);
        t.timeout(20_000, false);
        t.expect(1_000, 10_000)?;
        t.undo();
        t.expect(10_000, 10_000)?;
    }

    /// With marks alone the ACK that ends the reduction counts: it is an ACK like any other.
    fn the_ack_that_ends_a_reduction_by_marks_counts(t) {
        t.put(20_000, 8_000);
        t.enter(Cause::Ecn, 20_000);
        t.acks(5);
        t.expect(10_000, 10_000)?;
        t.leave();
        t.ack(10_000);
        t.expect(11_000, 10_000)?;
    }

    /// When slow start after a timeout has grown beyond the window from before (3 segments), nothing is taken back.
    fn undo_never_lowers_the_window(t) {
        t.put(3_000, 64_000);
        t.timeout(3_000, false);
        t.expect(1_000, 2_000)?;
        t.acks(1);
        t.ack(2_000);
        t.ack(3_000);
        t.expect(4_000, 2_000)?;
        t.undo();
        t.expect(4_000, 64_000)?;
    }

    /// RFC 9293 and 7661: a window that is not used is not validated by ACKs, and so does not grow.
    fn the_window_does_not_grow_while_the_application_or_the_peer_limits_the_sender(t) {
        for by in [Limited::App, Limited::Rwnd] {
            t.put(20_000, 20_000);
            t.limited(by);
            t.acks(100);
            t.expect(20_000, 20_000)?;
        }
    }

    /// Linux `tcp_is_cwnd_limited`: in slow start twice what was in flight is allowed. With eight segments in flight
    /// before each ACK, the window goes from ten to sixteen and rests.
    fn slow_start_goes_to_twice_the_flight_while_the_application_limits(t) {
        t.flight = 7_000;
        t.limited(Limited::App);
        for window in [11_000, 12_000, 13_000, 14_000, 15_000, 16_000, 16_000, 16_000] {
            t.acks(1);
            t.expect(window, NEVER)?;
        }
    }

    /// RFC 5681 section 4.1 with RFC 2861's memory: the window restarts at ten segments, and ssthresh is three
    /// quarters of the 40 that were proven.
    fn after_idle_the_window_restarts_and_ssthresh_remembers_three_quarters(t) {
        t.put(40_000, 20_000);
        t.tell(resume(10_000));
        t.expect(10_000, 30_000)?;
    }

    /// When the data path keeps the window (its restart window is no smaller), nothing changes.
    fn after_idle_without_restart_nothing_changes(t) {
        t.put(40_000, 20_000);
        t.tell(resume(40_000));
        t.expect(40_000, 20_000)?;
    }

    /// A higher ssthresh is not lowered by a restart.
    fn a_restart_does_not_lower_ssthresh(t) {
        t.put(40_000, 64_000);
        t.tell(resume(10_000));
        t.expect(10_000, 64_000)?;
    }

    /// Flight counts what SACK reported; for that, more was sent than the window of ten: half of ten, not of sixteen.
    fn flight_beyond_the_window_does_not_soften_a_reduction(t) {
        t.put(10_000, 8_000);
        t.enter(Cause::Loss, 16_000);
        t.expect(5_000, 5_000)?;
    }

    /// A transmission does not change the state of the controller.
    fn sending_changes_nothing(t) {
        t.tell(Event::Sent { bytes: Bytes::new(1_000), app_limited: false, idle: None });
        t.expect(10_000, NEVER)?;
    }
}

fn resume(restart: u64) -> Event {
    Event::Resume { idle: Dur::from_secs(1), rto: Dur::from_millis(200), restart: Bytes::new(restart) }
}

fn counting(byte_counting: ByteCounting) -> Sender {
    Sender::new(build("reno", &Params { byte_counting, ..Params::default() }).unwrap(), 10_000)
}

/// Linux ends a recovery before it asks whether the window grows: of the twenty segments that the last ACK covers the four that it
/// delivers are four of the ten that the next one takes.
#[test]
fn with_the_arithmetic_of_linux_the_ack_that_ends_a_recovery_counts_what_it_delivers() {
    let params = Params { arithmetic: Arithmetic::Linux, ..Params::default() };
    let mut t = Sender::new(build("reno", &params).unwrap(), 20_000);
    t.put(20_000, 8_000);
    t.enter(Cause::Loss, 20_000);
    t.leave();
    t.ack_with(20_000, |ack| ack.delivered = Bytes::new(4_000));
    t.acks(5);
    t.expect(10_000, 10_000).unwrap();
    t.acks(1);
    t.expect(11_000, 10_000).unwrap();
}

/// RFC 5681 equation 2 without RFC 3465: at most one segment an ACK.
#[test]
fn counted_by_ack_a_delayed_ack_adds_one_segment() {
    let mut t = counting(ByteCounting::PerAck);
    t.ack(2_000);
    t.expect(11_000, NEVER).unwrap();
    t.ack(500);
    t.expect(11_500, NEVER).unwrap();
}

/// The same in congestion avoidance: ten ACKs for two segments each are ten of the twenty that a window needs.
#[test]
fn counted_by_ack_congestion_avoidance_is_half_as_fast_with_delayed_acks() {
    let mut t = counting(ByteCounting::PerAck);
    t.put(20_000, 20_000);
    for _ in 0..19 {
        t.ack(2_000);
    }
    t.expect(20_000, 20_000).unwrap();
    t.ack(2_000);
    t.expect(21_000, 20_000).unwrap();
}

/// RFC 3465 section 2.2 with L = 2: a stretch ACK for eight segments counts for two.
#[test]
fn counted_with_a_limit_a_stretch_ack_adds_two_segments() {
    let mut t = counting(ByteCounting::Limit(2));
    t.ack(8_000);
    t.expect(12_000, NEVER).unwrap();
    t.ack(2_000);
    t.expect(14_000, NEVER).unwrap();
}

/// RFC 3465 section 2.3: L is one segment in the slow start after a timeout; two again when that recovery is over.
#[test]
fn counted_with_a_limit_a_timeout_lowers_the_limit_to_one_until_recovery_ends() {
    let mut t = counting(ByteCounting::Limit(2));
    t.put(40_000, 40_000);
    t.timeout(40_000, false);
    t.ack(4_000);
    t.expect(2_000, 20_000).unwrap();
    t.leave();
    t.ack(1_000);
    t.ack(4_000);
    t.expect(5_000, 20_000).unwrap();
}

/// Asserts that a fault in the inputs of `Windowed` is detected.
#[track_caller]
fn caught_when(change: fn(&mut View, &mut Event, &mut u64)) {
    caught(TRACES, || Mishears::boxed(default("reno"), change));
}

#[test]
fn a_skeleton_that_grows_unused_windows_is_caught() {
    caught_when(|view, _, _| view.limited = Limited::Cwnd);
}

#[test]
fn a_skeleton_that_grows_no_window_short_of_its_limit_is_caught() {
    // Without the allowance of slow start.
    caught_when(|view, event, _| {
        if let (Event::Ack(ack), Limited::App) = (event, view.limited) {
            ack.acked = Bytes::ZERO;
        }
    });
}

#[test]
fn a_skeleton_that_undoes_every_recovery_is_caught() {
    caught_when(|_, event, _| {
        if let Event::RecoveryExit { spurious: false, exit } = *event {
            *event = Event::RecoveryExit { spurious: true, exit };
        }
    });
}

#[test]
fn a_skeleton_that_ignores_the_exit_rule_is_caught() {
    caught_when(|_, event, _| {
        if let Event::RecoveryExit { exit, .. } = event {
            *exit = Bytes::MAX;
        }
    });
}

#[test]
fn a_skeleton_that_does_not_undo_is_caught() {
    caught_when(|_, event, _| {
        if let Event::RecoveryExit { spurious, .. } = event {
            *spurious = false;
        }
    });
}

#[test]
fn a_skeleton_that_takes_every_timeout_for_a_repeated_one_is_caught() {
    caught_when(|_, event, _| {
        if let Event::Timeout { again, .. } = event {
            *again = true;
        }
    });
}

#[test]
fn a_skeleton_that_takes_every_timeout_for_a_new_one_is_caught() {
    caught_when(|_, event, _| {
        if let Event::Timeout { again, .. } = event {
            *again = false;
        }
    });
}

#[test]
fn a_skeleton_that_counts_after_a_timeout_what_sack_had_reported_is_caught() {
    caught_when(|_, event, _| {
        if let Event::Ack(ack) = event {
            ack.delivered = ack.acked;
        }
    });
}

#[test]
fn a_skeleton_that_forgets_the_window_over_idle_is_caught() {
    caught_when(|view, event, _| {
        if let Event::Resume { .. } = event {
            view.control = Control { cwnd: Bytes::new(10_000), ..view.control };
        }
    });
}
