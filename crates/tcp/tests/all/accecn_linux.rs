//! Accurate ECN in Linux's form (`stack.ecn_form = linux`): `tcp_ecn.h`, `tcp_options_fit_accecn`, `tcp_accecn_process`.

use crate::common::*;
use tcpassay_tcp::{AccurateInfo, AccurateUse, Config, EcnForm, EcnMode, StackFlavor, State};
use tcpassay_units::Time;
use tcpassay_wire::{AccEcn, Ecn, Flags, Segment};

const ALL: Flags = Flags::from_bits(Flags::AE.bits() | Flags::CWR.bits() | Flags::ECE.bits());

fn form() -> Config {
    let flavor = StackFlavor::Linux;
    Config { ecn: EcnMode::Accurate, ecn_form: EcnForm::Linux, flavor, ..plain() }
}

/// The ACE field of a counter.
fn ace(counter: u8) -> Flags {
    [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)]
        .into_iter()
        .filter(|(bit, _)| counter & bit != 0)
        .fold(Flags::NONE, |flags, (_, flag)| flags | flag)
}

/// ECT(0), CE, ECT(1).
fn option(fields: u8, counts: [u32; 3]) -> AccEcn {
    AccEcn { e1b_first: true, fields, counts }
}

fn with(mut segment: Segment, counts: [u32; 3]) -> Segment {
    segment.options.set_accecn(&AccEcn { e1b_first: false, fields: 3, counts });
    segment
}

fn accepted(cfg: &Config) -> One {
    let mut one = One { c: listen(cfg, ISS), now: Time::ZERO };
    let answer = one.take(&syn(cfg).flags(ALL).stamped(cfg, 1)).remove(0);
    assert_eq!(
        (answer.segment.options.accecn(), answer.ecn),
        (cfg.ecn_option.then(|| option(3, [1, 0, 1])), Ecn::NotEct)
    );
    one.take(&with(ack(1, 1).flags(ace(2)).stamped(cfg, 1), [1, 0, 1]));
    assert_eq!(one.c.state(), State::Established);
    one
}

fn counted(one: &One) -> AccurateInfo {
    one.c.info().accurate.expect("accurate ECN")
}

#[test]
fn every_segment_has_the_option_and_is_ecn_capable_and_full_ones_leave_room() {
    let mut one = accepted(&form());
    let sent = one.write(3000);
    let seen: Vec<_> = sent.iter().map(|o| (o.segment.len, o.ecn, o.segment.options.accecn())).collect();
    let all = Some(option(3, [1, 0, 1]));
    assert_eq!(seen[..2], [(1448, Ecn::Ect0, all), (1448, Ecn::Ect0, all)]);
    // A pure ACK, and a retransmission.
    let reply = one.give(&data(1, 100), Ecn::Ect0).remove(0);
    assert_eq!((reply.segment.len, reply.ecn), (0, Ecn::Ect0));
    assert_eq!(reply.segment.options.accecn(), Some(option(3, [101, 0, 1])));
    let (_, again) = one.until(at_ms(5000)).remove(0);
    assert_eq!((again.segment.len, again.ecn), (1448, Ecn::Ect0));
}

#[test]
fn the_window_stays_what_it_was_in_segments() {
    let one = accepted(&form());
    assert_eq!((one.c.info().mss, one.c.info().cwnd), (bytes(1448), bytes(14_480)));
}

#[test]
fn a_change_of_the_field_is_acknowledged_at_once_and_a_repeated_mark_is_not() {
    let cfg =
        Config { delayed_ack: tcpassay_tcp::DelayedAck { every: 100, ..plain().delayed_ack }, ..form() };
    let mut one = accepted(&cfg);
    let mut told = Vec::new();
    for (i, field) in (0..).zip([Ecn::NotEct, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect1]) {
        told.push(one.give(&data(1 + 1000 * i, 1000), field).first().map(|out| out.segment.flags));
    }
    let tell = |n| Some(Flags::ACK | ace(n));
    assert_eq!(told, [None, tell(5), None, tell(6), None, tell(7)]);
    let AccurateInfo { received_ce, received_bytes, .. } = counted(&one);
    assert_eq!((received_ce, received_bytes), (2, [2000, 2000, 1000]));
}

#[test]
fn a_marked_ack_counts_as_a_packet_and_not_in_bytes() {
    let mut one = accepted(&form());
    one.write(100);
    one.give(&ack(1, 101).flags(ace(5)), Ecn::Ce);
    assert_eq!(one.write(100)[0].segment.flags, Flags::ACK | Flags::PSH | ace(6));
    assert_eq!((counted(&one).received_ce, counted(&one).received_bytes), (1, [0, 0, 0]));
}

#[test]
fn fields_that_changed_come_before_a_third_sack_block_and_never_before_the_second() {
    let cfg = Config { timestamps: true, ..form() };
    let mut one = accepted(&cfg);
    let mut hole = |n: u32, field| {
        let out = one.give(&data(1 + 2000 * n, 1000).stamped(&cfg, 2), field).pop();
        let options = out.expect("a duplicate ACK").segment.options;
        (options.sack.len(), options.accecn().map(|o| o.fields), options.wire_len())
    };
    assert_eq!(hole(1, Ecn::Ect1), (1, Some(3), 36));
    assert_eq!(hole(2, Ecn::Ect1), (2, Some(2), 40));
    assert_eq!(hole(3, Ecn::Ce), (2, Some(2), 40));
    // The counter of ECT(0) is the third field, which does not fit beside two blocks, so that all three blocks are sent instead.
    assert_eq!(hole(4, Ecn::Ect0), (3, None, 40));
}

#[test]
fn an_ack_with_nothing_new_has_an_empty_option_where_three_blocks_leave_their_nops() {
    let cfg = Config { timestamps: true, ..form() };
    let mut one = accepted(&cfg);
    let mut last = None;
    for n in 1..=3 {
        last = one.give(&data(1 + 2000 * n, 1000).stamped(&cfg, 2), Ecn::NotEct).pop();
    }
    let options = last.expect("a duplicate ACK").segment.options;
    assert_eq!((options.sack.len(), options.accecn(), options.wire_len()), (3, Some(option(0, [0; 3])), 40));
}

#[test]
fn without_an_option_of_the_peers_none_is_sent_and_segments_are_full() {
    let mut one = One { c: listen(&form(), ISS), now: Time::ZERO };
    one.take(&syn(&form()).flags(ALL));
    one.take(&ack(1, 1).flags(ace(2)));
    let first = one.write(1460).remove(0).segment;
    assert_eq!((first.len, first.options.accecn()), (1460, None));
    // The option of the peer arrives later; from then on segments have the option.
    one.take(&with(ack(1, 1461).flags(ace(5)), [1461, 0, 1]));
    let next = one.write(1460).remove(0).segment;
    assert_eq!((next.len, next.options.accecn().map(|o| o.fields)), (1448, Some(3)));
}

#[test]
fn on_demand_two_acks_after_a_change_have_the_option() {
    let accurate = AccurateUse { on_demand: true, beacon: 0, ..AccurateUse::default() };
    let cfg = Config {
        delayed_ack: tcpassay_tcp::DelayedAck { every: 1, ..plain().delayed_ack },
        accurate,
        ..form()
    };
    let mut one = accepted(&cfg);
    let mut fields = Vec::new();
    for (i, field) in (0..).zip([Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0]) {
        let out = one.give(&data(1 + 1000 * i, 1000), field).remove(0);
        fields.push(out.segment.options.accecn().is_some());
    }
    assert_eq!(fields, [true, true, false, true, true, true, false]);
}

#[test]
fn the_option_ends_when_what_it_acknowledged_comes_a_third_time_unless_it_persists() {
    // Section 3.2.3.2.2; `tcp_rcv_spurious_retrans`.
    for (persist, kept) in [(false, false), (true, true)] {
        let cfg = Config { accurate: AccurateUse { persist, ..AccurateUse::default() }, ..form() };
        let mut one = accepted(&cfg);
        let mut had = Vec::new();
        for _ in 0..3 {
            let out = one.give(&data(1, 1000), Ecn::Ect0).pop().expect("an ACK");
            had.push(out.segment.options.accecn().is_some());
        }
        assert_eq!(had, [true, true, kept]);
        assert!(counted(&one).fail_mode & 4 != 0);
    }
}

#[test]
fn a_handshake_that_was_changed_on_its_way_ends_ect_and_not_the_feedback() {
    // `tcp_accecn_third_ack`: zero, and values that report another field of the SYN-ACK than Not-ECT.
    for (bits, capable) in
        [(0, false), (1, true), (2, true), (3, false), (4, false), (5, true), (6, false), (7, true)]
    {
        let mut one = One { c: listen(&form(), ISS), now: Time::ZERO };
        one.take(&syn(&form()).flags(ALL));
        one.take(&ack(1, 1).flags(ace(bits)));
        assert_eq!(one.write(10)[0].ecn == Ecn::Ect0, capable, "{bits:03b}");
        let told = one.give(&data(1, 1460), Ecn::Ce).remove(0);
        assert_eq!((told.segment.flags, told.ecn == Ecn::Ect0), (Flags::ACK | ace(6), capable));
    }
    // Without the check the mark counts.
    let accurate = AccurateUse { fallback: false, ..AccurateUse::default() };
    let cfg = Config { accurate, ..form() };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg).flags(ALL));
    one.take(&ack(1, 1).flags(ace(6)));
    assert_eq!((counted(&one).delivered_ce, one.write(10)[0].ecn), (1, Ecn::Ect0));
}

#[test]
fn classic_and_accurate_syns_in_one_handshake_go_on_as_the_first_began() {
    for (first, second, answer) in [(7, 3, 2), (3, 7, 1)] {
        let mut one = One { c: listen(&form(), ISS), now: Time::ZERO };
        one.take(&syn(&form()).flags(ace(first)));
        let out = one.take(&syn(&form()).flags(ace(second))).remove(0).segment;
        assert_eq!(out.flags, Flags::SYN | Flags::ACK | ace(answer));
    }
}

#[test]
fn bytes_without_marks_rule_out_that_the_counter_has_turned() {
    // `__tcp_accecn_process`: nine segments at once, none of them marked.
    let sends = |news: [Option<[u32; 3]>; 2]| {
        let mut one = accepted(&Config { initial_window: 20, ..form() });
        one.write(14_480);
        let acks = [ack(1, 1449), ack(1, 14_481)].map(|ack| ack.flags(ace(5)));
        for (ack, counts) in acks.into_iter().zip(news) {
            one.take(&counts.map_or(ack, |counts| with(ack, counts)));
        }
        counted(&one).delivered_ce
    };
    assert_eq!(sends([None, None]), 8, "the safest");
    assert_eq!(sends([Some([1449, 0, 1]), Some([14_481, 0, 1])]), 0);
    assert_eq!(sends([Some([1449, 0, 1]), None]), 0, "the counter that moves is expected to go on");
    assert_eq!(sends([Some([1, 1448, 1]), Some([1, 14_480, 1])]), 8, "bytes say that it has");
}

#[test]
fn a_byte_counter_that_decreases_is_followed_and_reports_no_mark() {
    let mut one = accepted(&form());
    one.write(2896);
    one.take(&with(ack(1, 1449).flags(ace(6)), [1, 1448, 1]));
    assert_eq!((counted(&one).delivered_ce, counted(&one).delivered_bytes), (1, [0, 1448, 0]));
    one.take(&with(ack(1, 2897).flags(ace(6)), [1449, 1000, 1]));
    assert_eq!((counted(&one).delivered_ce, counted(&one).delivered_bytes), (1, [1448, 1000, 0]));
}

#[test]
fn options_whose_first_counters_are_zero_are_ignored() {
    let mut one = One { c: listen(&form(), ISS), now: Time::ZERO };
    one.take(&syn(&form()).flags(ALL));
    one.take(&with(ack(1, 1).flags(ace(2)), [0, 0, 0]));
    one.write(1448);
    one.take(&with(ack(1, 1449).flags(ace(6)), [1, 1448, 1]));
    let AccurateInfo { delivered_ce, delivered_bytes, option_seen, fail_mode, .. } = counted(&one);
    assert_eq!((delivered_ce, delivered_bytes, option_seen, fail_mode), (1, [0, 0, 0], 3, 8));
}

#[test]
fn a_closed_socket_in_time_wait_acknowledges_without_a_counter() {
    let mut one = accepted(&form());
    one.c.close(one.now);
    assert_eq!(one.sent()[0].segment.flags, Flags::FIN | Flags::ACK | ace(5));
    one.take(&ack(1, 2).flags(ace(5)));
    let last = one.take(&ack(1, 2).flags(Flags::FIN | ace(5))).remove(0);
    assert_eq!((last.segment.flags, last.segment.options.accecn(), last.ecn), (Flags::ACK, None, Ecn::Ect0));
}

#[test]
fn both_ends_count_what_a_lossless_path_marked() {
    let mut net = Two::new(connect(&form(), 7, Time::ZERO), listen(&form(), 9), ms(10));
    net.run(at_ms(100), &mut clean);
    assert_eq!(net.ends[0].write(net.now, bytes(14_480)), bytes(14_480));
    let mut n = 0;
    while let Some(out) = net.ends[0].poll_transmit(net.now) {
        n += 1;
        net.ends[1].on_segment(net.now, &out.segment, if n % 3 == 0 { Ecn::Ce } else { out.ecn });
        while let Some(back) = net.ends[1].poll_transmit(net.now) {
            net.ends[0].on_segment(net.now, &back.segment, back.ecn);
        }
    }
    let (a, b) = (net.ends[0].info().accurate.expect("on"), net.ends[1].info().accurate.expect("on"));
    assert_eq!((n, b.received_ce, b.received_bytes), (10, 3, [7 * 1448, 3 * 1448, 0]));
    assert_eq!((a.delivered_ce, a.delivered_bytes), (3, [7 * 1448, 3 * 1448, 0]));
}
