//! Tests of rules of Linux 6.1 for recovery and retransmission; the name of each test states the rule.

mod probes;
mod super_segments;

use super::*;
use crate::config::{LossDetection, Tlp};
use crate::log::CongestionState as Ca;

/// The profile `linux` with an MSS of 1000 bytes and without tail loss probes. The RTO after the handshake is 300 ms.
fn linux() -> Config {
    Config {
        mss: Bytes::new(1000),
        send_buffer: Some(Bytes::new(10_000_000)),
        tlp: Tlp::Off,
        ..Config::profile(Profile::Linux)
    }
}

/// The same without super-segments.
fn single() -> Config {
    Config { tso: None, ..linux() }
}

/// The profile `linux` with super-segments.
fn tso() -> Config {
    Config { tso: Some(Bytes::new(65_536)), ..linux() }
}

#[test]
fn a_timeout_leaves_a_segment_more_than_what_was_sent_too_recently_to_be_lost() {
    // `tcp_enter_loss`: cwnd = tcp_packets_in_flight() + 1.
    let mut r = Rig::new(&single());
    r.write(2);
    r.advance(ms(290));
    assert_eq!(r.write(2), [2, 3]);
    assert_eq!(r.fire(), Ok(vec![0]), "the RTO comes 300 ms after the first segment");
    assert_eq!((r.info().ca_state, r.info().lost_all.get()), (Ca::Loss, 2000));
    assert_eq!(r.cwnd(), 3000);
}

#[test]
fn an_ack_that_ends_at_sacked_data_shortens_the_timeout_which_forgets_all_sacks() {
    // `tcp_check_sack_reneging`, `tcp_timeout_mark_lost`.
    let mut r = Rig::new(&single());
    r.write(10);
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[2..4]), [0; 0]);
    r.advance(ms(1));
    assert_eq!(r.ack(2), [0; 0], "nothing is retransmitted, and the state remains");
    let info = r.info();
    assert_eq!((info.ca_state, info.sacked.get()), (Ca::Disorder, 2000));
    // The samples are 100, 100 (by SACK) and 101 ms, the mean 100.125 ms.
    let begun = r.now;
    assert_eq!(r.fire(), Ok(vec![2]));
    assert_eq!(r.now.since(begun), Dur::from_nanos(50_062_500));
    let info = r.info();
    assert_eq!((info.ca_state, info.sacked.get(), info.lost_all.get()), (Ca::Loss, 0, 8000));
    assert_eq!(r.cwnd(), 1000, "RACK spares none");
}

#[test]
fn an_ack_that_shows_that_sacked_data_are_still_there_ends_the_wait_for_reneging() {
    let mut r = Rig::new(&single());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[2..4]);
    r.advance(ms(1));
    r.ack(2);
    r.advance(ms(5));
    assert_eq!(r.ack(4), [0; 0]);
    assert_eq!(r.info().ca_state, Ca::Open);
    let begun = r.now;
    assert_eq!(r.fire(), Ok(vec![4]));
    assert!(r.now.since(begun) > ms(200), "the retransmission timer");
}

#[test]
fn by_rfc_5681_a_timeout_leaves_one_segment() {
    let rack = LossDetection::Rack { dsack_adaptation: true };
    let mut r = Rig::new(&Config { tlp: Tlp::Off, loss_detection: rack, ..rfc() });
    r.write(2);
    r.advance(ms(950));
    r.write(2);
    r.fire().unwrap();
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Loss, 1000));
}

#[test]
fn after_a_timeout_the_loss_of_a_retransmission_begins_a_recovery_with_another_reduction() {
    // RFC 5681 section 4.3; `tcp_fastretrans_alert`, FLAG_LOST_RETRANS.
    let mut r = Rig::new(&single());
    r.write(4);
    assert_eq!(r.fire(), Ok(vec![0]));
    r.advance(ms(100));
    assert_eq!(r.ack(1), [1, 2], "slow start");
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Loss, 2000));
    r.advance(ms(100));
    assert_eq!(r.sack(1, &[2..3]), [1], "the other retransmission of the same time arrived");
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Recovery, 1000));
    assert_eq!(r.info().ssthresh.get(), 2000);
}

#[test]
fn the_reordering_timer_begins_a_recovery_as_if_a_segment_had_been_delivered() {
    // `tcp_rack_reo_timeout`: tcp_cwnd_reduction(sk, 1, 0, 0).
    let mut r = Rig::new(&single());
    r.write(12);
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Recovery, 10_000));
    // Two of ten are delivered with a threshold of five segments: one may be sent, and was.
    r.advance(ms(1));
    assert_eq!(r.sack(0, &[1..3]), [0; 0]);
    assert_eq!(r.cwnd(), 9000);
    r.advance(ms(1));
    assert_eq!(r.sack(0, &[1..4]), [11]);
}

#[test]
fn a_retransmission_ends_where_the_window_that_has_shrunk_ends_and_the_first_segment_is_sent_without_one() {
    // `__tcp_retransmit_skb`.
    let mut r = Rig::new(&linux());
    r.write(8);
    r.advance(ms(100));
    r.window = 0;
    let mut ack = r.ack_in(seg(0));
    ack.sacks = [seg(4)..seg(8)].into_iter().collect();
    r.deliver(&ack);
    let sent = r.drain();
    assert_eq!(r.info().ca_state, Ca::Recovery);
    assert_eq!(sent.iter().map(|chunk| chunk.span.clone()).collect::<Vec<_>>(), [seg(0)..seg(1)]);
    r.advance(ms(100));
    r.window = 2500;
    let ack = AckIn { ack: seg(1), sacks: [seg(4)..seg(8)].into_iter().collect(), ..r.ack_in(seg(1)) };
    r.deliver(&ack);
    let sent = r.drain();
    assert_eq!(
        sent.iter().map(|chunk| chunk.span.clone()).collect::<Vec<_>>(),
        [seg(1)..seg(2), seg(2)..seg(3), seg(3)..3501]
    );
}

#[test]
fn after_an_undo_a_retransmission_needs_more_lost_segments_than_are_in_flight_again() {
    // `tcp_xmit_retransmit_queue`: retrans_out >= lost_out. F-RTO undoes the timeout, whose retransmission stays in flight.
    let mut r = Rig::new(&single());
    r.write(4);
    assert_eq!(r.fire(), Ok(vec![0]));
    r.advance(ms(100));
    // An original above the first one: the timeout was spurious. RACK then finds segments 1 and 2 lost.
    assert_eq!(r.sack(0, &[3..4]), [0; 0]);
    assert_eq!(r.info().undos, 1);
    assert_eq!(r.fire(), Ok(vec![1]), "one is in flight, of two");
    assert_eq!((r.info().ca_state, r.info().lost_all.get()), (Ca::Recovery, 2000));
}

#[test]
fn what_rack_has_judged_is_not_judged_again_after_an_undo() {
    // `tcp_rack_detect_loss` takes a lost segment off the list, to which only its transmission returns it.
    let mut r = Rig::new(&single());
    r.write(12);
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[7..10]), [0, 1, 2]);
    assert_eq!(r.info().lost_all.get(), 7000);
    r.advance(ms(10));
    for k in 0..3 {
        let mut ack = r.ack_in(seg(0));
        ack.sacks = [seg(7)..seg(10)].into_iter().collect();
        ack.dsack = Some(seg(k)..seg(k + 1));
        r.deliver(&ack);
    }
    assert_eq!((r.info().undos, r.info().lost_all.get()), (1, 0), "all retransmissions arrived twice");
    r.sent();
    r.advance(ms(100));
    r.sack(0, &[7..11]);
    assert_eq!(r.info().lost_all.get(), 0, "segments 3 to 6 were sent 210 ms ago, and have been judged");
}

#[test]
fn a_reported_duplicate_alone_grows_no_window_although_the_path_reorders() {
    // `tcp_may_raise_cwnd`: FLAG_FORWARD_PROGRESS.
    let mut r = Rig::new(&single());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[8..9]);
    r.ack(10);
    assert!(r.info().reordering > 3);
    let before = r.cwnd();
    r.write(5);
    r.fire().unwrap();
    let window = r.cwnd();
    assert!(window < before);
    let ack = AckIn { dsack: Some(seg(0)..seg(1)), ..r.ack_in(seg(10)) };
    r.deliver(&ack);
    assert_eq!(r.cwnd(), window);
}

#[test]
fn a_fin_takes_no_room_in_a_packet_and_alone_it_is_one() {
    // `tcp_skb_pcount`.
    let mut r = Rig::new(&single());
    assert_eq!(r.s.write(r.now, 2000), 2000);
    r.s.finish();
    assert_eq!(r.sent(), [0, 1]);
    assert_eq!((r.info().unacked.get(), r.s.in_flight()), (2001, 2000));
    let mut r = Rig::new(&single());
    r.write(2);
    r.s.finish();
    assert_eq!(r.sent(), [2]);
    assert_eq!((r.info().unacked.get(), r.s.in_flight()), (2001, 3000));
}

#[test]
fn reordering_is_the_distance_to_what_is_delivered_with_the_ack() {
    // `tcp_check_sack_reordering`: to the highest SACKed position, or, if nothing is SACKed any more, to SND.UNA.
    let mut r = Rig::new(&single());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[5..6]);
    r.ack(10);
    assert_eq!(r.info().reordering, 10);
    let mut r = Rig::new(&single());
    r.write(10);
    r.advance(ms(100));
    r.sack(0, &[5..6]);
    r.sack(0, &[1..9]);
    assert_eq!(r.info().reordering, 8);
}

#[test]
fn a_sack_of_older_data_than_the_last_transmission_of_the_first_segment_restarts_the_timer() {
    // `tcp_clean_rtx_queue`, FLAG_SET_XMIT_TIMER.
    let mut r = Rig::new(&single());
    r.write(2);
    r.fire().unwrap();
    let again = r.s.next_timer().unwrap();
    r.advance(ms(100));
    r.sack(0, &[1..2]);
    assert!(r.s.next_timer().unwrap() > again);
}

#[test]
fn an_ack_of_a_part_of_a_segment_acknowledges_nothing() {
    // `tcp_clean_rtx_queue`.
    let mut r = Rig::new(&single());
    r.write(1);
    let (wait, before) = (r.wait(), r.info());
    r.advance(ms(40));
    let ack = r.ack_in(501);
    r.deliver(&ack);
    let after = r.info();
    assert_eq!((r.s.snd_una(), after.unacked.get()), (501, 500));
    assert_eq!((after.cwnd, after.srtt, after.delivered_packets), (before.cwnd, before.srtt, 0));
    assert_eq!(r.wait(), wait.saturating_sub(ms(40)), "no timer was restarted");
    r.ack(1);
    assert_eq!((r.info().delivered_packets, r.info().delivered.get(), r.info().unacked.get()), (1, 1000, 0));
    assert_eq!(r.cwnd(), 11_000, "the whole segment counts now");
    assert_ne!(r.info().srtt, before.srtt);
}

/// With classic ECN and timestamps.
fn marked(cfg: &Config) -> Rig {
    Rig::with(cfg, &Agreed { ecn: EcnMode::Classic, timestamps: true, ..agreed() })
}

#[test]
fn an_undone_reduction_is_not_announced_by_cwr() {
    // `tcp_undo_cwnd_reduction`, `tcp_ecn_withdraw_cwr`.
    for (undone, cwr) in [(true, false), (false, true)] {
        let mut r = marked(&single());
        r.write(1);
        let sent = r.ts_now();
        r.fire().unwrap();
        r.advance(ms(5));
        let echo = if undone { sent } else { r.ts_now() - 5 };
        let ack = AckIn { ts_ecr: Some(echo), ..r.ack_in(seg(1)) };
        r.deliver(&ack);
        assert_eq!(r.info().undos, u64::from(undone));
        assert_eq!(r.s.write(r.now, 1000), 1000);
        assert_eq!(r.drain().iter().map(|chunk| chunk.cwr).collect::<Vec<_>>(), [cwr]);
    }
}

#[test]
fn ece_without_data_in_flight_reduces_nothing() {
    // `tcp_ack` returns before `tcp_fastretrans_alert`.
    let mut r = marked(&single());
    let ack = AckIn { ece: true, ..r.ack_in(1) };
    r.deliver(&ack);
    assert_eq!((r.info().ecn_reductions, r.cwnd()), (0, 10_000));
    r.write(2);
    let ack = AckIn { ece: true, ..r.ack_in(seg(1)) };
    r.deliver(&ack);
    assert_eq!(r.info().ecn_reductions, 1);
}

#[test]
fn after_a_timeout_an_ack_of_a_part_of_the_retransmission_lets_new_data_decide() {
    // `tcp_process_loss` asks only whether SND.UNA advanced; by RFC 5682 section 2.1 step 2a a part proves nothing.
    for (cfg, next) in [(single(), seg(2)), (Config { tlp: Tlp::Off, frto: true, ..rfc() }, 989)] {
        let mut r = Rig::new(&cfg);
        r.write(2);
        r.now = r.s.next_timer().unwrap();
        r.s.on_timer(r.now, &mut r.log).unwrap();
        assert_eq!(r.s.poll_narrow(r.now, 12, &mut r.log).unwrap().span, 1..989);
        r.advance(ms(50));
        let ack = r.ack_in(989);
        r.deliver(&ack);
        assert_eq!(r.s.write(r.now, 1000), 1000);
        assert_eq!(r.drain()[0].span.start, next);
    }
}

#[test]
fn a_hole_that_its_original_fills_shows_rack_that_the_path_reorders() {
    // `tcp_try_undo_partial`: tcp_check_sack_reordering(sk, prior_snd_una, 1), without which three SACKed segments leave no window
    // (`tcp_rack_reo_wnd`).
    let mut r = Rig::with(&single(), &Agreed { timestamps: true, ..agreed() });
    r.write(10);
    let stamp = r.ts_now();
    r.advance(ms(100));
    assert_eq!(r.sack(0, &[1..4]), [0], "three SACKed segments");
    assert_eq!(r.info().ca_state, Ca::Recovery);
    r.advance(ms(1));
    r.deliver(&AckIn { ts_ecr: Some(stamp), ..r.ack_in(seg(4)) });
    assert_eq!(r.info().ca_state, Ca::Open, "the original was only late");
    r.advance(ms(1));
    assert_eq!(r.sack(4, &[5..8]), [0; 0], "a quarter of the round trip passes first");
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.fire(), Ok(vec![4]));
}

#[test]
fn without_sack_duplicates_that_still_count_begin_the_next_recovery_with_the_ack_that_undoes_one() {
    // `tcp_try_undo_partial` leaves `sacked_out`, so that `tcp_newreno_mark_lost` marks the next segment.
    let mut r = Rig::with(&single(), &Agreed { sack: false, timestamps: true, ..agreed() });
    r.write(10);
    let stamp = r.ts_now();
    r.advance(ms(100));
    for _ in 0..5 {
        r.ack(0);
    }
    assert_eq!((r.info().ca_state, r.info().recoveries), (Ca::Recovery, 1));
    r.advance(ms(1));
    r.deliver(&AckIn { ts_ecr: Some(stamp), ..r.ack_in(seg(1)) });
    assert_eq!((r.info().undos, r.info().ca_state, r.info().recoveries), (1, Ca::Recovery, 2));
    assert!(r.sent().contains(&1), "the next segment is sent again");
}

#[test]
fn a_window_that_was_full_counts_as_full_until_something_is_sent_after_its_end() {
    // `tcp_write_xmit` calls `tcp_cwnd_validate` if it sent something or the window is full. Linux 6.1 has cwnd 21.
    let mut r = Rig::controlled_by("reno", &single());
    r.write(10);
    r.advance(ms(100));
    r.ack(4);
    r.write(1);
    r.ack(10);
    assert_eq!(r.cwnd(), 20_000);
    r.ack(11);
    assert_eq!(r.cwnd(), 21_000);
}

#[test]
fn neighbours_that_are_sacked_share_a_buffer() {
    // `tcp_shift_skb_data`: into the buffer before, and with the buffer behind if the whole was reported.
    let mut r = Rig::new(&single());
    r.write(10);
    r.advance(ms(100));
    let buffers = |r: &mut Rig, blocks: &[Span]| {
        r.sack(0, blocks);
        r.s.scoreboard.buffers()
    };
    assert_eq!(buffers(&mut r, &[2..3]), 10);
    assert_eq!(buffers(&mut r, &[2..4]), 9);
    assert_eq!(buffers(&mut r, &[5..7, 2..4]), 8);
    assert_eq!(buffers(&mut r, &[2..7]), 6, "a filled hole joins both sides");
    r.ack(4);
    assert_eq!(r.s.scoreboard.buffers(), 4, "three of them are left in one buffer, and seven to nine");
}

#[test]
fn a_packet_that_leaves_the_own_host_lets_lost_segments_through_beside_frto() {
    // `tcp_tsq_write` calls `tcp_xmit_retransmit_queue` whatever `tp->frto` is.
    for leaves in [false, true] {
        let mut r = Rig::new(&single());
        assert_eq!(r.write(10).len(), 10);
        assert_eq!(r.fire(), Ok(vec![0]), "the timeout");
        assert_eq!(r.write(1), [0; 0]);
        r.advance(ms(100));
        assert_eq!(r.ack(1), [10], "F-RTO sends new data, and the window has room for another segment");
        if leaves {
            r.s.on_packet_left();
        }
        assert_eq!(r.sent(), if leaves { vec![1] } else { vec![] });
    }
}

#[test]
fn an_ack_that_leaves_frto_undecided_lets_lost_segments_be_sent_again() {
    // `tcp_process_loss` asks for new data once, when SND.UNA advances; a later ACK that is neither a duplicate nor of an original ends with
    // `REXMIT_LOST`. RFC 5682 section 2.1 step 3 has no such ACK.
    for (cfg, sent) in [(single(), vec![1]), (Config { tlp: Tlp::Off, frto: true, ..rfc() }, vec![])] {
        let mut r = Rig::new(&cfg);
        r.write(10);
        assert_eq!(r.fire(), Ok(vec![0]), "the timeout");
        r.write(1);
        r.advance(ms(100));
        assert_eq!(r.ack(1), [10], "new data, and the window has room for another segment");
        r.window += 3_000;
        assert_eq!(r.ack(1), sent, "an update of the window");
    }
}
