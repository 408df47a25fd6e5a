//! RFC 8985 section 6: loss by time.

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

fn dsack(r: &mut Rig, n: u64, block: Span) {
    let mut ack = r.ack_in(seg(n));
    ack.dsack = Some(seg(block.start)..seg(block.end));
    r.deliver(&ack);
}

#[test]
fn a_segment_is_lost_a_quarter_of_the_minimum_rtt_after_one_sent_later_was_delivered() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    // One SACK is enough, but not at once: 100 ms round trip, 25 ms window.
    assert_eq!(r.sack(0, &[7..8]), [0; 0]);
    assert_eq!(r.s.state, Ca::Disorder);
    assert_eq!(r.wait(), ms(25));
    assert_eq!(r.fire(), Ok(vec![0, 1, 2]), "pipe 2 of 5");
    assert_eq!(r.s.state, Ca::Recovery);
    // google/packetdrill sack-shift-sacked-7-3-4-8-9: RACK thinks the seven below are lost.
    assert_eq!(r.s.board.lost, 7000);
}

#[test]
fn nothing_is_lost_when_the_missing_segment_comes_within_the_window() {
    let mut r = spaced(&rack());
    r.advance(ms(90));
    r.sack(0, &[1..2]);
    assert_eq!(r.s.state, Ca::Disorder);
    r.advance(ms(10));
    r.ack(2);
    assert_eq!(r.s.state, Ca::Open);
    assert_eq!(r.s.stats.recoveries, 0);
    assert!(r.s.rack.reordering_seen);
}

#[test]
fn three_sacked_segments_leave_no_window_until_reordering_was_seen() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.sack(0, &[1..3]);
    assert_eq!(r.s.state, Ca::Disorder);
    assert_eq!(r.sack(0, &[1..4]), [0], "as the duplicate threshold would");

    let mut r = Rig::new(&rack());
    r.write(20);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.ack(2);
    assert!(r.s.rack.reordering_seen);
    r.sack(2, &[3..9]);
    assert_eq!(r.s.state, Ca::Disorder, "reordering was seen: the window stays");
    assert_eq!(r.s.timers.reorder, r.now + ms(25));
}

#[test]
fn a_lost_retransmission_is_found_when_one_sent_after_it_is_delivered() {
    let mut r = Rig::new(&rack());
    r.write(30);
    r.advance(ms(100));
    for k in 2..=9 {
        r.sack(0, &[1..k]);
    }
    assert_eq!(r.s.board.retx, 1000, "the first was retransmitted");
    r.advance(ms(1));
    // A new segment after the retransmission.
    let new = r.sack(0, &[1..10]);
    assert_eq!(new, [13]);
    r.advance(ms(100));
    // That one arrives, the retransmission does not. 100 ms since its sending, no window in recovery.
    assert_eq!(r.sack(0, &[1..14])[0], 0);
    assert_eq!(r.s.stats.retransmissions, 2);
}

#[test]
fn the_window_grows_a_quarter_a_round_with_a_dsack_and_is_at_most_srtt() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.ack(10);
    assert_eq!(r.s.reo_wnd(), ms(25));
    r.write(1);
    dsack(&mut r, 10, 0..1);
    assert_eq!(r.s.reo_wnd(), ms(50));
    dsack(&mut r, 10, 1..2);
    assert_eq!(r.s.reo_wnd(), ms(50), "once a round");
    for n in 3..10 {
        r.write(1);
        r.advance(ms(100));
        let all = (r.s.snd_nxt() - 1) / 1000;
        r.ack(all);
        dsack(&mut r, all, 0..1);
        let expected = (25 * n).min(100);
        assert_eq!(r.s.reo_wnd(), ms(expected), "round {n}");
    }
}

#[test]
fn the_window_shrinks_after_sixteen_recoveries_without_a_dsack() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.ack(2);
    dsack(&mut r, 2, 0..1);
    assert_eq!((r.s.rack.mult, r.s.rack.persist), (2, 16));
    for _ in 0..15 {
        r.s.rack.on_recovery_end();
    }
    assert_eq!(r.s.reo_wnd(), ms(50));
    r.s.rack.on_recovery_end();
    assert_eq!(r.s.reo_wnd(), ms(25));
}

#[test]
fn a_recovery_that_ends_with_the_ack_that_widens_the_window_is_not_one_of_the_sixteen() {
    // RFC 8985 section 6.2 step 4: "else if exiting".
    let mut r = Rig::new(&Config { recovery_exit: crate::config::RecoveryExit::Ssthresh, ..rack() });
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..5]);
    assert_eq!(r.s.state, Ca::Recovery);
    r.advance(ms(100));
    dsack(&mut r, 10, 0..1);
    assert_eq!(r.s.state, Ca::Open);
    assert_eq!((r.s.rack.mult, r.s.rack.persist), (2, 16));
    // The next one has no DSACK.
    assert_eq!(r.write(5), [10, 11, 12, 13, 14]);
    r.advance(ms(100));
    r.sack(10, &[11..15]);
    assert_eq!(r.s.state, Ca::Recovery);
    r.advance(ms(100));
    r.ack(15);
    assert_eq!((r.s.rack.mult, r.s.rack.persist), (2, 15));
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
        assert_eq!(r.s.state, state, "{} SACKed", k - 1);
    }
}

#[test]
fn without_adaptation_a_dsack_does_not_widen_the_window() {
    let mut r =
        Rig::new(&Config { loss_detection: LossDetection::Rack { dsack_adaptation: false }, ..rfc() });
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.ack(2);
    dsack(&mut r, 2, 0..1);
    assert_eq!(r.s.reo_wnd(), ms(25));
}

#[test]
fn an_ack_of_a_retransmission_faster_than_the_minimum_rtt_is_taken_for_the_originals() {
    let mut r = Rig::new(&rack());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.fire().unwrap();
    let before = r.s.rack;
    r.advance(ms(10));
    r.ack(1);
    assert_eq!(
        format!("{:?}", r.s.rack),
        format!("{before:?}"),
        "no evidence about the retransmission's time"
    );
}

#[test]
fn a_timeout_marks_the_first_segment_and_what_is_older_than_the_window() {
    let mut r = Rig::new(&Config { tlp: crate::config::Tlp::Off, ..rack() });
    r.write(2);
    r.advance(ms(950));
    r.write(2);
    assert_eq!(r.s.timers.rto, Time::ZERO + ms(2000));
    r.fire().unwrap();
    // 2 and 3 are but 50 ms old: RFC 8985 section 6.3 leaves them in flight.
    assert_eq!((r.s.board.lost, r.s.board.pipe()), (2000, 3000));
}

#[test]
fn a_sack_that_echoes_an_old_timestamp_speaks_of_the_retransmission_and_an_ack_that_does_of_the_original() {
    // RFC 7323 section 4.3: out of order the receiver echoes what arrived last in order. `tcp_rack_advance` looks at the time alone,
    // `tcp_skb_spurious_retrans` at the echo of what is acknowledged in order.
    for (sacked, heeded) in [(true, true), (false, false)] {
        let mut r = Rig::with(&rack(), &Agreed { timestamps: true, ..agreed() });
        r.write(10);
        let old = r.ts_now();
        r.advance(ms(100));
        assert_eq!(r.sack(0, &[2..10]), [0, 1]);
        let before = r.s.rack.newest();
        r.advance(ms(100));
        let mut ack = r.ack_in(seg(u64::from(!sacked)));
        ack.ts_ecr = Some(old);
        ack.sacks = [if sacked { seg(1)..seg(10) } else { seg(2)..seg(10) }].into_iter().collect();
        r.deliver(&ack);
        assert_eq!(r.s.rack.newest() != before, heeded, "SACKed: {sacked}");
    }
}

#[test]
fn freebsds_window_is_a_quarter_of_the_last_round_trip_from_the_beginning_on() {
    // `rack_calc_thresh_rack`: three SACKed segments are no reason to hurry, and recovery is none.
    let cfg = Config { mss: Bytes::new(1000), ..Config::profile(Profile::FreeBsdRack) };
    let mut r = Rig::new(&cfg);
    r.write(10);
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[1..8]), [0; 0]);
    assert_eq!((r.s.state, r.s.reo_wnd()), (Ca::Disorder, ms(25)));
    assert_eq!(r.wait(), ms(25));
    r.fire().unwrap();
    assert_eq!((r.s.state, r.s.reo_wnd()), (Ca::Recovery, ms(25)));
    // Each round with a DSACK adds one, but only once reordering was seen, and never beyond a round trip.
    for (seen, mult, quarters) in [(false, 3, 1), (true, 3, 3), (true, 9, 4)] {
        (r.s.rack.reordering_seen, r.s.rack.mult) = (seen, mult);
        assert_eq!(r.s.reo_wnd(), ms(25 * quarters));
    }
}
