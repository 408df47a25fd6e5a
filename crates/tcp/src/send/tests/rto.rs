//! Tests of RFC 6298, of RFC 5682, and of the detection of spurious recoveries.

use super::*;
use crate::config::{LossDetection, Recovery, Tlp, Undo};
use crate::log::CongestionState as Ca;

#[test]
fn the_first_sample_sets_srtt_and_half_of_it_as_variance() {
    let mut r = Rig::with(&rfc(), &Agreed { rtt: None, ..agreed() });
    assert_eq!(r.s.rto(), Dur::from_secs(1));
    r.write(1);
    r.advance(ms(400));
    r.ack(1);
    assert_eq!((r.info().srtt, r.info().rttvar), (Some(ms(400)), ms(200)));
    assert_eq!(r.s.rto(), ms(1200));
    r.write(1);
    r.advance(ms(800));
    r.ack(2);
    // rttvar = 3/4 200 + 1/4 400, srtt = 7/8 400 + 1/8 800.
    assert_eq!((r.info().srtt, r.info().rttvar), (Some(ms(450)), ms(250)));
    assert_eq!(r.s.rto(), ms(1450));
}

#[test]
fn linux_puts_the_minimum_under_the_variance() {
    let mut cfg = rfc();
    cfg.rto.min = ms(200);
    let r = Rig::with(&cfg, &Agreed { rtt: Some(ms(10)), ..agreed() });
    assert_eq!(r.s.rto(), ms(200));
    cfg.rto.min_on_variance = true;
    let r = Rig::with(&cfg, &Agreed { rtt: Some(ms(10)), ..agreed() });
    assert_eq!(r.s.rto(), ms(210));
}

#[test]
fn freebsd_adds_its_slop_to_the_bounded_timeout() {
    let rto = |rtt| {
        let cfg = Config { rto: Config::profile(Profile::FreeBsd).rto, ..rfc() };
        Rig::with(&cfg, &Agreed { rtt: Some(rtt), ..agreed() }).s.rto()
    };
    // srtt + 4 rttvar = 3 srtt after the first sample.
    assert_eq!(rto(ms(100)), ms(500));
    assert_eq!(rto(ms(1)), ms(230));
}

#[test]
fn linuxs_variance_is_the_worst_of_a_round_trip_and_falls_once_a_round_trip() {
    let mut cfg = rfc();
    cfg.rto.min = ms(200);
    cfg.rto.min_on_variance = true;
    let mut r = Rig::new(&cfg);
    assert_eq!(r.s.rto(), ms(300));
    r.write(1);
    r.advance(ms(500));
    r.ack(1);
    // mdev 200 + (400 - 50) = 550, srtt 150; RFC 6298 would say 150 + 4 x 137.5.
    assert_eq!(r.s.rto(), ms(700));
    // One exact round trip: mdev falls to 412.5; the worst of this round is that, and the variance comes a quarter
    // of the way towards it.
    r.write(1);
    r.advance(ms(150));
    r.ack(2);
    assert_eq!(r.s.rto(), ms(150) + Dur::from_micros(515_625));
}

#[test]
fn a_timestamp_gives_a_sample_where_positions_are_ambiguous() {
    let mut r = Rig::with(&rfc(), &Agreed { timestamps: true, ..agreed() });
    r.write(1);
    r.fire().unwrap();
    let stamp = r.ts_now();
    r.advance(ms(100));
    let mut ack = r.ack_in(seg(1));
    ack.ts_ecr = Some(stamp);
    r.deliver(&ack);
    assert_eq!(r.info().backoff, 0);
    assert_eq!(r.s.rto(), Dur::from_secs(1));
}

#[test]
fn after_a_timeout_one_segment_is_sent_and_the_rest_by_slow_start() {
    let mut r = Rig::new(&rfc());
    r.write(20);
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Loss, 1000));
    assert_eq!(r.info().ssthresh, Bytes::new(5000));
    r.advance(ms(100));
    assert_eq!(r.ack(1), [1, 2]);
    r.advance(ms(100));
    assert_eq!(r.ack(3), [3, 4, 5, 6]);
    assert_eq!(r.cwnd(), 4000);
    r.advance(ms(100));
    r.ack(10);
    assert_eq!(r.info().ca_state, Ca::Open);
}

#[test]
fn segments_known_to_be_delivered_are_not_sent_again_after_a_timeout() {
    let mut r = Rig::new(&rfc());
    r.write(10);
    r.sack(0, &[2..4]);
    assert_eq!(r.fire(), Ok(vec![0]));
    r.advance(ms(100));
    assert_eq!(r.ack(1), [1, 4]);
}

#[test]
fn a_timeout_resends_a_sacked_first_segment_that_the_receiver_discarded() {
    let mut r = Rig::new(&rfc());
    r.write(10);
    r.sack(0, &[1..3]);
    r.sack(1, &[1..3]);
    assert_eq!(r.info().sacked.get(), 2000);
    assert_eq!(r.fire(), Ok(vec![1]), "RFC 2018 section 8: the SACK marks are forgotten");
    assert_eq!(r.info().sacked.get(), 0);
}

#[test]
fn retries_run_out() {
    let mut r = Rig::new(&Config { retries: 3, ..rfc() });
    r.write(1);
    for _ in 0..3 {
        assert_eq!(r.fire(), Ok(vec![0]));
    }
    assert_eq!(r.fire(), Err(GaveUp::Retries));
}

#[test]
fn the_user_timeout_ends_the_wait_on_time() {
    let mut r = Rig::new(&Config { user_timeout: Some(ms(2500)), ..rfc() });
    let start = r.now;
    r.write(1);
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.fire(), Err(GaveUp::UserTimeout));
    assert_eq!(r.now.since(start), ms(2500));
}

fn frto() -> Config {
    Config { frto: true, ..rfc() }
}

#[test]
fn f_rto_sends_new_data_after_the_first_ack_and_declares_the_timeout_spurious_on_the_second() {
    let mut r = Rig::new(&frto());
    r.write(20);
    assert_eq!(r.fire(), Ok(vec![0]));
    // The late ACKs of the original segments. The first ACK may be for the retransmission.
    assert_eq!(r.ack(1), [10, 11], "step 2b: two new segments");
    let retransmitted = r.info().retransmissions;
    r.ack(2);
    assert_eq!(r.info().ca_state, Ca::Open, "step 3b");
    assert_eq!(r.cwnd(), 11_000, "restored, and grown by the ACK");
    assert_eq!((retransmitted, r.info().retransmissions, r.info().undos), (1, 1, 1));
}

#[test]
fn f_rto_falls_back_when_new_data_bring_a_duplicate() {
    for sack in [true, false] {
        let mut r = Rig::with(&frto(), &Agreed { sack, ..agreed() });
        r.write(20);
        r.fire().unwrap();
        r.advance(ms(100));
        assert_eq!(r.ack(1), [10, 11]);
        r.advance(ms(100));
        let sent = if sack { r.sack(1, &[10..11]) } else { r.ack(1) };
        assert_eq!(sent[0], 1, "step 3a: the loss was real");
        assert_eq!(r.info().ca_state, Ca::Loss);
    }
}

#[test]
fn f_rto_begins_again_when_the_same_segment_times_out_again() {
    // RFC 5682 section 2.1.
    let mut r = Rig::new(&frto());
    r.write(20);
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.ack(1), [10, 11], "step 2b");
    r.ack(2);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Open, 1));
}

#[test]
fn f_rto_does_not_begin_again_once_the_first_segment_was_acknowledged() {
    // RFC 5682 section 3.1 step 1.
    let mut r = Rig::new(&frto());
    r.write(20);
    r.fire().unwrap();
    r.advance(ms(100));
    assert_eq!(r.ack(1), [10, 11]);
    assert_eq!(r.fire(), Ok(vec![1]));
    assert_eq!(r.ack(2), [2, 3], "conventional");
    assert_eq!(r.info().ca_state, Ca::Loss);
}

#[test]
fn f_rto_ignores_a_duplicate_ack_with_sack_and_ends_with_it_without_sack() {
    // RFC 5682 section 3.1 step 2 and section 2.1 step 2a.
    for (sack, sent) in [(true, [10, 11]), (false, [1, 2])] {
        let mut r = Rig::with(&frto(), &Agreed { sack, ..agreed() });
        r.write(20);
        r.fire().unwrap();
        r.advance(ms(100));
        assert_eq!(r.ack(0), [0; 0]);
        assert_eq!(r.ack(1), sent, "with SACK: {sack}");
    }
}

#[test]
fn after_a_spurious_timeout_three_duplicates_retransmit_also_without_sack() {
    // RFC 5682 section 2.1 step 3b: `recover` becomes SND.UNA.
    let mut r = Rig::no_sack(&frto());
    r.write(30);
    r.fire().unwrap();
    assert_eq!(r.ack(1), [10, 11]);
    r.ack(2);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Open, 1));
    let sent: Vec<_> = (0..3).flat_map(|_| r.ack(2)).collect();
    assert_eq!(sent.last(), Some(&2));
    assert_eq!(r.info().ca_state, Ca::Recovery);
}

#[test]
fn f_rto_ignores_an_ack_of_a_part_of_the_retransmission() {
    // RFC 5682 section 2.1 step 2a.
    let mut r = Rig::new(&frto());
    r.write(20);
    r.fire().unwrap();
    r.advance(ms(100));
    let half = r.ack_in(501);
    r.deliver(&half);
    let sent: Vec<_> = r.drain().iter().map(|c| c.span.clone()).collect();
    assert_eq!(sent[0], 1001..2001, "conventional: the next that is lost");
    r.ack(1);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Loss, 0));
}

#[test]
fn f_rto_without_new_data_is_conventional() {
    let mut r = Rig::new(&frto());
    r.write(10);
    r.fire().unwrap();
    assert_eq!(r.ack(1), [1, 2]);
    assert_eq!(r.info().ca_state, Ca::Loss);
}

#[test]
fn f_rto_accepts_a_sack_of_an_original() {
    let mut r = Rig::new(&frto());
    r.write(20);
    r.fire().unwrap();
    r.sack(0, &[1..2]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    assert_eq!(r.info().undos, 1);
}

#[test]
fn without_sack_an_ack_beyond_the_retransmission_proves_nothing() {
    let mut r = Rig::no_sack(&frto());
    r.write(20);
    r.fire().unwrap();
    r.advance(ms(100));
    r.ack(5);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Loss, 0));
}

fn undo(undo: Undo) -> Config {
    Config { undo, recovery: Recovery::Prr, ..rfc() }
}

#[test]
fn eifel_undoes_when_the_ack_echoes_the_original() {
    for (stamp_after, undone) in [(0, true), (100, false)] {
        let cfg = undo(Undo { eifel: true, ..Undo::default() });
        let mut r = Rig::with(&cfg, &Agreed { timestamps: true, ..agreed() });
        r.write(10);
        let sent_at = r.ts_now();
        r.advance(ms(100));
        for k in 2..=4 {
            r.sack(0, &[1..k]);
        }
        assert_eq!(r.info().ca_state, Ca::Recovery);
        r.advance(ms(5));
        let mut ack = r.ack_in(seg(10));
        ack.ts_ecr = Some(sent_at + stamp_after);
        r.deliver(&ack);
        assert_eq!(r.info().ca_state, Ca::Open);
        assert_eq!(r.info().undos, u64::from(undone));
        assert_eq!(r.cwnd() >= 10_000, undone);
        assert_eq!(r.info().ssthresh == Bytes::MAX, undone);
    }
}

/// A recovery, and at its end one more retransmission, of segment 10, in flight; and the segment after the highest SACKed one.
fn two_recoveries(undo_by: Undo) -> (Rig, u64) {
    let cfg = Config { limited_transmit: false, recovery: Recovery::Sack, ..undo(undo_by) };
    let gentle = TinyReno { keep: Some(9), ..TinyReno::default() };
    let mut r = Rig::controlled(&cfg, &Agreed { timestamps: true, ..agreed() }, gentle);
    r.write(40);
    r.advance(ms(100));
    for k in [2, 3, 4, 10] {
        r.sack(0, &[1..k]);
    }
    assert_eq!(r.info().ca_state, Ca::Recovery);
    assert!(r.s.snd_nxt() >= seg(13), "new data follow");
    r.advance(ms(50));
    let next = (r.s.snd_nxt() - 1) / 1000;
    assert!(r.sack(0, &[1..10, 11..next]).contains(&10), "retransmitted in the first recovery");
    (r, next)
}

#[test]
fn an_echo_of_an_earlier_recovery_s_retransmission_does_not_undo_the_next_one() {
    let (mut r, high) = two_recoveries(Undo { eifel: true, ..Undo::default() });
    let resent_at = r.ts_now();
    let next = (r.s.snd_nxt() - 1) / 1000;
    assert!(next >= high + 4, "segments {high} to {next} are out");
    r.advance(ms(50));
    r.sack(10, &[11..high]);
    assert_eq!(
        r.info().ca_state,
        Ca::Disorder,
        "the first recovery is over, with a retransmission in flight"
    );
    r.advance(ms(50));
    let mut recover = 0;
    for k in 2..=4 {
        recover = r.s.snd_nxt();
        r.sack(10, &[high + 1..high + k, 11..high]);
    }
    assert_eq!(r.info().ca_state, Ca::Recovery, "the second");
    r.advance(ms(10));
    let mut ack = r.ack_in(recover);
    ack.ts_ecr = Some(resent_at);
    r.deliver(&ack);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Open, 0), "over, and not undone");
}

#[test]
fn a_tail_loss_probe_does_not_count_as_a_retransmission_for_undo() {
    let cfg = Config { tlp: Tlp::On, ..undo(Undo { eifel: true, dsack: true, ..Undo::default() }) };
    let mut r = Rig::with(&cfg, &Agreed { timestamps: true, ..agreed() });
    r.write(3);
    assert_eq!(r.fire().unwrap(), [2], "the probe");
    assert_eq!((r.info().tlp_probes, r.info().retransmissions), (1, 1));
    let between = r.ts_now() + 1;
    r.fire().unwrap();
    assert_eq!(r.info().ca_state, Ca::Loss);
    // The timestamp lies after the probe and before the retransmission of the timeout, so that no retransmitted segment has it.
    let mut ack = r.ack_in(seg(1));
    ack.ts_ecr = Some(between);
    r.deliver(&ack);
    assert_eq!(r.info().undos, 1);
}

#[test]
fn eifel_waits_for_retransmissions_in_flight_and_marks_nothing_more_lost_meanwhile() {
    let cfg = undo(Undo { eifel: true, ..Undo::default() });
    let mut r = Rig::with(&cfg, &Agreed { timestamps: true, ..agreed() });
    r.write(10);
    let sent_at = r.ts_now();
    r.advance(ms(100));
    for k in [3, 4, 5, 8] {
        r.sack(0, &[2..k]);
    }
    assert_eq!((r.info().ca_state, r.info().retransmissions), (Ca::Recovery, 2));
    r.advance(ms(5));
    let mut ack = r.ack_in(seg(1));
    ack.ts_ecr = Some(sent_at);
    ack.sacks.push(seg(2)..seg(8));
    r.deliver(&ack);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Recovery, 0), "segment 1 is in flight again");
    let mut ack = r.ack_in(seg(8));
    ack.ts_ecr = Some(sent_at);
    r.deliver(&ack);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Open, 1));
}

#[test]
fn dsacks_of_data_that_the_network_duplicated_undo_nothing() {
    let mut r = Rig::controlled_by("reno", &undo(Undo { dsack: true, ..Undo::default() }));
    r.write(10);
    r.advance(ms(100));
    for k in [2, 3, 4, 6] {
        r.sack(0, &[1..k]);
    }
    assert_eq!((r.info().ca_state, r.info().retransmissions), (Ca::Recovery, 1));
    // Segment 4 arrived twice, but was sent once.
    let mut dsack = r.ack_in(seg(0));
    dsack.dsack = Some(seg(4)..seg(5));
    dsack.sacks.push(seg(1)..seg(6));
    r.deliver(&dsack);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Recovery, 0));
}

#[test]
fn dsacks_beyond_the_number_of_retransmissions_undo_nothing() {
    let mut r = Rig::controlled_by("reno", &undo(Undo { dsack: true, ..Undo::default() }));
    r.write(10);
    r.advance(ms(100));
    r.ack(2);
    let mut dsack = r.ack_in(seg(2));
    dsack.dsack = Some(seg(0)..seg(1));
    r.deliver(&dsack);
    assert_eq!(r.info().spurious, 0, "nothing was retransmitted");
    for k in [4, 5, 6] {
        r.sack(2, &[3..k]);
    }
    assert_eq!((r.info().ca_state, r.info().retransmissions), (Ca::Recovery, 1));
    r.ack(10);
    dsack = r.ack_in(seg(10));
    dsack.dsack = Some(seg(2)..seg(3));
    r.deliver(&dsack);
    r.deliver(&dsack);
    assert_eq!((r.info().spurious, r.info().undos), (1, 1));
}

#[test]
fn bsd_undoes_timeouts_by_timestamp_but_not_fast_recoveries() {
    let cfg = undo(Undo { eifel_timeout: true, ..Undo::default() });
    for timeout in [true, false] {
        let mut r = Rig::with(&cfg, &Agreed { timestamps: true, ..agreed() });
        r.write(10);
        let sent_at = r.ts_now();
        r.advance(ms(100));
        if timeout {
            r.fire().unwrap();
            assert_eq!(r.info().ca_state, Ca::Loss);
        } else {
            for k in 2..=4 {
                r.sack(0, &[1..k]);
            }
            assert_eq!(r.info().ca_state, Ca::Recovery);
        }
        r.advance(ms(5));
        let mut ack = r.ack_in(seg(10));
        ack.ts_ecr = Some(sent_at);
        r.deliver(&ack);
        assert_eq!(r.info().undos, u64::from(timeout));
    }
}

#[test]
fn dsacks_of_every_retransmission_undo_even_after_recovery_ended() {
    let mut r = Rig::controlled_by("reno", &undo(Undo { dsack: true, ..Undo::default() }));
    r.write(10);
    r.advance(ms(100));
    // Segments 0 and 1 arrive late; both are retransmitted.
    for k in 3..=8 {
        r.sack(0, &[2..k]);
    }
    assert_eq!(r.info().retransmissions, 2);
    r.ack(10);
    assert_eq!(r.info().ca_state, Ca::Open);
    assert_eq!(r.cwnd(), 2000);
    r.advance(ms(100));
    let mut dsack = r.ack_in(seg(10));
    dsack.dsack = Some(seg(0)..seg(1));
    r.deliver(&dsack);
    assert_eq!(r.cwnd(), 2000, "one of two");
    dsack.dsack = Some(seg(1)..seg(2));
    r.deliver(&dsack);
    assert_eq!(r.cwnd(), 10_000);
    assert_eq!((r.info().undos, r.info().spurious), (1, 2));
}

#[test]
fn rack_restores_when_bursts_arrive_in_reverse_order() {
    // The FreeBSD column: P4 P3 P2 P1, P8 P7 P6 P5, P10 P9 at 45 ms.
    for (restore, cwnd_at_least) in [(true, 10_000), (false, 0)] {
        let cfg = Config {
            loss_detection: LossDetection::Rack { dsack_adaptation: true },
            ..undo(Undo { rack_restore: restore, ..Undo::default() })
        };
        let mut r = Rig::with(&cfg, &Agreed { rtt: Some(ms(45)), ..agreed() });
        assert_eq!(r.write(10).len(), 10);
        r.advance(ms(45));
        r.sack(0, &[3..4]);
        r.sack(0, &[2..4]);
        r.sack(0, &[1..4]);
        // P1 is later than the reordering window allows and is retransmitted.
        assert_eq!(r.fire(), Ok(vec![0]));
        assert_eq!(r.info().ca_state, Ca::Recovery, "the regime is reached");
        r.advance(ms(1));
        r.ack(4);
        assert_eq!(r.s.snd_una(), 4001);
        assert_eq!(r.info().undos, u64::from(restore));
        r.sack(4, &[7..8]);
        r.sack(4, &[6..8]);
        r.sack(4, &[5..8]);
        r.ack(8);
        r.sack(8, &[9..10]);
        r.ack(10);
        assert!(r.cwnd() >= cwnd_at_least, "{}", r.cwnd());
        assert_eq!(r.info().ssthresh == Bytes::MAX, restore, "slow start goes on");
        assert_eq!(r.info().recoveries, 1, "reordering is known from then on");
    }
}

#[test]
fn rack_does_not_restore_when_the_retransmission_was_needed() {
    let cfg = Config {
        loss_detection: LossDetection::Rack { dsack_adaptation: true },
        ..undo(Undo { rack_restore: true, ..Undo::default() })
    };
    let mut r = Rig::new(&cfg);
    r.write(10);
    r.advance(ms(100));
    for k in 2..=10 {
        r.sack(0, &[1..k]);
    }
    r.advance(ms(91));
    r.ack(10);
    assert_eq!((r.info().ca_state, r.info().undos), (Ca::Open, 0));
}

/// Small segments under the rules of Linux; the timer of probes is off.
fn small_segments(lengths: &[u64]) -> Rig {
    let cfg = Config {
        nodelay: true,
        tlp: crate::config::Tlp::Off,
        ..Config { mss: Bytes::new(1000), ..Config::profile(Profile::Linux) }
    };
    let mut r = Rig::new(&cfg);
    for &n in lengths {
        assert_eq!(r.s.write(r.now, n), n);
        assert_eq!(r.drain().len(), 1);
    }
    r
}

/// The spans of what the timeout sends.
fn spans_at_timeout(r: &mut Rig) -> Vec<Span> {
    r.now = r.s.next_timer().expect("a timer runs");
    r.s.on_timer(r.now, &mut r.log).unwrap();
    r.s.audit_counts().unwrap();
    r.drain().into_iter().map(|chunk| chunk.span).collect()
}

#[test]
fn a_retransmission_of_linux_takes_the_segments_behind_it_along_up_to_a_full_one() {
    let mut r = small_segments(&[300, 300, 300, 300]);
    assert_eq!(spans_at_timeout(&mut r), [1..901]);
    r.s.audit_counts().unwrap();
    let ack = r.ack_in(901);
    r.deliver(&ack);
    assert_eq!(r.drain()[0].span, 901..1201);
    // A full segment takes nothing along, and the peer's window bounds what is taken.
    let mut r = small_segments(&[1000, 300]);
    assert_eq!(spans_at_timeout(&mut r), [1..1001]);
    let mut r = small_segments(&[300, 300, 300]);
    r.window = 700;
    let ack = r.ack_in(1);
    r.deliver(&ack);
    assert_eq!(spans_at_timeout(&mut r), [1..601]);
}

#[test]
fn a_retransmission_of_linux_ends_before_a_sacked_segment_and_at_the_end_of_a_record() {
    let mut r = small_segments(&[300, 300, 300]);
    let mut ack = r.ack_in(1);
    ack.sacks.push(601..901);
    r.deliver(&ack);
    r.drain();
    assert_eq!(spans_at_timeout(&mut r), [1..601]);
    let mut r = small_segments(&[300]);
    r.s.end_record();
    for _ in 0..2 {
        assert_eq!(r.s.write(r.now, 300), 300);
        r.drain();
    }
    assert_eq!(spans_at_timeout(&mut r), [1..301]);
}
