//! HyStart++, by RFC 9406 section 4: a rise of the round's smallest RTT by an eighth of the last round's, at least 4 ms
//! and at most 16 ms, seen with 8 samples, begins conservative slow start, a quarter as fast, which lasts 5 rounds.

use crate::mutant::{Mishears, default};
use crate::trace::{Outcome, Sender, caught, traces};
use crate::vegas::round;
use tcpassay_cc::{Cause, Controller, Event, HystartMode, Params, build};

const NEVER: u64 = u64::MAX;

traces! { reno();

    /// From 100 ms the threshold is 12.5: at 112 ms every ACK still adds a segment.
    fn a_rise_below_an_eighth_is_not_a_queue(t) {
        learn(t, 100);
        rtts(t, 112, 20);
        t.expect(38_000, NEVER)?;
    }

    /// At 113 ms the eighth sample says so; the ACK that brings it already adds a quarter.
    fn a_rise_of_an_eighth_slows_growth_to_a_quarter(t) {
        learn(t, 100);
        rtts(t, 113, 7);
        t.expect(25_000, NEVER)?;
        rtts(t, 113, 4);
        t.expect(26_000, NEVER)?;
    }

    /// From 8 ms an eighth would be 1 ms; the least is 4.
    fn the_threshold_is_at_least_four_milliseconds(t) {
        learn(t, 8);
        rtts(t, 11, 12);
        t.expect(30_000, NEVER)?;
        t.next_round();
        rtts(t, 15, 7);
        t.expect(37_000, NEVER)?;
        rtts(t, 15, 4);
        t.expect(38_000, NEVER)?;
    }

    /// From 400 ms an eighth would be 50 ms; the most is 16.
    fn the_threshold_is_at_most_sixteen_milliseconds(t) {
        learn(t, 400);
        rtts(t, 416, 8);
        t.expect(25_250, NEVER)?;
    }

    /// The round in which conservative slow start begins counts: with the first ACK of the fifth round after it the
    /// window that is reached becomes ssthresh. 18 + 7 + 1/4, then 8/4 in each of four rounds.
    fn after_five_conservative_rounds_slow_start_is_over(t) {
        learn(t, 100);
        rtts(t, 113, 8);
        for _ in 0..4 {
            t.next_round();
            rtts(t, 113, 8);
        }
        t.expect(33_250, NEVER)?;
        t.next_round();
        rtts(t, 113, 1);
        t.expect(33_250, 33_250)?;
        rtts(t, 113, 4);
        t.expect(33_250, 33_250)?;
    }

    /// The smallest RTT of a later round falls below what began it: the rise was jitter, and slow start resumes with the
    /// eighth sample. 18 + 7 + 1/4, then 7/4 and 1.
    fn when_the_round_trip_time_falls_again_slow_start_resumes(t) {
        learn(t, 100);
        rtts(t, 113, 8);
        t.next_round();
        rtts(t, 112, 7);
        t.expect(27_000, NEVER)?;
        rtts(t, 112, 1);
        t.expect(28_000, NEVER)?;
    }

    /// Only the first slow start: after a loss the second doubles as ever.
    fn after_a_loss_slow_start_is_standard(t) {
        learn(t, 100);
        t.timeout(t.cwnd(), false);
        t.leave();
        t.acks(1);
        t.expect(2_000, 9_000)?;
        t.next_round();
        rtts(t, 200, 7);
        t.expect(9_000, 9_000)?;
    }

    /// A loss that was none returns to the first slow start, and to what it had learnt.
    fn an_undone_loss_resumes_the_first_slow_start(t) {
        learn(t, 100);
        t.enter(Cause::Loss, 18_000);
        t.undo();
        t.expect(18_000, NEVER)?;
        rtts(t, 113, 7);
        rtts(t, 113, 4);
        t.expect(26_000, NEVER)?;
    }
}

fn reno() -> Box<dyn Controller> {
    build("reno", &Params { hystart: HystartMode::PlusPlus, ..Params::default() }).unwrap()
}

/// A round of eight samples, and a new one begins: 10 segments become 18.
fn learn(t: &mut Sender, ms: u64) {
    round(t, &[ms]);
    rtts(t, ms, 7);
    t.next_round();
}

fn rtts(t: &mut Sender, ms: u64, acks: u64) {
    t.rtt = ms * 1000;
    t.acks(acks);
}

#[test]
fn plain_slow_start_is_caught() {
    caught(TRACES, || default("reno"));
}

#[test]
fn a_hystart_that_counts_a_round_with_every_ack_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(reno(), |_, event, acks| {
            if let Event::Ack(ack) = event {
                *acks += 1;
                ack.round = *acks;
            }
        })
    });
}

#[test]
fn a_hystart_that_counts_one_long_round_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(reno(), |_, event, _| {
            if let Event::Ack(ack) = event {
                ack.round = 1;
            }
        })
    });
}

#[test]
fn a_hystart_that_receives_every_other_sample_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(reno(), |_, event, heard| {
            if let Event::Ack(ack) = event {
                *heard += 1;
                if heard.is_multiple_of(2) {
                    ack.rtt = None;
                }
            }
        })
    });
}
