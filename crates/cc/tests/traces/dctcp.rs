//! DCTCP, by RFC 8257 section 3.3: alpha = alpha (1 - g) + g M once a window, cwnd = cwnd (1 - alpha / 2) at marks.
//!
//! With g = 1/16 and alpha = 1 at the start every number below is a multiple of a power of 1/16.

use crate::mutant::{self, Mishears, Twisted, default, windowed, with};
use crate::trace::{MSS, Outcome, Sender, caught, traces, unharmed};
use tcpassay_cc::{Ack, Cause, Dctcp, Event, Params, WindowRule};
use tcpassay_units::Bytes;

traces! { default("dctcp");

    /// Unmarked windows: 15/16, (15/16)^2 = 225/256, (15/16)^3 = 3375/4096.
    fn alpha_falls_by_a_sixteenth_with_each_unmarked_window(t) {
        t.acks(1);
        t.expect_inner("alpha", 0.9375)?;
        window(t, 10, 0);
        t.expect_inner("alpha", 0.878_906_25)?;
        window(t, 10, 0);
        t.expect_inner("alpha", 0.823_974_609_375)?;
    }

    /// From 225/256: wholly marked, 225/256 * 15/16 + 1/16 = 3631/4096; then three of ten,
    /// 3631/4096 * 15/16 + 1/16 * 3/10 = 54465/65536 + 3/160.
    fn alpha_moves_by_a_sixteenth_towards_the_marked_share(t) {
        t.acks(1);
        window(t, 10, 0);
        window(t, 10, 10);
        t.expect_inner("alpha", 0.886_474_609_375)?;
        window(t, 10, 3);
        t.expect_inner("alpha", 0.849_819_946_289_062_5)?;
    }

    /// Inside a window marks change nothing.
    fn alpha_moves_once_a_window(t) {
        t.acks(1);
        for _ in 0..9 {
            marked(t, MSS);
            t.expect_inner("alpha", 0.9375)?;
        }
    }

    /// The share is of bytes: a marked ACK for 3 segments and five unmarked ones for one each are 3/8.
    /// 15/16 * 15/16 + 1/16 * 3/8 = 0.90234375.
    fn the_share_is_of_bytes_and_not_of_acks(t) {
        t.acks(1);
        marked(t, 3_000);
        t.acks(4);
        t.next_round();
        t.acks(1);
        t.expect_inner("alpha", 0.902_343_75)?;
    }

    /// Marks on segments that SACK reports count when they are delivered, and not again when acknowledged: one
    /// of two is marked: 15/16 * 15/16 + 1/16 * 1/2 = 0.91015625.
    fn marks_count_when_the_bytes_are_delivered(t) {
        t.acks(1);
        t.ack_with(0, |ack| {
            ack.delivered = Bytes::new(1_000);
            ack.marked = Bytes::new(1_000);
        });
        t.next_round();
        t.ack_with(2_000, |ack| ack.delivered = Bytes::new(1_000));
        t.expect_inner("alpha", 0.910_156_25)?;
    }

    /// alpha = 15/16: 100 segments become 100 * (1 - 15/32) = 53.125.
    fn marks_reduce_by_half_of_alpha(t) {
        t.put(100_000, 80_000);
        t.acks(1);
        t.enter(Cause::Ecn, 100_000);
        t.expect(53_125, 53_125)?;
        t.leave();
        t.expect(53_125, 53_125)?;
    }

    /// Not the flight, but cwnd (section 3.3): 100 * (1 - 15/32) also with half of it in flight.
    fn marks_reduce_cwnd_whatever_is_in_flight(t) {
        t.put(100_000, 80_000);
        t.acks(1);
        t.enter(Cause::Ecn, 50_000);
        t.expect(53_125, 53_125)?;
    }

    /// Marks that follow in the same window move alpha at its end (15/16 * 15/16 + 1/16) and reduce nothing; the
    /// next reduction uses that: 53.125 * (1 - 0.94140625 / 2) = 28.118896...
    fn a_window_is_reduced_once_and_the_next_by_the_new_alpha(t) {
        t.put(100_000, 80_000);
        t.acks(1);
        t.enter(Cause::Ecn, 100_000);
        for _ in 0..9 {
            marked(t, MSS);
        }
        t.expect(53_125, 53_125)?;
        t.leave();
        t.next_round();
        marked(t, MSS);
        t.expect_inner("alpha", 0.941_406_25)?;
        t.enter(Cause::Ecn, 53_125);
        t.expect(28_119, 28_119)?;
    }

    /// Section 3.5: a loss halves the flight, as conventional TCP does, whatever alpha is (here 225/256), and
    /// leaves alpha alone.
    fn a_loss_halves(t) {
        t.put(100_000, 80_000);
        t.acks(1);
        window(t, 10, 0);
        t.put(100_000, 80_000);
        t.enter(Cause::Loss, 90_000);
        t.expect(45_000, 45_000)?;
        t.expect_inner("alpha", 0.878_906_25)?;
    }

    /// Two segments are left: 3 * (1 - 15/32) would be 1.59.
    fn a_reduction_leaves_two_segments(t) {
        t.put(3_000, 2_000);
        t.acks(1);
        t.enter(Cause::Ecn, 3_000);
        t.expect(2_000, 2_000)?;
    }

    /// Section 3.4: growth is that of conventional TCP, one segment a window.
    fn the_window_grows_as_with_reno(t) {
        t.put(10_000, 10_000);
        t.acks(9);
        t.expect(10_000, 10_000)?;
        t.acks(1);
        t.expect(11_000, 10_000)?;
    }
}

fn marked(t: &mut Sender, bytes: u64) {
    t.ack_with(bytes, |ack| ack.marked = ack.delivered);
}

/// A window of `n` segments, the first `m` of them marked; its last ACK begins the next round.
fn window(t: &mut Sender, n: u64, m: u64) {
    for i in 0..n {
        if i + 1 == n {
            t.next_round();
        }
        if i < m { marked(t, MSS) } else { t.acks(1) }
    }
}

fn dctcp() -> Twisted<Dctcp> {
    Twisted::new(Dctcp::new(&mutant::values::<Dctcp>(), &Params::default()))
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(windowed(dctcp()), |_, _, _| {}));
}

#[test]
fn a_dctcp_that_moves_alpha_with_every_ack_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(default("dctcp"), |_, event, acks| {
            if let Event::Ack(ack) = event {
                *acks += 1;
                ack.round = *acks;
            }
        })
    });
}

#[test]
fn a_dctcp_with_twice_the_gain_is_caught() {
    caught(TRACES, || with("dctcp", "g", 0.125));
}

#[test]
fn a_dctcp_that_starts_with_alpha_zero_is_caught() {
    caught(TRACES, || with("dctcp", "alpha", 0.0));
}

#[test]
fn a_dctcp_that_halves_at_marks_is_caught() {
    caught(TRACES, || {
        windowed(Twisted { reduce: |r: &mut Dctcp, v, _, n| r.reduce(v, Cause::Loss, n), ..dctcp() })
    });
}

#[test]
fn a_dctcp_that_takes_losses_for_marks_is_caught() {
    caught(TRACES, || {
        windowed(Twisted { reduce: |r: &mut Dctcp, v, _, n| r.reduce(v, Cause::Ecn, n), ..dctcp() })
    });
}

#[test]
fn a_dctcp_that_reduces_by_all_of_alpha_is_caught() {
    let twice = |r: &mut Dctcp, v: &_, cause, n| {
        let once = r.reduce(v, cause, n);
        once.saturating_sub(v.control.cwnd - once)
    };
    caught(TRACES, || windowed(Twisted { reduce: twice, ..dctcp() }));
}

#[test]
fn a_dctcp_that_counts_acks_instead_of_bytes_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            observe: |r: &mut Dctcp, v, a| {
                let one = |bytes: Bytes| bytes.min(Bytes::new(1));
                r.observe(v, &Ack { delivered: one(a.delivered), marked: one(a.marked), ..*a });
            },
            ..dctcp()
        })
    });
}

#[test]
fn a_dctcp_that_counts_cumulative_acks_alone_is_caught() {
    caught(TRACES, || {
        windowed(Twisted {
            observe: |r: &mut Dctcp, v, a| {
                r.observe(v, &Ack { delivered: a.acked, marked: a.marked.min(a.acked), ..*a });
            },
            ..dctcp()
        })
    });
}

#[test]
fn a_dctcp_that_measures_outside_reductions_alone_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(default("dctcp"), |_, event, reduced| match event {
            Event::Congestion { .. } => *reduced = 1,
            Event::RecoveryExit { .. } => *reduced = 0,
            Event::Ack(ack) if *reduced == 1 => ack.marked = Bytes::ZERO,
            _ => {}
        })
    });
}
