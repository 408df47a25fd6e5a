use super::*;
use crate::{Profile, TimerTicks};

#[test]
fn quick_acks_are_half_of_the_segments_of_the_announced_window_and_two_if_that_is_none() {
    for (window, quick) in [(100_000, 16), (8760, 4), (3999, 1), (1999, 2)] {
        let mut acks = AckPolicy::new(&Config::profile(Profile::Linux));
        acks.data(Time::ZERO, 1000, false, window, Dur::from_secs(1));
        assert_eq!(acks.quick, quick, "a window of {window} B");
    }
}

#[test]
fn the_packets_that_the_nic_merged_and_not_their_sum_are_evidence_of_the_segment_size() {
    // `tcp_measure_rcv_mss` takes `gso_size`. Half of the window of 4000 bytes is two packets of 800 bytes, or one segment of 1600.
    for (packet, found) in [(800, (800, 2)), (u64::MAX, (1600, 1))] {
        let mut acks = AckPolicy::new(&Config::profile(Profile::Linux));
        acks.set_mss(8960);
        acks.measure_at_most(packet);
        acks.data(Time::ZERO, 1600, false, 4000, Dur::from_secs(1));
        assert_eq!((acks.rcv_mss(), acks.quick), found);
    }
}

#[test]
fn linux_counts_quick_acks_of_new_data_and_not_answers_window_updates_or_packets() {
    // `tcp_dec_quickack_mode` of 6.1.y asks whether an ACK was scheduled; 4.6 counted packets.
    for (profile, left) in [(Profile::Linux, [16, 16, 15, 14]), (Profile::Linux46, [15, 14, 13, 10])] {
        let mut acks = AckPolicy::new(&Config::profile(profile));
        acks.data(Time::ZERO, 1000, false, 100_000, Dur::from_secs(1));
        acks.quick = 16;
        acks.scheduled = false;
        let mut now = Vec::new();
        for (why, packets) in [(AckReason::Answer, 1), (AckReason::WindowUpdate, 1)] {
            acks.demand(why);
            acks.sent(true, packets);
            now.push(acks.quick);
        }
        acks.demand(AckReason::EveryN);
        acks.sent(true, 1);
        now.push(acks.quick);
        acks.schedule();
        acks.sent(false, 3);
        now.push(acks.quick);
        assert_eq!(now, left, "{profile:?}");
    }
}

#[test]
fn a_segment_without_data_beside_header_prediction_sends_an_ack_whose_timer_is_about_to_expire() {
    // `tcp_send_delayed_ack`: within a quarter of the delay of 40 ms.
    let at = |ms| Time::ZERO + Dur::from_millis(ms);
    let mut acks = AckPolicy::new(&Config::profile(Profile::Linux));
    acks.data(Time::ZERO, 1000, false, 100_000, Dur::from_secs(1));
    acks.quick = 0;
    let ask = AckInput { unacked: 1000, gaps: false, srtt: None, nxt: 1001, rtt: Dur::ZERO };
    acks.ask_later(false);
    assert_eq!(acks.decide(at(0), ask, || true), Some(Verdict::Delay(at(40))));
    acks.check_scheduled();
    assert_eq!(acks.decide(at(29), ask, || true), Some(Verdict::Delay(at(40))));
    acks.check_scheduled();
    assert_eq!(acks.decide(at(30), ask, || true), Some(Verdict::Now(AckReason::Timer)));
    acks.sent(true, 1);
    acks.check_scheduled();
    assert!(!acks.undecided(), "nothing is scheduled");
}

#[test]
fn freebsd_acknowledges_a_merged_segment_and_data_after_a_window_of_zero_at_once() {
    // `DELAY_ACK` of tcp_input.c: no delay above `t_maxseg` (LRO), nor after `TF_RXWIN0SENT`.
    for (profile, expected) in [(Profile::FreeBsd, [false, true, true]), (Profile::Rfc, [false; 3])] {
        let at_once = [(1460, 65_535), (1461, 65_535), (1, 0)].map(|(len, window)| {
            let mut acks = AckPolicy::new(&Config::profile(profile));
            acks.set_mss(1460);
            acks.data(Time::ZERO, len, false, window, Dur::from_secs(1));
            acks.ask_later(false);
            let ask = AckInput { unacked: len, gaps: false, srtt: None, nxt: len + 1, rtt: Dur::ZERO };
            acks.decide(Time::ZERO, ask, || true) == Some(Verdict::Now(AckReason::EveryN))
        });
        assert_eq!(at_once, expected, "{profile:?}");
    }
}

#[test]
fn an_ack_that_is_postponed_waits_for_its_timer_or_the_next_arrival_as_where_a_tick_is_longer() {
    let at = |ms| Time::ZERO + Dur::from_millis(ms);
    let mut acks = AckPolicy::new(&Config::profile(Profile::Linux));
    acks.data(Time::ZERO, 1000, false, 100_000, Dur::from_secs(1));
    acks.quick = 0;
    assert!(!acks.postpone(at(0)), "no timer runs");
    assert_eq!(acks.delay(at(0), None), Verdict::Delay(at(40)));
    assert!(!acks.postpone(at(20)), "it is not about to expire");
    assert!(acks.postpone(at(31)));
    assert_eq!(acks.delay(at(31), None), Verdict::Delay(at(40)));
    assert_eq!(acks.delay(at(34), None), Verdict::Now(AckReason::Timer));
}

#[test]
fn with_ticks_gaps_between_data_and_the_delay_of_an_ack_are_numbers_of_ticks() {
    // `tcp_event_data_recv` and `tcp_send_delayed_ack` count `jiffies`. The gap from 0.9 to 22.1 ms is 22 ticks, and the delay is
    // half of the one before and the gap.
    let us = |n| Time::ZERO + Dur::from_micros(n);
    let delayed = |timer_ticks| {
        let mut acks = AckPolicy::new(&Config { timer_ticks, ..Config::profile(Profile::Linux) });
        for at in [900, 22_100] {
            acks.data(us(at), 1000, false, 100_000, Dur::from_secs(1));
        }
        let ato = acks.ato;
        let srtt = Some(Dur::from_millis(100));
        let first = acks.delay(us(22_100), srtt);
        (ato, first, acks.delay(us(54_400), srtt))
    };
    let ticks = (Dur::from_millis(42), Verdict::Delay(us(65_000)), Verdict::Now(AckReason::Timer));
    assert_eq!(delayed(TimerTicks::Linux), ticks);
    let exact = (Dur::from_micros(41_200), Verdict::Delay(us(63_300)), Verdict::Now(AckReason::Timer));
    assert_eq!(delayed(TimerTicks::Off), exact);
}

#[test]
fn the_timer_of_a_delayed_ack_that_was_sent_sends_the_ack_of_compressed_ones() {
    let ms = |n| Time::ZERO + Dur::from_millis(n);
    let mut acks = AckPolicy::new(&Config::profile(Profile::Linux));
    // The timer is set for 40 ms, and the ACK leaves with data.
    acks.data(ms(1), 1000, false, 100_000, Dur::from_secs(1));
    acks.quick = 0;
    let Verdict::Delay(at) = acks.delay(ms(1), Some(Dur::from_millis(100))) else { panic!("it is delayed") };
    acks.sent(false, 1);
    assert_eq!(acks.deadline(), Time::MAX);
    // An ACK that was left out one millisecond before waits for 1.1 ms at most, and leaves when that timer fires.
    let before = at.saturating_sub(Dur::from_micros(500));
    acks.compressed = 1;
    acks.compressed_until = before + Dur::from_micros(1100);
    assert_eq!(acks.deadline(), at);
    assert!(!acks.only_compressed_is_due(at) && acks.compressed_due(at));
    assert_eq!((acks.due, acks.compressed_until), (Some(AckReason::OutOfOrder), Time::MAX));
    acks.sent(true, 1);
    // It has fired: the next ones wait for their own timer.
    acks.compressed = 1;
    acks.compressed_until = at + Dur::from_millis(5);
    assert_eq!(acks.deadline(), at + Dur::from_millis(5));
}

#[test]
fn linux_7_3_expects_data_within_200_ms_however_rare_they_are() {
    // `TCP_DELACK_MAX` in `tcp_event_data_recv` and `tcp_delack_timer_handler`.
    let (ms, rto) = (Dur::from_millis, Dur::from_secs(1));
    for (profile, longest) in [(Profile::Linux61, [320, 460]), (Profile::Linux73, [200, 200])] {
        let mut acks = AckPolicy::new(&Config::profile(profile));
        acks.ato = ms(160);
        acks.scheduled = true;
        acks.timer = Time::ZERO;
        assert!(acks.fire(rto));
        let doubled = acks.ato;
        acks.ato = longest.map(ms)[0];
        acks.gap(Time::ZERO + longest.map(ms)[0] - ms(20), 100_000, rto);
        assert_eq!([doubled, acks.ato], longest.map(ms), "{profile:?}");
    }
}
