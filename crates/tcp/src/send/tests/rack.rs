//! Tests of loss detection by time (RFC 8985 section 6).

use super::*;
use crate::config::LossDetection;
use crate::log::CongestionState as Ca;

fn rack() -> Config {
    Config { loss_detection: LossDetection::Rack { dsack_adaptation: true }, ..rfc() }
}

/// Ten segments, one a millisecond.
fn spaced(cfg: &Config) -> Rig {
    let mut r = Rig::new(cfg);
    for n in 0..10 {
        assert_eq!(r.write(1), [n]);
        r.advance(ms(1));
    }
    r
}

#[test]
fn a_segment_is_lost_a_quarter_of_the_minimum_rtt_after_one_sent_later_was_delivered() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    // One SACK is enough, but not at once: 100 ms round trip, 25 ms window.
    assert_eq!(r.sack(0, &[7..8]), [0; 0]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.wait(), ms(25));
    assert_eq!(r.fire(), Ok(vec![0, 1, 2]), "pipe 2 of 5");
    assert_eq!(r.info().ca_state, Ca::Recovery);
    // google/packetdrill sack-shift-sacked-7-3-4-8-9: RACK marks the seven segments below lost.
    assert_eq!(r.info().lost_all.get(), 7000);
}

#[test]
fn nothing_is_lost_when_the_missing_segment_comes_within_the_window() {
    let mut r = spaced(&rack());
    r.advance(ms(90));
    r.sack(0, &[1..2]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    r.advance(ms(10));
    r.ack(2);
    assert_eq!(r.info().ca_state, Ca::Open);
    assert_eq!(r.info().recoveries, 0);
    assert_eq!(r.info().reorderings, 1);
}

#[test]
fn three_sacked_segments_leave_no_window_until_reordering_was_seen() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.sack(0, &[1..3]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.sack(0, &[1..4]), [0], "as the duplicate threshold would");

    let mut r = Rig::new(&rack());
    r.write(20);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.ack(2);
    assert_eq!(r.info().reorderings, 1);
    r.sack(2, &[3..9]);
    assert_eq!(r.info().ca_state, Ca::Disorder, "reordering was seen: the window stays");
    assert_eq!(r.wait(), ms(25));
}

#[test]
fn a_lost_retransmission_is_found_when_one_sent_after_it_is_delivered() {
    let mut r = Rig::new(&rack());
    r.write(30);
    r.advance(ms(100));
    for k in 2..=9 {
        r.sack(0, &[1..k]);
    }
    assert_eq!(r.info().retransmitted_out.get(), 1000, "the first was retransmitted");
    r.advance(ms(1));
    // A new segment after the retransmission.
    let new = r.sack(0, &[1..10]);
    assert_eq!(new, [13]);
    r.advance(ms(100));
    // The new segment arrives, the retransmission does not. 100 ms since its sending, no window in recovery.
    assert_eq!(r.sack(0, &[1..14])[0], 0);
    assert_eq!(r.info().retransmissions, 2);
}

#[test]
fn three_small_segments_that_are_sacked_count_like_full_ones() {
    // RFC 8985 section 6.2 step 4: RACK.segs_sacked is a number of segments.
    let mut r = Rig::new(&Config { nodelay: true, ..rack() });
    for _ in 0..5 {
        assert_eq!(r.s.write(r.now, 100), 100);
        assert_eq!(r.drain().len(), 1);
    }
    r.advance(ms(100));
    for (k, state) in [(2, Ca::Disorder), (3, Ca::Disorder), (4, Ca::Recovery)] {
        let mut ack = r.ack_in(1);
        ack.sacks = [101..1 + 100 * k].into_iter().collect();
        r.deliver(&ack);
        assert_eq!(r.info().ca_state, state, "{} SACKed", k - 1);
    }
}

#[test]
fn a_timeout_marks_the_first_segment_and_what_is_older_than_the_window() {
    let mut r = Rig::new(&Config { tlp: crate::config::Tlp::Off, ..rack() });
    r.write(2);
    r.advance(ms(950));
    r.write(2);
    assert_eq!(r.s.next_timer().unwrap(), Time::ZERO + ms(2000));
    r.fire().unwrap();
    // Segments 2 and 3 were sent only 50 ms ago: RFC 8985 section 6.3 leaves them in flight.
    assert_eq!((r.info().lost_all.get(), r.info().flight.get()), (2000, 3000));
}

#[test]
fn freebsds_window_is_a_quarter_of_the_last_round_trip_from_the_beginning_on() {
    // `rack_calc_thresh_rack`: neither three SACKed segments nor a recovery shorten the window.
    let cfg = Config { mss: Bytes::new(1000), ..Config::profile(Profile::FreeBsdRack) };
    let mut r = Rig::new(&cfg);
    r.write(10);
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[1..8]), [0; 0]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.wait(), ms(25));
    r.fire().unwrap();
    assert_eq!(r.info().ca_state, Ca::Recovery);
}
