//! BBR, by draft-cardwell-iccrg-bbr-congestion-control-00 with the numbers of Linux 6.1 `tcp_bbr.c`.
//!
//! A bandwidth of `n` packets in 100 ms is `n * 2^24 / 100000` rounded down: 1677 for ten, 3355 for twenty. The rate is the bandwidth
//! times 1000 bytes, times the gain in 1/256 (739 in Startup, 88 in Drain), times 0.99. The window of a bandwidth is the product with the
//! round-trip time of 100 ms, rounded up to packets, three packets more (six at 1.2 Mbit/s and above, for super-segments of two), and then an
//! even number; with a full pipe also what ACKs bring at once, up to the nine packets (9.995) that the bandwidth delivers in 100 ms.

use crate::mutant::{Mishears, default, with};
use crate::rate_samples::{self, inner, paced, sample};
use crate::trace::{MSS, Outcome, Sender, caught, traces, unharmed};
use tcpassay_cc::{Ack, Cause, Event, View};
use tcpassay_units::{Bytes, Dur, Time};

traces! { default("bbr");

    /// 1677 * 1000 * 739 / 256 * 0.99 / 2^24 * 10^6 = 285662 bytes a second: 2.89 windows of ten packets each round trip.
    fn before_any_sample_the_rate_is_the_initial_window_times_the_gain(t) {
        t.expect(10_000, u64::MAX)?;
        rate(t, 285_662)?;
    }

    /// 2.89 times the product of ten packets is 29: 35 with three super-segments of two, then 36. Up to there each
    /// delivered packet adds one.
    fn in_startup_the_window_grows_with_each_packet_up_to_the_gain(t) {
        t.flight = 40_000;
        round(t, 10, 10);
        t.expect(20_000, u64::MAX)?;
        rate(t, 285_662)?;
        round(t, 10, 10);
        t.expect(30_000, u64::MAX)?;
        round(t, 10, 10);
        t.expect(40_000, u64::MAX)?;
        round(t, 10, 10);
        // Full: the window is cut to the target of 29, 9 and 3.
        t.expect(42_000, 16_000)?;
    }

    /// Ten, twenty, forty packets a round trip: the rate follows at once, with 3355 and 6710.
    fn in_startup_the_rate_follows_the_bandwidth(t) {
        round(t, 10, 10);
        round(t, 20, 20);
        rate(t, 571_494)?;
        round(t, 40, 40);
        rate(t, 1_142_989)?;
        t.expect_inner("mode", 0.0)?;
    }

    /// A quarter more in a round trip is growth (1677, then 13 packets: 2181); an eighth is none (14: 2348), three times in a row.
    fn three_round_trips_without_a_quarter_more_end_startup(t) {
        round(t, 10, 10);
        round(t, 10, 10);
        round(t, 10, 10);
        round(t, 13, 13);
        t.expect_inner("full", 0.0)?;
        for _ in 0..3 {
            t.expect_inner("mode", 0.0)?;
            round(t, 14, 14);
        }
        t.expect_inner("full", 1.0)?;
    }

    /// 1677 * 1000 * 88 / 256 * 0.99: a third of the bandwidth. ssthresh remembers the product: 10 + 6 packets.
    fn drain_is_the_inverse_of_startup_until_the_queue_is_gone(t) {
        filled(t);
        t.expect(42_000, 16_000)?;
        t.expect_inner("mode", 1.0)?;
        rate(t, 34_016)?;
        t.flight = 17_000;
        ack(t, 1, 10, 100_000);
        t.expect_inner("mode", 1.0)?;
        t.flight = 14_000;
        ack(t, 1, 10, 100_000);
        t.expect_inner("mode", 2.0)?;
    }

    /// Packets that will be delivered before the next transmission do not count: 1677 for 30 ms are two
    /// packets (2.99), and 14 are left.
    fn drain_counts_what_will_be_delivered_before_the_next_packet_leaves(t) {
        filled(t);
        t.view.next_send = t.view.now + Dur::from_millis(30);
        t.flight = 17_000;
        ack(t, 1, 10, 100_000);
        t.expect_inner("mode", 1.0)?;
        t.view.next_send = t.view.now + Dur::from_millis(30);
        t.flight = 16_000;
        ack(t, 1, 10, 100_000);
        t.expect_inner("mode", 2.0)?;
    }

    /// Twice the product is 20; with 9 and 3 the window is 32.
    fn in_probe_bw_the_window_is_twice_the_product(t) {
        cruising(t);
        t.expect(32_000, 16_000)?;
        t.expect_inner("cwnd_gain", 2.0)?;
    }

    /// The eight gains, in their order from wherever the cycle began, one for each round-trip time of 100 ms.
    fn the_gains_of_probe_bw_follow_each_other(t) {
        cruising(t);
        // The one that probes ends with 12.5 + 8 packets in flight, of the one that drains nothing is left.
        t.flight = 22_000;
        for _ in 0..8 {
            if inner(t, "phase") < 0.5 {
                break;
            }
            step(t);
        }
        t.expect_inner("pacing_gain", 1.25)?;
        rate(t, 123_696)?;
        step(t);
        t.expect_inner("pacing_gain", 0.75)?;
        rate(t, 74_218)?;
        for _ in 0..6 {
            step(t);
            t.expect_inner("pacing_gain", 1.0)?;
            rate(t, 98_957)?;
        }
        step(t);
        t.expect_inner("pacing_gain", 1.25)?;
    }

    /// Of a hundred seeds each phase but the one that drains is the first (Linux: `CYCLE_LEN - 1 - below(7)`, and one on).
    fn the_first_phase_is_drawn(t) {
        cruising(t);
        if inner(t, "phase").to_bits() == 1.0f64.to_bits() {
            return Err("the cycle never begins with the phase that drains".to_owned());
        }
    }

    /// After 10 s without a smaller round-trip time: four packets, for 200 ms and a round trip; then the window of before.
    fn every_ten_seconds_four_packets_for_200_ms(t) {
        cruising(t);
        let before = t.cwnd();
        t.rtt = 101_000;
        t.wait(10_000);
        ack(t, 1, 10, 100_000);
        t.expect_inner("mode", 3.0)?;
        t.expect(4_000, 16_000)?;
        t.expect_inner("min_rtt", 0.101)?;
        t.flight = 4_000;
        t.wait(100);
        ack(t, 4, 4, 100_000);
        t.wait(100);
        ack(t, 4, 4, 100_000);
        t.wait(99);
        ack(t, 4, 4, 100_000);
        t.expect(4_000, 16_000)?;
        t.wait(2);
        ack(t, 4, 4, 100_000);
        t.expect_inner("mode", 2.0)?;
        if t.cwnd() < before {
            return Err(format!("{} is less than {before}", t.cwnd()));
        }
    }

    /// A smaller round-trip time puts the next pause off.
    fn a_smaller_round_trip_time_is_taken_at_once(t) {
        cruising(t);
        t.wait(9_000);
        t.rtt = 90_000;
        ack(t, 1, 10, 100_000);
        t.expect_inner("min_rtt", 0.09)?;
        t.rtt = 100_000;
        t.wait(9_000);
        ack(t, 1, 10, 100_000);
        t.expect_inner("mode", 2.0)?;
    }

    /// Application-limited samples count only if they are larger than the estimate: 5 packets (838) do not,
    /// 20 (3355) do.
    fn samples_limited_by_the_application_never_lower_the_bandwidth(t) {
        cruising(t);
        let bandwidth = inner(t, "bandwidth");
        for _ in 0..12 {
            limited_round(t, 5, 5);
        }
        t.expect_inner("bandwidth", bandwidth)?;
        limited_round(t, 20, 20);
        t.expect_inner("bandwidth", 3355.0 * 1e6 / 16_777_216.0)?;
    }

    /// Ten round trips later the largest sample is forgotten.
    fn the_bandwidth_is_the_largest_of_ten_round_trips(t) {
        cruising(t);
        round(t, 20, 20);
        for _ in 0..10 {
            round(t, 8, 8);
            t.expect_inner("bandwidth", 3355.0 * 1e6 / 16_777_216.0)?;
        }
        round(t, 8, 8);
        t.expect_inner("bandwidth", 1342.0 * 1e6 / 16_777_216.0)?;
    }

    /// The first round trip of a recovery sends what was delivered: 12 in flight and 2 delivered. The end restores the window.
    fn a_recovery_begins_with_conservation_and_ends_with_the_window_of_before(t) {
        cruising(t);
        let before = t.cwnd();
        t.flight = 12_000;
        t.enter(Cause::Loss, before);
        t.expect(before, 16_000)?;
        lossy(t, 2, 1);
        t.expect(14_000, 16_000)?;
        lossy(t, 1, 0);
        // The window is not above what it was, and not below what is in flight and delivered.
        t.expect(14_000, 16_000)?;
        t.leave();
        ack(t, 1, 10, 100_000);
        t.expect(32_000, 16_000)?;
    }

    /// Each lost packet is one less, outside a recovery as well.
    fn a_lost_packet_is_taken_from_the_window(t) {
        cruising(t);
        t.flight = 3_000;
        // 32 - 7 + 1.
        lossy(t, 1, 7);
        t.expect(26_000, 16_000)?;
    }

    /// After a timeout one packet more than what is still in flight.
    fn a_timeout_leaves_what_is_in_flight_and_one(t) {
        cruising(t);
        t.flight = 3_000;
        t.timeout(32_000, false);
        t.expect(4_000, 16_000)?;
        t.flight = 4_000;
        t.leave();
        ack(t, 1, 10, 100_000);
        t.expect(32_000, 16_000)?;
    }

    /// BBR ignores ECN marks.
    fn a_mark_changes_nothing(t) {
        cruising(t);
        t.enter(Cause::Ecn, 32_000);
        t.expect(32_000, 16_000)?;
        t.leave();
        t.expect(32_000, 16_000)?;
    }

    /// A loss after a mark begins a recovery, whose end restores the window of the mark: 20 packets and the one of this ACK, not the 30 to which
    /// it grew meanwhile.
    fn a_loss_after_a_mark_restores_the_window_of_the_mark(t) {
        marked_in_startup(t);
        t.flight = 12_000;
        t.enter(Cause::Loss, 30_000);
        lossy(t, 2, 1);
        t.expect(14_000, u64::MAX)?;
        t.leave();
        ack(t, 1, 10, 100_000);
        t.expect(21_000, u64::MAX)?;
    }

    /// The same for a timeout.
    fn a_timeout_after_a_mark_restores_the_window_of_the_mark(t) {
        marked_in_startup(t);
        t.flight = 3_000;
        t.timeout(30_000, false);
        t.expect(4_000, u64::MAX)?;
        t.leave();
        ack(t, 1, 10, 100_000);
        t.expect(21_000, u64::MAX)?;
    }

    /// The reduction for a mark ends with its round trip: a later loss saves the window of then.
    fn a_loss_after_the_reduction_for_a_mark_restores_its_own_window(t) {
        marked_in_startup(t);
        t.leave();
        t.flight = 12_000;
        t.enter(Cause::Loss, 30_000);
        lossy(t, 2, 1);
        t.expect(14_000, u64::MAX)?;
        t.leave();
        ack(t, 1, 10, 100_000);
        t.expect(31_000, u64::MAX)?;
    }

    /// In `ProbeBw` the first packet after a pause of the application leaves at the bandwidth, whatever the phase.
    fn after_a_pause_of_the_application_the_rate_is_the_bandwidth(t) {
        cruising(t);
        t.flight = 22_000;
        for _ in 0..8 {
            if inner(t, "phase") < 0.5 {
                break;
            }
            step(t);
        }
        rate(t, 123_696)?;
        t.flight = 1_000;
        t.tell(Event::Sent { bytes: Bytes::new(1_000), app_limited: true, idle: None });
        rate(t, 98_957)?;
    }

    /// A policer of ten packets a round trip that drops a fifth: after two intervals of four round trips that agree, its
    /// rate is used, without gain.
    fn a_policer_is_recognised(t) {
        cruising(t);
        for _ in 0..9 {
            t.wait(100);
            round_with_losses(t, 10, 3);
        }
        t.expect_inner("policed", 1.0)?;
        t.expect_inner("pacing_gain", 1.0)?;
        // Forty-eight round trips after the eighth the path is probed again.
        for _ in 0..46 {
            round(t, 10, 10);
        }
        t.expect_inner("policed", 1.0)?;
        round(t, 10, 10);
        t.expect_inner("policed", 0.0)?;
    }

    /// Less than a fifth of losses (50 of 256) are no policer.
    fn fewer_losses_do_not_indicate_a_policer(t) {
        cruising(t);
        for _ in 0..20 {
            t.wait(100);
            round_with_losses(t, 10, 1);
        }
        t.expect_inner("policed", 0.0)?;
    }

    /// Twenty packets at once, three times, where ten are expected each 100 ms: the excess is more, and counts up to nine packets.
    fn the_excess_of_aggregated_acks_widens_the_window(t) {
        cruising(t);
        let excess = inner(t, "extra_acked");
        for _ in 0..3 {
            ack(t, 20, 10, 100_000);
        }
        if inner(t, "extra_acked") <= excess {
            return Err(format!("{} is no more than {excess}", inner(t, "extra_acked")));
        }
        t.expect(32_000, 16_000)?;
    }

    /// After a spurious recovery the measurement of Startup begins again.
    fn an_undo_forgets_the_bandwidth_that_counted_as_full(t) {
        round(t, 10, 10);
        round(t, 10, 10);
        round(t, 10, 10);
        t.enter(Cause::Loss, 10_000);
        t.undo();
        // The first is growth again, and three more are needed.
        round(t, 10, 10);
        round(t, 10, 10);
        round(t, 10, 10);
        t.expect_inner("full", 0.0)?;
        round(t, 10, 10);
        t.expect_inner("full", 1.0)?;
    }
}

/// Asserts a pacing rate in bytes per second.
#[track_caller]
fn rate(t: &Sender, expected: u64) -> Outcome {
    paced(t, expected, 0)
}

/// An ACK for so many packets with a rate sample of `delivered` packets in so many microseconds.
fn ack(t: &mut Sender, acked: u64, delivered: u64, us: u64) {
    sampled(t, acked, delivered, us, |_| {});
}

fn sampled(t: &mut Sender, acked: u64, delivered: u64, us: u64, change: impl FnOnce(&mut Ack)) {
    rate_samples::sampled(t, acked, sample(delivered, us, Time::ZERO), change);
}

/// A round trip of 100 ms: everything is acknowledged at its end.
fn round(t: &mut Sender, acked: u64, delivered: u64) {
    t.wait(100);
    ack(t, acked, delivered, 100_000);
}

fn limited_round(t: &mut Sender, acked: u64, delivered: u64) {
    t.wait(100);
    sampled(t, acked, delivered, 100_000, |ack| ack.app_limited = true);
}

fn lossy(t: &mut Sender, acked: u64, lost: u64) {
    sampled(t, acked, 10, 100_000, |ack| ack.lost = Bytes::new(lost * MSS));
}

fn round_with_losses(t: &mut Sender, acked: u64, lost: u64) {
    sampled(t, acked, acked, 100_000, |ack| ack.lost = Bytes::new(lost * MSS));
}

/// A mark at a window of 20 packets, and a round trip that makes it 30.
fn marked_in_startup(t: &mut Sender) {
    t.flight = 40_000;
    round(t, 10, 10);
    t.enter(Cause::Ecn, 20_000);
    round(t, 10, 10);
}

/// Four round trips of ten packets: the pipe is full, and 40 packets are in flight.
fn filled(t: &mut Sender) {
    t.flight = 40_000;
    for _ in 0..4 {
        round(t, 10, 10);
    }
}

/// In `ProbeBw`, in a phase that neither probes nor drains.
fn cruising(t: &mut Sender) {
    filled(t);
    t.flight = 10_000;
    ack(t, 1, 10, 100_000);
    t.flight = 22_000;
    for _ in 0..8 {
        if inner(t, "phase") > 1.5 && inner(t, "phase") < 6.5 {
            break;
        }
        step(t);
    }
    for _ in 0..11 {
        ack(t, 1, 10, 100_000);
    }
}

/// Advances by one phase.
fn step(t: &mut Sender) {
    t.wait(101);
    ack(t, 10, 10, 100_000);
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(default("bbr"), |_, _, _| {}));
}

#[test]
fn wrong_constants_are_caught() {
    for (name, value) in [
        ("startup_gain", 2.0),
        ("cwnd_gain", 2.5),
        ("min_rtt_window", 5.0),
        ("policer", 0.0),
        ("excess_gain", 0.0),
    ] {
        caught(TRACES, || with("bbr", name, value));
    }
}

#[test]
fn a_controller_that_ignores_an_input_is_caught() {
    let faults: [fn(&mut View, &mut Event, &mut u64); 9] = [
        // Limits of the application.
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.app_limited = false;
            }
        },
        // Losses.
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.lost = Bytes::ZERO;
            }
        },
        // Samples.
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.sample = None;
            }
        },
        // Round-trip times.
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.rtt = None;
            }
        },
        // The wait of pacing.
        |v, _, _| v.next_send = Time::ZERO,
        // Undo events.
        |_, e, _| {
            if let Event::RecoveryExit { spurious, .. } = e {
                *spurious = false;
            }
        },
        // Losses taken for marks.
        |_, e, _| {
            if let Event::Congestion { cause, .. } = e {
                *cause = Cause::Ecn;
            }
        },
        // Pauses of the application.
        |_, e, _| {
            if let Event::Sent { app_limited, .. } = e {
                *app_limited = false;
            }
        },
        // Half of what was delivered.
        |_, e, _| {
            if let Event::Ack(ack) = e {
                ack.delivered = ack.delivered / 2;
            }
        },
    ];
    for fault in faults {
        caught(TRACES, || Mishears::boxed(default("bbr"), fault));
    }
}
