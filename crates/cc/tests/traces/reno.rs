//! Reno, by RFC 5681 equations 2 (slow start), 3 in its byte-counting form (congestion avoidance) and 4 (loss).

use crate::mutant::{self, Mishears, Twisted, default, windowed};
use crate::trace::{Outcome, Sender, caught, traces, unharmed};
use tcpassay_cc::{Cause, Event, Params, Reno, WindowRule};
use tcpassay_units::Bytes;

traces! { default("reno");

    /// One segment for each window's worth of acknowledged bytes: at 20 segments the 20th ACK for one segment adds
    /// one, and then the 21st after that.
    fn congestion_avoidance_adds_one_segment_a_window(t) {
        t.put(20_000, 20_000);
        t.acks(19);
        t.expect(20_000, 20_000)?;
        t.acks(1);
        t.expect(21_000, 20_000)?;
        t.acks(20);
        t.expect(21_000, 20_000)?;
        t.acks(1);
        t.expect(22_000, 20_000)?;
    }

    /// Delayed ACKs count for what they acknowledge: ten ACKs for two segments are a window of 20.
    fn a_delayed_ack_counts_for_both_of_its_segments(t) {
        t.put(20_000, 20_000);
        for _ in 0..9 {
            t.ack(2_000);
        }
        t.expect(20_000, 20_000)?;
        t.ack(2_000);
        t.expect(21_000, 20_000)?;
    }

    /// Equation 4: max(FlightSize / 2, 2 SMSS). 25 segments in flight leave 12.5.
    fn a_loss_halves_the_flight(t) {
        t.put(25_000, 8_000);
        t.enter(Cause::Loss, 25_000);
        t.expect(12_500, 12_500)?;
        t.leave();
        t.expect(12_500, 12_500)?;
    }

    /// Equation 4 uses the flight size, not cwnd: 10 segments in flight under a window of 25 leave 5.
    fn a_loss_halves_the_flight_and_not_an_unused_window(t) {
        t.put(25_000, 8_000);
        t.enter(Cause::Loss, 10_000);
        t.expect(5_000, 5_000)?;
    }

    /// Equation 4's floor: half of 3 segments would be 1.5.
    fn a_loss_leaves_two_segments(t) {
        t.put(3_000, 8_000);
        t.lose();
        t.expect(2_000, 2_000)?;
    }

    /// RFC 3168 section 6.1.2: a mark halves like a loss, but down to one segment; ssthresh stays at two.
    fn marks_reduce_down_to_one_segment(t) {
        t.put(3_000, 8_000);
        t.enter(Cause::Ecn, 3_000);
        t.leave();
        t.expect(1_500, 2_000)?;
        t.put(1_500, 2_000);
        t.ack(0);
        t.enter(Cause::Ecn, 1_500);
        t.leave();
        t.expect(1_000, 2_000)?;
    }

    /// RFC 8511 section 3: with the factor 0.8 for marks 20 segments become 16; a loss halves them as ever.
    fn with_abe_a_mark_leaves_four_fifths_and_a_loss_half(t) {
        let params = Params { values: [("beta_ecn".to_owned(), 0.8)].into(), ..Params::default() };
        t.controller = tcpassay_cc::build("reno", &params).expect("reno has this parameter");
        t.put(20_000, 8_000);
        t.enter(Cause::Ecn, 20_000);
        t.leave();
        t.expect(16_000, 16_000)?;
        t.put(20_000, 8_000);
        t.enter(Cause::Loss, 20_000);
        t.leave();
        t.expect(10_000, 10_000)?;
    }

    /// What was counted towards the next segment is lost with the loss: 15 of 20 segments acknowledged, halved to 10,
    /// then a whole window of 10 is needed.
    fn a_loss_forgets_the_bytes_counted_so_far(t) {
        t.put(20_000, 20_000);
        t.acks(15);
        t.lose();
        t.expect(10_000, 10_000)?;
        t.acks(9);
        t.expect(10_000, 10_000)?;
        t.acks(1);
        t.expect(11_000, 10_000)?;
    }
}

fn reno() -> Twisted<Reno> {
    Twisted::new(Reno::new(&mutant::values::<Reno>(), &Params::default()))
}

#[test]
fn without_a_fault_the_wrapper_passes_every_trace() {
    unharmed(TRACES, || Mishears::boxed(windowed(reno()), |_, _, _| {}));
}

#[test]
fn a_reno_that_halves_twice_is_caught() {
    let twice = |r: &mut Reno, v: &_, cause, flight| {
        let once = r.reduce(v, cause, flight);
        r.reduce(v, cause, once)
    };
    caught(TRACES, || windowed(Twisted { reduce: twice, ..reno() }));
}

#[test]
fn a_reno_that_halves_cwnd_and_not_the_flight_is_caught() {
    caught(TRACES, || {
        windowed(Twisted { reduce: |r: &mut Reno, v, cause, _| r.reduce(v, cause, v.control.cwnd), ..reno() })
    });
}

#[test]
fn a_reno_without_the_floor_of_two_segments_is_caught() {
    caught(TRACES, || windowed(Twisted { reduce: |_, _, _, flight| flight / 2, ..reno() }));
}

#[test]
fn a_reno_that_adds_a_segment_with_every_ack_is_caught() {
    caught(TRACES, || windowed(Twisted { grow: |_, v, _| v.control.cwnd + v.mss, ..reno() }));
}

#[test]
fn a_reno_that_counts_acks_instead_of_bytes_is_caught() {
    caught(TRACES, || {
        windowed(Twisted { grow: |r: &mut Reno, v, acked| r.grow(v, acked.min(v.mss)), ..reno() })
    });
}

#[test]
fn a_reno_that_keeps_its_count_over_a_loss_is_caught() {
    let keep = |r: &mut Reno, v: &_, cause, flight| r.clone().reduce(v, cause, flight);
    caught(TRACES, || windowed(Twisted { reduce: keep, reset: |_, _, _| {}, ..reno() }));
}

#[test]
fn a_reno_that_reduces_by_cubics_factor_is_caught() {
    caught(TRACES, || mutant::with("reno", "beta", 0.7));
}

#[test]
fn a_reno_that_takes_marks_for_losses_is_caught() {
    caught(TRACES, || {
        Mishears::boxed(default("reno"), |_, event, _| {
            if let Event::Congestion { cause, .. } = event {
                *cause = Cause::Loss;
            }
        })
    });
}

#[test]
fn a_window_of_bytes_is_not_rounded_to_segments() {
    // 1448-byte segments: half of 14,480 bytes is five segments exactly, half of 13,032 is four and a half.
    let mut t = Sender::new(default("reno"), 13_032);
    t.view.mss = Bytes::new(1448);
    t.enter(Cause::Loss, 13_032);
    t.expect(6_516, 6_516).unwrap();
}
