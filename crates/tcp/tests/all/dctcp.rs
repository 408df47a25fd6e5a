//! DCTCP's receiver: the state machine of RFC 8257, and the three ways to acknowledge a change of mark.
//!
//! The example is the one of "Rethinking the Development and Test of TCP", section 3.2: packets of 100 bytes, named by
//! their sequence number, 100 the first.

use crate::common::*;
use tcpassay_tcp::{
    AckCheck, AckDecision, AckReason, Config, DctcpReceiver, DelayedAck, EcnMode, LogEvent, MemoryRules,
    PacketPages, Profile, RecvMemory,
};
use tcpassay_units::{Bytes, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

fn config(base: &Config, receiver: DctcpReceiver) -> Config {
    Config {
        mss: Bytes::new(100),
        timestamps: false,
        ecn: EcnMode::Dctcp,
        dctcp_receiver: receiver,
        // The example begins after the quick acknowledgements of a connection's start.
        delayed_ack: DelayedAck { quick_ack: 0, ..base.delayed_ack },
        ..base.clone()
    }
}

fn rfc(receiver: DctcpReceiver) -> Config {
    config(&Config::profile(Profile::Rfc), receiver)
}

fn linux_4_6(receiver: DctcpReceiver) -> Config {
    config(&Config::profile(Profile::Linux46), receiver)
}

/// A receiver whose peer's first byte has sequence number 100.
fn receiver(cfg: &Config) -> One {
    let mut one = One { c: listen(cfg, ISS), now: Time::ZERO };
    let syn = Segment { seq: SeqNum::new(99), ..syn(cfg) }.flags(Flags::ECE | Flags::CWR);
    let out = one.take(&syn);
    assert_eq!(out[0].segment.flags, Flags::SYN | Flags::ACK | Flags::ECE);
    let ack = Segment { seq: SeqNum::new(100), ..ack(0, 1) };
    assert_eq!(one.take(&ack), []);
    one.c.set_log(true);
    one
}

/// The packets from sequence number `first` on, `count` of them, merged by GRO.
fn packets(first: u32, count: u32) -> Segment {
    Segment { seq: SeqNum::new(first), len: 100 * count, ..ack(0, 1) }
}

/// The ACKs that the receiver sends, as `"600 ECE"`.
fn acks(out: &[tcpassay_tcp::Outgoing]) -> Vec<String> {
    let one = |o: &tcpassay_tcp::Outgoing| {
        assert_eq!(o.segment.len, 0);
        let ece = if o.segment.flags.has(Flags::ECE) { " ECE" } else { "" };
        format!("{}{ece}", o.segment.ack)
    };
    out.iter().map(one).collect()
}

fn decisions(one: &mut One) -> Vec<(AckDecision, AckReason)> {
    one.c
        .drain_log()
        .filter_map(|e| match e.what {
            LogEvent::Ack { decision, why, .. } => Some((decision, why)),
            _ => None,
        })
        .collect()
}

/// Steps 1 and 2: 100 to 400 arrive merged and are acknowledged, 500 starts the delayed-ACK timer; all carry CE.
fn steps_1_and_2(cfg: &Config) -> One {
    let mut one = receiver(cfg);
    assert_eq!(acks(&one.give(&packets(100, 4), Ecn::Ce)), ["500 ECE"]);
    assert_eq!(one.give(&packets(500, 1), Ecn::Ce), []);
    assert!(one.c.next_timer().is_some(), "a delayed ACK for packet 500");
    decisions(&mut one);
    one
}

#[test]
fn the_papers_eight_steps_end_without_an_ack_if_the_ack_of_older_data_clears_the_timer() {
    let mut one = steps_1_and_2(&rfc(DctcpReceiver::ClearTimer));
    // Steps 3 to 6: 600 to 900 arrive merged and unmarked; only earlier data are acknowledged, with ECE.
    assert_eq!(acks(&one.give(&packets(600, 4), Ecn::Ect0)), ["600 ECE"]);
    assert_eq!(
        decisions(&mut one),
        [(AckDecision::Now, AckReason::CeChange), (AckDecision::Forgotten, AckReason::CeChange)]
    );
    // Steps 7 and 8: no timer is set, and no ACK is sent at any later time.
    assert_eq!(one.c.next_timer(), None);
    assert_eq!(one.until(at_ms(10_000)), []);
    assert_eq!(one.c.info().forgotten_acks, 1);
    // After its timeout the sender retransmits 600, and only then receives the ACK of 900.
    assert_eq!(acks(&one.give(&packets(600, 1), Ecn::Ect0)), ["1000"]);
}

#[test]
fn the_papers_eight_steps_continue_if_the_timer_is_set_again() {
    let mut one = steps_1_and_2(&rfc(DctcpReceiver::Rearm));
    // Four packets are unacknowledged, so that an ACK is due.
    assert_eq!(acks(&one.give(&packets(600, 4), Ecn::Ect0)), ["600 ECE", "1000"]);
}

#[test]
fn the_papers_eight_steps_continue_if_the_change_is_acknowledged_at_once() {
    let mut one = steps_1_and_2(&rfc(DctcpReceiver::Immediate));
    assert_eq!(acks(&one.give(&packets(600, 4), Ecn::Ect0)), ["600 ECE", "1000"]);
    assert_eq!(
        decisions(&mut one),
        [(AckDecision::Now, AckReason::CeChange), (AckDecision::Now, AckReason::CeChange)]
    );
}

#[test]
fn a_single_packet_that_changes_the_mark_waits_for_its_own_timer_when_it_is_armed_again() {
    let mut one = steps_1_and_2(&rfc(DctcpReceiver::Rearm));
    one.now = at_ms(50);
    assert_eq!(acks(&one.give(&packets(600, 1), Ecn::Ect0)), ["600 ECE"]);
    let later = one.until(at_ms(1000));
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].0, at_ms(250), "200 ms from the new packet, not from the old one");
    assert_eq!(acks(&[later[0].1]), ["700"]);
}

#[test]
fn a_single_packet_that_changes_the_mark_is_acknowledged_at_once_by_linux_since_2018() {
    let mut one = steps_1_and_2(&rfc(DctcpReceiver::Immediate));
    assert_eq!(acks(&one.give(&packets(600, 1), Ecn::Ect0)), ["600 ECE", "700"]);
    assert_eq!(one.c.next_timer(), None);
}

#[test]
fn linux_4_6_forgets_the_packet_that_changes_the_mark_when_it_carries_cwr() {
    let mut one = steps_1_and_2(&linux_4_6(DctcpReceiver::ClearTimer));
    // The sender has just reduced its window: because of CWR the packet takes the slow path.
    assert_eq!(acks(&one.give(&packets(600, 4).flags(Flags::CWR), Ecn::Ect0)), ["600 ECE"]);
    assert_eq!(one.c.next_timer(), None);
    assert_eq!(one.c.info().forgotten_acks, 1);
}

#[test]
fn linux_4_6_remembers_the_packet_that_changes_the_mark_on_the_fast_path() {
    let mut one = steps_1_and_2(&linux_4_6(DctcpReceiver::ClearTimer));
    assert_eq!(acks(&one.give(&packets(600, 4), Ecn::Ect0)), ["600 ECE", "1000"]);
    assert_eq!(one.c.info().forgotten_acks, 0);
}

/// Receive memory of Linux 6.1 that grows.
fn memory() -> RecvMemory {
    RecvMemory {
        size: Bytes::new(131_072),
        max: Bytes::new(6 << 20),
        locked: false,
        shrink: false,
        passive: true,
        ip: Bytes::new(20),
        gso: None,
        rules: MemoryRules::Half,
        buffer: Some(Bytes::new(768)),
        pages: PacketPages::Sender,
    }
}

#[test]
fn the_ack_before_a_change_of_the_mark_has_the_window_of_linux_from_the_next_position_on() {
    // `tcp_select_window` counts from RCV.NXT, also where the ACK field is older.
    let base = config(&Config::profile(Profile::Linux), DctcpReceiver::Immediate);
    let mut one = receiver(&Config { recv_memory: Some(memory()), ..base });
    assert_eq!(one.give(&packets(100, 1), Ecn::Ect0), []);
    assert_eq!(one.c.read(one.now, Bytes::new(100)), Bytes::new(100));
    assert_eq!(one.sent(), []);
    let out = one.give(&packets(200, 1), Ecn::Ce);
    assert_eq!(acks(&out), ["200", "300 ECE"]);
    assert_eq!(out[0].segment.window, out[1].segment.window);
}

#[test]
fn linux_6_forgets_the_packet_that_changes_the_mark_where_it_charges_socket_memory() {
    // Since 6.0 memory is returned when data are read, so that the next packet takes the slow path (`sk_forward_alloc` in
    // `tcp_rcv_established`). A packet that fits into the rest of a page that is in use takes the fast path.
    for (read, forgotten) in [(100, 1), (0, 0)] {
        let base = config(&Config::profile(Profile::Linux), DctcpReceiver::ClearTimer);
        let mut one = receiver(&Config { recv_memory: Some(memory()), ..base });
        one.give(&packets(100, 4), Ecn::Ce);
        assert_eq!(one.c.read(one.now, Bytes::new(400)), Bytes::new(400));
        assert_eq!(acks(&one.sent()), ["500 ECE"]);
        one.give(&packets(500, 1), Ecn::Ce);
        assert!(one.c.next_timer().is_some(), "a delayed ACK for packet 500");
        assert_eq!(one.c.read(one.now, Bytes::new(read)), Bytes::new(read));
        let told = acks(&one.give(&packets(600, 4), Ecn::Ect0));
        assert_eq!(told.first().map(String::as_str), Some("600 ECE"));
        assert_eq!(one.c.info().forgotten_acks, forgotten);
        let silent = told.len() == 1 && one.c.next_timer().is_none();
        assert_eq!(silent, forgotten > 0);
    }
}

#[test]
fn a_delayed_ack_that_left_with_data_is_sent_again_at_a_change_by_linux_4_6_and_not_by_6() {
    // `delayed_ack_reserved` of 4.6 is cleared by ACKs without data alone; since 4.18 the timer counts.
    for (profile, told) in [(Profile::Linux46, vec!["200"]), (Profile::Linux, vec![])] {
        let mut one = receiver(&config(&Config::profile(profile), DctcpReceiver::ClearTimer));
        assert_eq!(one.give(&packets(100, 1), Ecn::Ect0), []);
        assert_eq!(one.c.write(one.now, Bytes::new(50)), Bytes::new(50));
        let reply = one.sent();
        assert_eq!((reply.len(), reply[0].segment.len, reply[0].segment.ack), (1, 50, SeqNum::new(200)));
        assert_eq!(acks(&one.give(&packets(200, 1), Ecn::Ce)), told, "{profile:?}");
    }
}

#[test]
fn linux_4_6_delays_a_single_packet_that_changes_the_mark_on_the_fast_path() {
    let mut one = steps_1_and_2(&linux_4_6(DctcpReceiver::ClearTimer));
    assert_eq!(acks(&one.give(&packets(600, 1), Ecn::Ect0)), ["600 ECE"]);
    assert_eq!(one.c.next_timer(), Some(at_ms(40)), "ato");
}

#[test]
fn linux_4_6_with_the_papers_fix_acknowledges_the_packet_with_cwr() {
    let mut one = steps_1_and_2(&linux_4_6(DctcpReceiver::Rearm));
    assert_eq!(acks(&one.give(&packets(600, 4).flags(Flags::CWR), Ecn::Ect0)), ["600 ECE", "1000"]);
}

#[test]
fn the_ack_after_a_forgotten_ack_covers_its_data() {
    let mut one = steps_1_and_2(&linux_4_6(DctcpReceiver::ClearTimer));
    one.give(&packets(600, 1).flags(Flags::CWR), Ecn::Ect0);
    assert_eq!(one.c.info().forgotten_acks, 1);
    assert_eq!(acks(&one.give(&packets(700, 1), Ecn::Ect0)), ["800"]);
}

#[test]
fn without_a_delayed_ack_a_change_of_mark_sends_nothing_extra() {
    for r in [DctcpReceiver::ClearTimer, DctcpReceiver::Rearm] {
        let mut one = receiver(&rfc(r));
        assert_eq!(acks(&one.give(&packets(100, 2), Ecn::Ect0)), ["300"]);
        assert_eq!(acks(&one.give(&packets(300, 2), Ecn::Ce)), ["500 ECE"]);
    }
}

#[test]
fn a_delayed_ack_that_its_timer_sent_is_not_sent_again_at_a_change() {
    for r in [DctcpReceiver::ClearTimer, DctcpReceiver::Rearm, DctcpReceiver::Immediate] {
        let mut one = receiver(&rfc(r));
        one.give(&packets(100, 1), Ecn::Ect0);
        assert_eq!(one.until(at_ms(200)).len(), 1);
        assert_eq!(acks(&one.give(&packets(200, 2), Ecn::Ce)), ["400 ECE"]);
    }
}

#[test]
fn cwr_is_acknowledged_at_once_by_linux_since_2018() {
    let cfg = config(&Config::profile(Profile::Linux), DctcpReceiver::Immediate);
    let mut one = receiver(&cfg);
    assert_eq!(acks(&one.give(&packets(100, 1).flags(Flags::CWR), Ecn::Ect0)), ["200"]);
    assert_eq!(acks(&one.give(&packets(200, 1), Ecn::Ect0)), [""; 0]);
}

#[test]
fn each_ack_has_the_mark_of_the_data_that_it_acknowledges() {
    let mut one = receiver(&rfc(DctcpReceiver::Immediate));
    let mut heard = Vec::new();
    for (i, ecn) in [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ect0].into_iter().enumerate() {
        let first = 100 + 100 * u32::try_from(i).expect("small");
        heard.extend(acks(&one.give(&packets(first, 1), ecn)));
    }
    assert_eq!(heard, ["200", "300 ECE", "500 ECE", "600"]);
}

#[test]
fn cwr_does_not_clear_ece_while_marks_go_on() {
    let mut one = receiver(&rfc(DctcpReceiver::Immediate));
    assert_eq!(acks(&one.give(&packets(100, 2), Ecn::Ce)), ["300 ECE"]);
    assert_eq!(acks(&one.give(&packets(300, 2).flags(Flags::CWR), Ecn::Ce)), ["500 ECE"]);
}

#[test]
fn the_profiles_differ_in_receiver_and_check_as_documented() {
    let old = Config::profile(Profile::Linux46);
    assert_eq!(
        (old.dctcp_receiver, old.ack_check),
        (DctcpReceiver::ClearTimer, AckCheck::IfScheduledOnSlowPath)
    );
    assert_eq!(Config::profile(Profile::Linux).dctcp_receiver, DctcpReceiver::Immediate);
}

#[test]
fn a_packet_that_is_not_ecn_capable_ends_the_marks_but_not_with_linux() {
    // RFC 8257 section 3.2 depends on CE alone; `__tcp_ecn_check_ce` of Linux ignores Not-ECT packets.
    for (cfg, after) in
        [(rfc(DctcpReceiver::Immediate), "900"), (linux_4_6(DctcpReceiver::Immediate), "900 ECE")]
    {
        let mut one = receiver(&cfg);
        one.give(&packets(100, 4), Ecn::Ce);
        let told = acks(&one.give(&packets(500, 4), Ecn::NotEct));
        assert_eq!(told.last().map(String::as_str), Some(after));
    }
}

#[test]
fn cwr_on_a_packet_with_ce_is_processed_first() {
    // RFC 8257 section 3.2 and erratum 3639 of RFC 3168.
    for ecn in [tcpassay_tcp::EcnMode::Classic, tcpassay_tcp::EcnMode::Dctcp] {
        let mut one = receiver(&Config { ecn, ..rfc(DctcpReceiver::Immediate) });
        one.give(&packets(100, 2), Ecn::Ce);
        let told = acks(&one.give(&packets(300, 2).flags(Flags::CWR), Ecn::Ce));
        assert_eq!(told, ["500 ECE"]);
    }
}
