//! Accurate ECN (RFC 9768): the negotiated modes, the contents of segments in each mode, and the times at
//! which a receiver reports marks.

use crate::common::*;
use tcpassay_tcp::{Config, ConnError, EcnMode, State};
use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Flags, Segment};

const ALL: Flags = Flags::from_bits(Flags::AE.bits() | Flags::CWR.bits() | Flags::ECE.bits());

fn accurate() -> Config {
    Config { ecn: EcnMode::Accurate, ..plain() }
}

/// The ACE field: AE, CWR, ECE from high to low.
fn ace(bits: u8) -> Flags {
    [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)]
        .into_iter()
        .filter(|(bit, _)| bits & bit != 0)
        .fold(Flags::NONE, |flags, (_, flag)| flags | flag)
}

fn flags(segment: &Segment) -> Flags {
    segment.flags
}

/// A server whose final ACK carries `last` in its ACE field.
fn accepted(last: u8) -> One {
    let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    let out = one.take(&syn(&accurate()).flags(ALL));
    assert_eq!(flags(&out[0].segment), Flags::SYN | Flags::ACK | ace(0b010));
    one.take(&ack(1, 1).flags(ace(last)));
    assert_eq!(one.c.state(), State::Established);
    one
}

#[test]
fn a_server_takes_every_reserved_combination_on_a_syn_for_accurate_ecn() {
    // Section 3.1.3; table 2 for 000 and 011.
    for bits in 0..8 {
        let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
        let out = one.take(&syn(&accurate()).flags(ace(bits)));
        let answer = match bits {
            0b000 => 0b000,
            0b011 => 0b001,
            _ => 0b010,
        };
        assert_eq!(flags(&out[0].segment), Flags::SYN | Flags::ACK | ace(answer), "{bits:03b}");
    }
}

#[test]
fn the_mark_of_an_acceptable_duplicate_counts() {
    // Section 3.2.2: r.cep counts CE-marked packets with and without new data. The first copy is not acknowledged yet.
    let mut one = accepted(0b010);
    let copy = data(1, 1000).flags(ace(5));
    assert_eq!(one.give(&copy, Ecn::Ect0), []);
    let out = one.give(&copy, Ecn::Ce);
    assert_eq!(flags(&out[0].segment), Flags::ACK | ace(6));
}

#[test]
fn a_client_enters_the_mode_of_the_syn_ack_and_takes_the_reserved_one_for_accurate() {
    // Table 2 and section 3.1.3: 000 and 111 no ECN, 001 classic, all else accurate. A data segment shows the mode: ACE is 5 = 101.
    for bits in 0..8_u8 {
        let mut one = One { c: connect(&accurate(), ISS, Time::ZERO), now: Time::ZERO };
        one.sent();
        let mut answer = syn(&accurate()).flags(Flags::ACK | ace(bits));
        answer.ack = answer.ack + ISS + 1;
        one.take(&answer);
        let data = one.write(10).remove(0);
        let (counter, field) = match bits {
            0b000 | 0b111 => (0, Ecn::NotEct),
            0b001 => (0, Ecn::Ect0),
            // The SYN was sent as Not-ECT, so that the path changed it (section 3.2.2.3).
            0b011 | 0b100 | 0b110 => (5, Ecn::NotEct),
            _ => (5, Ecn::Ect0),
        };
        assert_eq!(
            (data.segment.flags, data.ecn),
            (Flags::ACK | Flags::PSH | ace(counter), field),
            "{bits:03b}"
        );
    }
}

#[test]
fn the_first_repeated_syn_asks_again_and_the_next_one_does_not() {
    // Section 3.1.4.1.
    let mut one = One { c: connect(&accurate(), ISS, Time::ZERO), now: Time::ZERO };
    let mut seen = vec![flags(&one.sent()[0].segment)];
    seen.extend(one.until(at_ms(4000)).iter().map(|(_, out)| flags(&out.segment)));
    assert_eq!(seen, [Flags::SYN | ALL, Flags::SYN | ALL, Flags::SYN]);
    // The answer to the first of them counts.
    let mut answer = syn(&accurate()).flags(Flags::ACK | ace(0b010));
    answer.ack = answer.ack + ISS + 1;
    one.take(&answer);
    assert_eq!(one.write(10)[0].ecn, Ecn::Ect0);
}

#[test]
fn a_server_that_saw_a_syn_without_ecn_stays_accurate_and_sends_nothing_ecn_capable() {
    // Section 3.1.5.
    let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    one.take(&syn(&accurate()).flags(ALL));
    let out = one.take(&syn(&accurate()));
    assert_eq!(flags(&out[0].segment), Flags::SYN | Flags::ACK | ace(0b010));
    one.take(&ack(1, 1).flags(ace(0b010)));
    assert_eq!(one.give(&data(1, 1460), Ecn::Ce)[0].segment.flags, Flags::ACK | ace(6), "marks are fed back");
    assert_eq!(one.write(10)[0].ecn, Ecn::NotEct);
}

#[test]
fn the_answer_to_a_repeated_syn_reports_the_ecn_field_of_that_syn() {
    // Section 3.1.5.
    let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    let first = one.take(&syn(&accurate()).flags(ALL));
    let second = one.give(&syn(&accurate()).flags(ALL), Ecn::Ce);
    assert_eq!(flags(&first[0].segment), Flags::SYN | Flags::ACK | ace(0b010));
    assert_eq!(flags(&second[0].segment), Flags::SYN | Flags::ACK | ace(0b110));
}

#[test]
fn classic_and_accurate_syns_in_one_handshake_reset_it() {
    // Section 3.1.5.
    for (first, second) in [(0b111, 0b011), (0b011, 0b111)] {
        let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
        one.take(&syn(&accurate()).flags(ace(first)));
        let out = one.take(&syn(&accurate()).flags(ace(second)));
        assert!(out[0].segment.flags.has(Flags::RST));
        assert_eq!((one.c.state(), one.c.error()), (State::Closed, Some(ConnError::Reset)));
    }
}

#[test]
fn a_zero_on_the_ack_of_the_syn_ack_ends_ect_and_the_use_of_feedback_but_not_its_sending() {
    // Table 4, note 1.
    let mut one = accepted(0b000);
    assert_eq!(one.write(14_600)[0].ecn, Ecn::NotEct);
    one.take(&ack(1, 1461).flags(ace(0b111)));
    assert_eq!(one.c.info().ecn_reductions, 0);
    assert_eq!(one.give(&data(1, 1460), Ecn::Ce)[0].segment.flags, Flags::ACK | ace(6));
}

#[test]
fn every_other_value_on_the_ack_of_the_syn_ack_starts_the_count_at_5_and_ce_at_6() {
    // Table 4: then a counter of 6 is one mark, or none.
    for (bits, marks) in [(0b001, 1), (0b010, 1), (0b011, 1), (0b100, 1), (0b101, 1), (0b110, 0), (0b111, 1)]
    {
        let mut one = accepted(bits);
        // The SYN-ACK was sent as Not-ECT. Feedback that reports another field ends ECT, and is still used (section 3.2.2.3).
        let mangled = matches!(bits, 0b011 | 0b100 | 0b110);
        assert_eq!(one.write(14_600)[0].ecn, if mangled { Ecn::NotEct } else { Ecn::Ect0 });
        one.take(&ack(1, 1461).flags(ace(6)));
        assert_eq!(one.c.info().delivered_ce, bytes(marks * 1460), "{bits:03b}");
    }
}

#[test]
fn a_syn_that_left_ecn_capable_may_arrive_marked_and_not_without_a_field() {
    // Section 3.2.2.3, for what ECN++ sends.
    let cfg = Config { control_ecn: tcpassay_tcp::ControlEcn::All, ..accurate() };
    for (bits, field) in [(0b010, Ecn::NotEct), (0b011, Ecn::Ect0), (0b100, Ecn::Ect0), (0b110, Ecn::Ect0)] {
        let mut one = One { c: connect(&cfg, ISS, Time::ZERO), now: Time::ZERO };
        assert_eq!(one.sent()[0].ecn, Ecn::Ect0);
        let mut answer = syn(&cfg).flags(Flags::ACK | ace(bits));
        answer.ack = answer.ack + ISS + 1;
        // Neither ACKs nor data.
        assert_eq!((one.take(&answer)[0].ecn, one.write(10)[0].ecn), (field, field), "{bits:03b}");
    }
}

#[test]
fn a_counter_that_begins_at_zero_ends_ect_and_the_use_of_feedback() {
    // Section 3.2.2.4; later zeros are counters that have wrapped.
    let mut one = accepted(0b010);
    one.write(14_600);
    one.take(&ack(1, 1461).flags(ace(0)));
    one.take(&ack(1, 2921).flags(ace(1)));
    assert_eq!((one.c.info().delivered_ce, one.c.info().ecn_reductions), (bytes(0), 0));
    assert_eq!(one.write(1460)[0].ecn, Ecn::NotEct);
    let mut one = accepted(0b010);
    one.write(14_600);
    one.take(&ack(1, 1461).flags(ace(7)));
    one.take(&ack(1, 2921).flags(ace(0)));
    assert_eq!(one.c.info().delivered_ce, bytes(3 * 1460));
}

#[test]
fn a_newer_timestamp_makes_an_ack_count_that_shows_nothing_delivered() {
    // Section 3.2.2.2 and appendix A.1.
    let cfg = Config { timestamps: true, ..accurate() };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg).flags(ALL).stamped(&cfg, 1));
    one.take(&ack(1, 1).flags(ace(0b010)).stamped(&cfg, 2));
    one.write(1448);
    one.take(&ack(1, 1).flags(ace(6)).stamped(&cfg, 2));
    assert_eq!(one.c.info().accurate.expect("accurate ECN").delivered_ce, 0);
    one.take(&ack(1, 1).flags(ace(6)).stamped(&cfg, 3));
    assert_eq!(one.c.info().accurate.expect("accurate ECN").delivered_ce, 1);
}

#[test]
fn every_third_mark_on_pure_acks_is_acknowledged_at_once() {
    // Sections 3.2 and 3.2.2.5.1: Linux sends ACKs that are ECN-capable.
    let mut one = accepted(0b010);
    one.write(1460);
    let mut told = Vec::new();
    for _ in 0..6 {
        told.push(one.give(&ack(1, 1).flags(ace(5)), Ecn::Ce).first().map(|out| out.segment.flags));
    }
    let tell = |n| Some(Flags::ACK | ace(n));
    assert_eq!(told, [None, None, tell(0), None, None, tell(3)]);
    assert_eq!(one.c.info().accurate.expect("accurate ECN").received_ce, 6);
}

#[test]
fn the_ack_of_a_repeated_syn_ack_reports_its_ecn_field() {
    // Section 3.2.2.1.
    let mut one = One { c: connect(&accurate(), ISS, Time::ZERO), now: Time::ZERO };
    one.sent();
    let answer = |bits| {
        let mut answer = syn(&accurate()).flags(Flags::ACK | ace(bits));
        answer.ack = answer.ack + ISS + 1;
        answer
    };
    assert_eq!(flags(&one.take(&answer(0b010))[0].segment), Flags::ACK | ace(0b010));
    assert_eq!(flags(&one.give(&answer(0b010), Ecn::Ect0)[0].segment), Flags::ACK | ace(0b100));
    // A SYN-ACK without the flags does not show that the server supports accurate ECN.
    assert_eq!(flags(&one.give(&answer(0b000), Ecn::Ect0)[0].segment), Flags::ACK | ace(5));
}

#[test]
fn a_server_whose_syn_ack_had_no_flags_sends_nothing_ecn_capable() {
    // Section 3.1.5: it sent a SYN-ACK with 000.
    let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    one.take(&syn(&accurate()).flags(ALL));
    let again: Vec<_> = one.until(at_ms(3000)).into_iter().map(|(_, out)| out.segment.flags).collect();
    assert_eq!(again.last(), Some(&(Flags::SYN | Flags::ACK)));
    one.take(&ack(1, 1).flags(ace(0b010)));
    assert_eq!(one.write(10)[0].ecn, Ecn::NotEct);
}

#[test]
fn an_ack_that_was_overtaken_does_not_count() {
    // Section 3.2.2.2: otherwise the older counter looks like seven marks more.
    let mut one = accepted(0b010);
    one.write(14_600);
    one.take(&ack(1, 4381).flags(ace(6)));
    assert_eq!(one.c.info().delivered_ce, bytes(1460));
    one.take(&ack(1, 2921).flags(ace(5)));
    one.take(&ack(1, 4381).flags(ace(5)));
    assert_eq!(one.c.info().delivered_ce, bytes(1460));
    one.take(&ack(1, 4381).flags(ace(7)).sack(&[(5841, 7301)]));
    one.take(&ack(1, 4381).flags(ace(6)).sack(&[(5841, 7301)]));
    assert_eq!(one.c.info().delivered_ce, bytes(2 * 1460));
}

#[test]
fn the_first_mark_and_then_every_second_one_are_acknowledged_at_once() {
    // Section 3.2.2.5.1. Without this rule the first mark of each pair would be reported by the delayed ACK of every second segment.
    let cfg =
        Config { delayed_ack: tcpassay_tcp::DelayedAck { every: 100, ..plain().delayed_ack }, ..accurate() };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg).flags(ALL));
    one.take(&ack(1, 1).flags(ace(0b010)));
    let fields = [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ce];
    let mut told = Vec::new();
    for (i, field) in (0..).zip(fields) {
        told.push(one.give(&data(1 + 1460 * i, 1460), field).first().map(|out| out.segment.flags));
    }
    let tell = |n| Some(Flags::ACK | ace(n));
    assert_eq!(told, [None, tell(6), None, tell(0), None, tell(1)]);
}

#[test]
fn syns_that_cross_agree_on_what_both_offer() {
    // Section 3.1.2; RFC 3168 section 6.1.1.
    for (a, b, field) in [
        (EcnMode::Accurate, EcnMode::Accurate, Ecn::Ect0),
        (EcnMode::Classic, EcnMode::Classic, Ecn::Ect0),
        (EcnMode::Classic, EcnMode::Off, Ecn::NotEct),
        (EcnMode::Accurate, EcnMode::Off, Ecn::NotEct),
    ] {
        let with = |ecn| Config { ecn, ..plain() };
        let mut net = Two::new(connect(&with(a), 7, Time::ZERO), connect(&with(b), 9, Time::ZERO), ms(10));
        net.run(at_ms(100), &mut clean);
        assert!(net.ends.iter().all(|c| c.state() == State::Established));
        for end in 0..2 {
            assert_eq!(net.ends[end].write(net.now, bytes(10)), bytes(10));
            let out = net.ends[end].poll_transmit(net.now).expect("data");
            assert_eq!(out.ecn, field, "{a:?} {b:?} end {end}");
            net.ends[1 - end].on_segment(net.now, &out.segment, out.ecn);
        }
        assert_eq!(net.ends[0].info().ecn_reductions + net.ends[1].info().ecn_reductions, 0);
    }
}
