//! Tests of loss detection by the duplicate threshold with SACK (RFC 6675, RFC 3042, RFC 5827).

use super::*;
use crate::log::CongestionState as Ca;

#[test]
fn the_third_duplicate_ack_retransmits_the_first_segment_and_halves_the_window() {
    let mut r = Rig::new(&rfc());
    assert_eq!(r.write(30).len(), 10);
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[1..2]), [10], "limited transmit");
    assert_eq!(r.sack(0, &[1..3]), [11], "limited transmit");
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.sack(0, &[1..4]), [0]);
    assert_eq!(r.info().ca_state, Ca::Recovery);
    // RFC 5681 section 3.2: the two segments of limited transmit are not in the flight that is halved.
    assert_eq!(r.cwnd(), 5000);
}

#[test]
fn recovery_sends_new_data_when_pipe_falls_below_the_window() {
    let mut r = Rig::new(&rfc());
    r.write(30);
    r.advance(ms(100));
    for k in 2..=4 {
        r.sack(0, &[1..k]);
    }
    // 12 out, 3 SACKed, 1 lost, 1 retransmitted.
    assert_eq!(r.info().flight.get(), 9000);
    for k in 5..=8 {
        assert_eq!(r.sack(0, &[1..k]), [0; 0], "pipe is {}", r.info().flight.get());
    }
    assert_eq!(r.info().flight.get(), 5000);
    assert_eq!(r.sack(0, &[1..9]), [12]);
    assert_eq!(r.sack(0, &[1..10]), [13]);
    r.advance(ms(100));
    // Acknowledges the retransmission, what was SACKed and the two of limited transmit: recovery is over.
    assert_eq!(r.ack(12), [14]);
    assert_eq!(r.info().ca_state, Ca::Open);
    assert_eq!(r.cwnd(), 3000, "RFC 6582: min(ssthresh 5, flight 2 + 1)");
}

#[test]
fn a_window_update_is_not_a_duplicate_ack_but_its_sack_block_counts() {
    let mut r = Rig::new(&rfc());
    r.write(10);
    for k in 2..=3 {
        r.sack(0, &[1..k]);
    }
    r.window += 5000;
    assert_eq!(
        r.sack(0, &[1..4]),
        [0],
        "RFC 6675 section 2: an ACK that reports something new is a duplicate"
    );
}

#[test]
fn without_sack_a_window_update_is_not_a_duplicate_ack() {
    let mut r = Rig::no_sack(&rfc());
    r.write(10);
    r.ack(0);
    r.ack(0);
    r.window += 5000;
    assert_eq!(r.ack(0), [0; 0]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.ack(0), [0]);
}

#[test]
fn holes_are_lost_once_three_segments_above_them_are_sacked() {
    let mut r = Rig::new(&rfc());
    r.write(10);
    r.advance(ms(100));
    // 0, 2 and 5 are missing.
    assert_eq!(r.sack(0, &[1..2]), [0; 0]);
    assert_eq!(r.sack(0, &[3..4, 1..2]), [0; 0]);
    assert_eq!(r.sack(0, &[3..5, 1..2]), [0]);
    assert_eq!(
        (r.info().lost_all.get(), r.info().flight.get()),
        (1000, 7000),
        "2 has but two segments above it"
    );
    r.sack(0, &[6..7, 3..5, 1..2]);
    assert_eq!(r.info().lost_all.get(), 2000);
    r.sack(0, &[6..8, 3..5, 1..2]);
    assert_eq!(r.info().lost_all.get(), 2000, "5 has but two segments above it");
    r.sack(0, &[6..9, 3..5, 1..2]);
    assert_eq!(r.info().lost_all.get(), 3000);
}

#[test]
fn three_discontiguous_small_segments_mean_loss_like_three_full_ones() {
    let mut r = Rig::new(&Config { nodelay: true, ..rfc() });
    for _ in 0..10 {
        r.s.write(r.now, 10);
        r.drain();
    }
    let mut ack = r.ack_in(1);
    for n in [1u64, 3, 5] {
        ack.sacks.insert(0, 1 + n * 10..11 + n * 10);
        r.deliver(&ack);
    }
    assert_eq!(r.info().ca_state, Ca::Recovery);
    // 10..20 is SACKed, so that only two discontiguous runs are above 20..30, which is not lost.
    assert_eq!(r.info().lost_all.get(), 10);
}

#[test]
fn next_seg_prefers_lost_segments_then_new_data_then_the_rest_below_the_highest_sack() {
    let mut r = Rig::new(&rfc());
    assert_eq!(r.write(11).len(), 10);
    r.advance(ms(100));
    // 0, 1 and 8 are missing; one new segment remains.
    assert_eq!(r.sack(0, &[2..4]), [10]);
    assert_eq!(r.sack(0, &[2..6]), [0], "rule 1, unconditionally");
    assert_eq!(r.sack(0, &[2..8]), [1], "rule 1");
    // 11 out, 6 + 1 SACKed, 2 lost, 2 retransmitted: pipe 4 of 5; 8 has two SACKed above it at most.
    assert_eq!(r.sack(0, &[9..10, 2..8]), [8], "rule 3: nothing new is left");
    assert_eq!(r.info().flight.get(), 5000);
}

#[test]
fn the_first_retransmission_has_to_be_acknowledged_and_more_before_the_last_segment_is_rescued() {
    // RFC 6675 section 5 step 4.3 (RescueRxt), section 4 rule 4: once a recovery.
    let mut r = Rig::new(&rfc());
    r.write(10);
    r.advance(ms(100));
    // 0, 6, 8 and 9 are missing.
    let sent: Vec<_> = (2..=6).flat_map(|k| r.sack(0, &[1..k])).collect();
    assert_eq!(sent, [0]);
    assert_eq!(r.sack(0, &[7..8, 1..6]), [6], "rule 3: pipe is below the window");
    r.advance(ms(100));
    assert_eq!(r.sack(6, &[7..8]), [9], "rule 4");
    assert_eq!(r.info().flight.get(), 5000, "6 and 9 twice, and 8");
    r.advance(ms(100));
    assert_eq!(r.sack(8, &[]), [0; 0], "once a recovery");
    assert_eq!(r.info().ca_state, Ca::Recovery);
    assert_eq!(r.sack(8, &[9..10]), [8], "rule 3 below the rescued one");
}

#[test]
fn an_ack_that_advances_and_reports_something_new_is_the_first_duplicate() {
    // RFC 6675 section 5: an ACK that advances resets DupAcks, and a SACK of new data increments it.
    let small = |r: &mut Rig, ack: u64, to: u64| {
        let mut a = r.ack_in(1 + 100 * ack);
        a.sacks = [1 + 100 * (ack + 1)..1 + 100 * to].into_iter().collect();
        r.deliver(&a);
        r.drain().iter().map(|c| (c.span.start - 1) / 100).collect::<Vec<_>>()
    };
    let mut r = Rig::new(&Config { nodelay: true, ..rfc() });
    for _ in 0..6 {
        assert_eq!(r.s.write(r.now, 100), 100);
        assert_eq!(r.drain().len(), 1);
    }
    r.advance(ms(100));
    assert_eq!(small(&mut r, 1, 3), [0; 0]);
    assert_eq!(small(&mut r, 1, 4), [0; 0]);
    assert_eq!(small(&mut r, 1, 5), [1], "three segments of 100 bytes above");
}

#[test]
fn what_was_sent_beyond_the_window_while_reordering_lasted_is_not_taken_from_a_later_flight() {
    let mut r = Rig::new(&rfc());
    r.write(100);
    r.advance(ms(100));
    // Each ACK fills one hole and reports the next one: the state stays Disorder, and each releases a segment beyond the window.
    for i in 0..6 {
        r.sack(2 * i, std::slice::from_ref(&(2 * i + 1..2 * i + 2)));
        assert_eq!(r.info().ca_state, Ca::Disorder);
    }
    let before = r.cwnd();
    r.sack(10, &[11..13]);
    r.sack(10, &[11..14]);
    assert_eq!(r.info().ca_state, Ca::Recovery);
    assert!(2 * r.info().ssthresh.get() >= before, "{} of {before}", r.info().ssthresh);
}

#[test]
fn limited_transmit_can_be_turned_off() {
    let mut r = Rig::new(&Config { limited_transmit: false, ..rfc() });
    r.write(30);
    assert_eq!(r.sack(0, &[1..2]), [0; 0]);
    assert_eq!(r.sack(0, &[1..3]), [0; 0]);
    assert_eq!(r.sack(0, &[1..4]), [0]);
}

#[test]
fn early_retransmit_takes_two_duplicates_for_three_outstanding_segments() {
    let mut r = Rig::new(&Config { early_retransmit: true, ..rfc() });
    assert_eq!(r.write(3), [0, 1, 2]);
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[1..2]), [0; 0]);
    assert_eq!(r.sack(0, &[1..3]), [0], "RFC 5827: all but one segment reported");
    let mut r = Rig::new(&rfc());
    r.write(3);
    r.sack(0, &[1..2]);
    assert_eq!(r.sack(0, &[1..3]), [0; 0]);
}

#[test]
fn early_retransmit_works_without_sack() {
    let mut r = Rig::no_sack(&Config { early_retransmit: true, ..rfc() });
    assert_eq!(r.write(3), [0, 1, 2]);
    assert_eq!(r.ack(0), [0; 0]);
    assert_eq!(r.ack(0), [0]);
}

#[test]
fn the_adaptive_threshold_rises_to_the_reordering_seen_and_falls_on_a_timeout() {
    use crate::config::LossDetection;
    let cfg = Config { loss_detection: LossDetection::DupThresh { threshold: 3, adaptive: true }, ..rfc() };
    let mut r = Rig::new(&cfg);
    r.write(20);
    r.advance(ms(100));
    // Segment 0 arrives after segment 2: a distance of three.
    r.sack(0, &[1..3]);
    r.ack(3);
    assert_eq!(r.info().reordering, 3);
    // Segment 3 arrives after segment 9, although the sender retransmitted nothing (two ACKs only).
    r.sack(3, &[4..6]);
    r.ack(10);
    assert_eq!(r.info().reordering, 7, "nothing is SACKed any more: the distance to SND.UNA, 10 - 3");
    let mut r = Rig::new(&cfg);
    r.write(30);
    r.advance(ms(100));
    r.sack(0, &[5..6]);
    r.sack(0, &[5..6, 0..1]);
    assert_eq!(r.info().reordering, 6, "0 arrived six segments behind 5");
    for k in 7..=10 {
        assert!(!r.sack(1, &[5..k]).contains(&1), "five segments are no longer a sign of loss");
    }
    assert!(r.sack(1, &[5..11]).contains(&1), "six are");
}

#[test]
fn a_sack_that_cuts_a_super_segment_marks_only_what_it_covers() {
    let mut r = Rig::new(&Config { tso: Some(Bytes::new(64_000)), ..rfc() });
    r.s.write(r.now, 10_000);
    let sent = r.drain();
    assert_eq!(sent.iter().map(|c| c.span.clone()).collect::<Vec<_>>(), [1..5001, 5001..10_001]);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    r.sack(0, &[1..3]);
    let chunks: Vec<_> = {
        let mut ack = r.ack_in(1);
        ack.sacks.push(1001..4001);
        r.deliver(&ack);
        r.drain()
    };
    assert_eq!(chunks.iter().map(|c| c.span.clone()).collect::<Vec<_>>(), [1..1001]);
    assert_eq!(r.s.audit_counts(), Ok(()));
    assert_eq!(
        (r.info().sacked.get(), r.info().lost_all.get(), r.info().retransmitted_out.get()),
        (3000, 1000, 1000)
    );
}
