//! RFC 9937, against the sending patterns of its examples and of Linux's own scripts.

use super::super::recovery::prr::{Prr, Step};
use super::*;
use crate::config::PrrBound;
use crate::config::Recovery;
use crate::log::CongestionState as Ca;

fn prr() -> Config {
    Config { recovery: Recovery::Prr, recovery_exit: crate::config::RecoveryExitRule::Ssthresh, ..rfc() }
}

/// The number of segments that are sent for each ACK.
fn pattern(r: &mut Rig, blocks: impl Iterator<Item = u64>) -> Vec<usize> {
    blocks.map(|k| r.sack(0, &[1..k]).len()).collect()
}

#[test]
fn one_loss_of_twenty_sends_on_every_other_ack_until_the_flight_is_half() {
    // RFC 9937 section 5, first example: 20 outstanding, the first is lost, ssthresh 10.
    let mut r = Rig::new(&Config { initial_window: 20, ..prr() });
    assert_eq!(r.write(60).len(), 20);
    r.advance(ms(100));
    // Two of limited transmit, the retransmission, then one for every two ACKs.
    let sent = pattern(&mut r, 2..=20);
    assert_eq!(sent, [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0]);
    assert_eq!(r.info().flight.get(), 10_000);
}

#[test]
fn a_burst_of_losses_is_refilled_by_slow_start_up_to_ssthresh() {
    // RFC 9937 section 5, second example: the first 15 of 20 are lost; pipe falls far below ssthresh at once.
    let mut r = Rig::new(&Config { initial_window: 20, ..prr() });
    assert_eq!(r.write(60).len(), 20);
    r.advance(ms(100));
    let mut sent = Vec::new();
    for k in 16..=20 {
        sent.push(r.sack(0, &[15..k]).len());
    }
    // Limited transmit twice; then 1 on entering (nothing sent in recovery yet), then one an ACK: the ACKs do not
    // advance the cumulative point, so the conservative bound holds.
    assert_eq!(sent, [1, 1, 1, 1, 1]);
    assert_eq!(r.info().ca_state, Ca::Recovery);
    r.advance(ms(100));
    // A partial ACK without further loss: the slow-start bound allows one more than was delivered.
    assert_eq!(r.sack(1, &[15..20]).len(), 2);
    assert_eq!(r.sack(2, &[15..20]).len(), 2);
}

fn step(delivered: u64, advanced: bool) -> Step {
    Step { delivered, advanced, repaired: false, lost: false, recovery: true }
}

#[test]
fn the_bounds_of_one_ack_by_hand() {
    let (mss, bound) = (1000, PrrBound::SafeAck);
    // Above ssthresh: proportional. 20 in flight, ssthresh 10: 3 delivered allow 1.5, rounded up, one of them sent.
    let mut p = Prr::begin(20_000, mss);
    p.on_sent(1000);
    assert_eq!(p.on_ack(&step(3000, false), 17_000, 10_000, bound, mss), 18_000);
    // Below ssthresh, not safe: what was delivered.
    let mut p = Prr::begin(20_000, mss);
    p.on_sent(1000);
    assert_eq!(p.on_ack(&step(1000, false), 4000, 10_000, bound, mss), 5000);
    // Safe: one segment more.
    assert_eq!(p.on_ack(&step(1000, true), 4000, 10_000, bound, mss), 6000);
    // Never beyond ssthresh.
    assert_eq!(p.on_ack(&step(9000, true), 9500, 10_000, bound, mss), 10_000);
    // The first transmission of a recovery is always allowed.
    let mut p = Prr::begin(20_000, mss);
    assert_eq!(p.on_ack(&step(0, false), 18_000, 10_000, bound, mss), 19_000);
}

#[test]
fn the_bound_of_linux_4_6_refills_only_what_was_delivered_unless_a_retransmission_was_acknowledged() {
    let (mss, bound) = (1000, PrrBound::Repair);
    let mut p = Prr::begin(20_000, mss);
    p.on_sent(1000);
    // Recovery may send 4 segments.
    assert_eq!(p.on_ack(&step(4000, true), 2000, 10_000, bound, mss), 6000);
    assert_eq!(p.on_ack(&step(1000, true), 2000, 10_000, bound, mss), 3000);
    let repaired = Step { repaired: true, ..step(1000, true) };
    assert_eq!(p.on_ack(&repaired, 2000, 10_000, bound, mss), 8000, "6 less 1 owed, and one more");
    // After a mark the first segment is not sent unconditionally, either.
    let mut p = Prr::begin(20_000, mss);
    let mark = Step { recovery: false, ..step(0, true) };
    assert_eq!(p.on_ack(&mark, 18_000, 10_000, bound, mss), 18_000);
}

#[test]
fn in_flight_at_ssthresh_sends_one_segment_for_each_delivered() {
    // google/packetdrill fast_recovery/prr-ss-10pkt-lost-1: seen on Linux with CUBIC, which keeps 0.7.
    let mut r = Rig::controlled(&prr(), &agreed(), TinyReno { keep: Some(7), ..TinyReno::default() });
    assert_eq!(r.write(10).len(), 10);
    r.advance(ms(110));
    assert_eq!(pattern(&mut r, 2..=4), [0, 0, 1]);
    assert_eq!(r.cwnd(), 7000);
    assert_eq!(r.write(7).len(), 0);
    assert_eq!(pattern(&mut r, 5..=10), [1, 1, 1, 1, 1, 1]);
    r.advance(ms(20));
    assert_eq!(r.ack(10), [16]);
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Open, 7000));
}

#[test]
fn four_losses_of_ten_go_out_one_for_each_ack_and_leave_the_window_at_ssthresh() {
    // google/packetdrill fast_recovery/prr-ss-30pkt-lost1_4.
    let mut r = Rig::controlled(&prr(), &agreed(), TinyReno { keep: Some(7), ..TinyReno::default() });
    assert_eq!(r.write(10).len(), 10);
    r.advance(ms(10));
    assert_eq!(r.sack(0, &[4..5]), [0; 0]);
    assert_eq!(r.sack(0, &[4..6]), [0; 0]);
    assert_eq!(r.sack(0, &[4..7]), [0]);
    assert_eq!(r.sack(0, &[4..8]), [1]);
    assert_eq!(r.sack(0, &[4..9]), [2]);
    assert_eq!(r.sack(0, &[4..10]), [3]);
    r.advance(ms(10));
    for n in [1, 2, 3] {
        assert_eq!(r.sack(n, &[4..10]), [0; 0]);
    }
    r.ack(10);
    assert_eq!(r.write(10).len(), 7);
}

#[test]
fn prr_works_on_duplicate_acks_without_sack() {
    let mut r = Rig::no_sack(&prr());
    r.write(30);
    r.advance(ms(100));
    let sent: Vec<_> = (0..9).map(|_| r.ack(0).len()).collect();
    assert_eq!(sent, [1, 1, 1, 0, 1, 0, 1, 0, 0]);
    r.advance(ms(100));
    let sent = r.ack(5);
    assert_eq!(sent[0], 5, "the next hole first");
    assert_eq!(r.info().ca_state, Ca::Recovery);
}

#[test]
fn recovery_ends_with_the_window_at_ssthresh() {
    let mut r = Rig::new(&prr());
    r.write(40);
    r.advance(ms(100));
    pattern(&mut r, 2..=10);
    r.advance(ms(100));
    r.ack(12);
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Open, 5000));
}

#[test]
fn one_byte_that_is_delivered_below_ssthresh_lets_a_whole_segment_go() {
    let mut prr = Prr::begin(5005, 1000);
    let step = Step { delivered: 1, advanced: false, repaired: false, lost: false, recovery: true };
    for out in 0..3 {
        let cwnd = prr.on_ack(&step, 1000 * out, 7000, PrrBound::SafeAck, 1000);
        assert!(cwnd >= 1000 * out + 1000, "ACK {out}: window {cwnd}");
        prr.on_sent(1000);
    }
}

#[test]
fn linux_counts_packets_so_that_recovery_continues_with_short_segments() {
    // Three full segments and five of one byte; the full ones are lost. Each short one that arrives sends one.
    let cfg = Config {
        mss: Bytes::new(1000),
        nodelay: true,
        send_buffer: Some(Bytes::new(10_000_000)),
        ..Config::profile(Profile::Linux)
    };
    let mut r = Rig::new(&cfg);
    r.write(3);
    for _ in 0..5 {
        assert_eq!(r.s.write(r.now, 1), 1);
        assert_eq!(r.drain().len(), 1);
    }
    r.advance(ms(100));
    let mut sent = Vec::new();
    for k in 1..=5 {
        let mut ack = r.ack_in(1);
        ack.sacks = [3001..3001 + k].into_iter().collect();
        r.deliver(&ack);
        sent.push(r.sent());
    }
    assert_eq!(sent, [vec![], vec![], vec![0], vec![1], vec![2]]);
    assert_eq!((r.info().ca_state, r.info().timeouts), (Ca::Recovery, 0));
    assert_eq!(r.info().delivered_packets, 5);
}
