//! RFC 6582, and the rule for leaving recovery.

use super::*;
use crate::config::{Recovery, RecoveryExitRule};
use crate::log::CongestionState as Ca;

#[test]
fn three_duplicates_inflate_by_three_and_each_further_one_by_one() {
    let mut r = Rig::no_sack(&rfc());
    r.write(30);
    r.advance(ms(100));
    assert_eq!(r.ack(0), [10], "limited transmit");
    assert_eq!(r.ack(0), [11], "limited transmit");
    assert_eq!(r.ack(0), [0]);
    assert_eq!(r.cwnd(), 8000, "ssthresh 5 and three");
    for expected in [9000, 10_000, 11_000, 12_000] {
        assert_eq!(r.ack(0), [0; 0]);
        assert_eq!(r.cwnd(), expected);
    }
    assert_eq!(r.ack(0), [12], "13 segments of window, 12 outstanding");
}

#[test]
fn a_partial_ack_retransmits_the_next_hole_and_deflates() {
    let mut r = Rig::no_sack(&rfc());
    r.write(12);
    r.advance(ms(100));
    for _ in 0..9 {
        r.ack(0);
    }
    // Ten were out, two more by limited transmit; 5 + 3 + 6.
    assert_eq!(r.cwnd(), 14_000);
    r.advance(ms(100));
    assert_eq!(r.ack(4), [4], "the second hole goes out at once");
    assert_eq!(r.cwnd(), 11_000, "less 4 acknowledged, plus 1");
    assert_eq!(r.info().ca_state, Ca::Recovery);
    r.advance(ms(100));
    r.ack(12);
    assert_eq!(r.info().ca_state, Ca::Open);
    assert_eq!(r.cwnd(), 2000, "min(ssthresh 5, max(flight 0, 1) + 1)");
}

#[test]
fn only_the_first_partial_ack_restarts_the_timer() {
    let mut r = Rig::no_sack(&rfc());
    r.write(10);
    r.advance(ms(100));
    for _ in 0..3 {
        r.ack(0);
    }
    r.advance(ms(100));
    r.ack(3);
    assert_eq!(r.wait(), Dur::from_secs(1));
    r.advance(ms(100));
    r.ack(5);
    assert_eq!(r.wait(), ms(900), "the impatient variant");
}

#[test]
fn duplicates_of_what_the_last_recovery_sent_do_not_start_another() {
    let mut r = Rig::no_sack(&rfc());
    r.write(12);
    r.advance(ms(100));
    for _ in 0..3 {
        r.ack(0);
    }
    r.advance(ms(100));
    r.ack(12);
    assert_eq!(r.info().ca_state, Ca::Open);
    assert_eq!(r.write(4).len(), 2);
    for _ in 0..4 {
        assert!(!r.ack(12).contains(&12));
    }
    assert_eq!(r.info().recoveries, 1);
}

/// One loss in a window of 9, and only three duplicate ACKs arrive: the flight is empty when recovery ends.
fn leave_with_nothing_in_flight(exit: RecoveryExitRule) -> (u64, usize) {
    let cfg = Config { recovery: Recovery::Sack, recovery_exit: exit, ..rfc() };
    let mut r = Rig::new(&cfg);
    r.window = 9000;
    let window = r.ack_in(1);
    r.deliver(&window);
    r.write(9);
    r.advance(ms(40));
    for k in 2..=4 {
        r.sack(0, &[1..k]);
    }
    assert_eq!(r.info().ca_state, Ca::Recovery);
    r.advance(ms(40));
    r.ack(9);
    assert_eq!(r.info().unacked.get(), 0);
    let cwnd = r.cwnd();
    (cwnd, r.write(8).len())
}

#[test]
fn rfc_6582_leaves_an_empty_recovery_with_two_segments() {
    assert_eq!(leave_with_nothing_in_flight(RecoveryExitRule::Rfc6582), (2000, 2));
}

#[test]
fn the_less_careful_rule_leaves_an_empty_recovery_with_one_segment_whose_ack_is_delayed() {
    assert_eq!(leave_with_nothing_in_flight(RecoveryExitRule::Rfc3782LessCareful), (1000, 1));
}

#[test]
fn the_ssthresh_rule_leaves_an_empty_recovery_with_a_burst() {
    assert_eq!(leave_with_nothing_in_flight(RecoveryExitRule::Ssthresh), (4500, 4));
}

#[test]
fn newreno_ignores_sack_blocks() {
    let mut r = Rig::new(&Config { recovery: Recovery::NewReno, ..rfc() });
    r.write(10);
    for _ in 0..2 {
        r.sack(0, &[1..5]);
    }
    assert_eq!(r.info().sacked.get(), 2000, "a segment for each duplicate, whatever it reports");
    assert_eq!(r.sack(0, &[1..5]), [0]);
}

fn linux_without_sack() -> Rig {
    let cfg = Config {
        mss: Bytes::new(1000),
        send_buffer: Some(Bytes::new(10_000_000)),
        ..Config::profile(crate::config::Profile::Linux)
    };
    Rig::no_sack(&cfg)
}

#[test]
fn without_sack_linux_stays_in_recovery_until_something_above_its_end_is_acknowledged() {
    // `tcp_is_non_sack_preventing_reopen`.
    let mut r = linux_without_sack();
    r.write(10);
    r.advance(ms(100));
    for _ in 0..3 {
        r.ack(0);
    }
    assert_eq!(r.info().ca_state, Ca::Recovery);
    r.advance(ms(100));
    r.ack(10);
    assert_eq!((r.info().ca_state, r.info().flight.get()), (Ca::Recovery, 0));
    // Late duplicate ACKs do not begin a recovery.
    r.write(5);
    for _ in 0..3 {
        r.ack(10);
    }
    assert_eq!(r.info().recoveries, 1);
    r.advance(ms(100));
    r.ack(11);
    assert_eq!(r.info().ca_state, Ca::Open);
}

#[test]
fn more_duplicates_than_packets_can_cause_set_linuxs_threshold_to_their_number() {
    // `tcp_check_reno_reordering`: of two that are outstanding one is missing, so that at most one can cause a duplicate.
    let mut r = linux_without_sack();
    r.write(2);
    r.advance(ms(100));
    r.ack(0);
    assert_eq!((r.info().reordering, r.info().sacked.get()), (3, 1000));
    r.ack(0);
    assert_eq!((r.info().reordering, r.info().sacked.get(), r.info().reorderings), (2, 1000, 1));
}

#[test]
fn without_sack_linux_counts_segments_of_which_the_last_may_be_short() {
    // `tcp_limit_reno_sacked`.
    let mut r = linux_without_sack();
    r.write(1);
    assert_eq!(r.s.write(r.now, 1), 1);
    assert_eq!(r.drain().len(), 1);
    r.advance(ms(100));
    r.ack(0);
    assert_eq!((r.info().reordering, r.info().sacked.get()), (3, 1000), "one of two may have caused it");
    assert_eq!(r.info().ca_state, Ca::Disorder);
}

#[test]
fn an_ack_of_one_segment_that_a_duplicate_has_counted_ends_dctcps_round_trip() {
    // The ACK of the first segment delivers nothing more, and it is the first of data that were sent in this round trip.
    let mut r = Rig::without_sack_by("dctcp", &rfc());
    r.write(2);
    r.advance(ms(100));
    r.ack(0);
    assert_eq!(r.s.gauges().alpha, Some(1.0));
    r.ack(1);
    assert_eq!((r.info().delivered.get(), r.s.gauges().alpha), (1000, Some(0.9375)));
}
