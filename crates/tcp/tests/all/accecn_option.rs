//! The option of accurate ECN (RFC 9768 section 3.2.3): the segments that carry it, its priority among
//! options, and its evaluation by the sender.

use crate::common::*;
use tcpassay_tcp::{Config, DelayedAck, EcnMode, State};
use tcpassay_units::Time;
use tcpassay_wire::{AccEcn, Ecn, Flags, Segment};

const ALL: Flags = Flags::from_bits(Flags::AE.bits() | Flags::CWR.bits() | Flags::ECE.bits());
/// ACE = 2: how the SYN-ACK arrived, Not-ECT.
const FINAL: Flags = Flags::CWR;

fn accurate() -> Config {
    Config { ecn: EcnMode::Accurate, ..plain() }
}

fn option(fields: u8, counts: [u32; 3]) -> AccEcn {
    AccEcn { e1b_first: false, fields, counts }
}

fn with(mut segment: Segment, fields: u8, counts: [u32; 3]) -> Segment {
    segment.options.set_accecn(&option(fields, counts));
    segment
}

/// The ACE field of a counter.
fn ace(counter: u8) -> Flags {
    [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)]
        .into_iter()
        .filter(|(bit, _)| counter & bit != 0)
        .fold(Flags::NONE, |flags, (_, flag)| flags | flag)
}

fn accepted(cfg: &Config) -> One {
    let mut one = One { c: listen(cfg, ISS), now: Time::ZERO };
    one.take(&syn(cfg).flags(ALL).stamped(cfg, 1));
    one.take(&with(ack(1, 1).flags(FINAL).stamped(cfg, 1), 3, [1, 0, 1]));
    assert_eq!(one.c.state(), State::Established);
    one
}

#[test]
fn a_syn_has_no_option_and_the_syn_ack_the_final_ack_and_the_first_data_have_all_fields() {
    // Section 3.2.3.2.1.
    let start = Some(option(3, [1, 0, 1]));
    let mut client = One { c: connect(&accurate(), ISS, Time::ZERO), now: Time::ZERO };
    assert_eq!(client.sent()[0].segment.options.accecn(), None);
    let mut server = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    let answer = server.take(&syn(&accurate()).flags(ALL)).remove(0).segment;
    assert_eq!(answer.options.accecn(), start);
    let mut answer = Segment { seq: tcpassay_units::SeqNum::new(PEER), ..answer };
    answer.ack = tcpassay_units::SeqNum::new(ISS + 1);
    assert_eq!(client.take(&answer)[0].segment.options.accecn(), start);
    assert_eq!(client.write(10)[0].segment.options.accecn(), start);
    assert_eq!(client.write(10)[..], [], "Nagle");
    let next = client.take(&ack(1, 11).flags(ace(5))).remove(0).segment;
    assert_eq!((next.len, next.options.accecn()), (10, None), "nothing moved");
}

#[test]
fn a_repeated_syn_ack_has_no_option_and_after_two_timeouts_no_flags_either() {
    // Section 3.2.3.2.2.
    let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    one.take(&syn(&accurate()).flags(ALL));
    let again: Vec<_> = one.until(at_ms(3000)).into_iter().map(|(_, out)| out.segment).collect();
    let seen: Vec<_> = again.iter().map(|s| (s.flags, s.options.accecn())).collect();
    let reply = Flags::SYN | Flags::ACK;
    assert_eq!(seen, [(reply | Flags::CWR, None), (reply, None)]);
    // The mode stays the same (section 3.1.5).
    one.take(&ack(1, 1).flags(FINAL));
    assert_eq!(one.give(&data(1, 1460), Ecn::Ce)[0].segment.flags, Flags::ACK | ace(6));
}

#[test]
fn an_ack_has_the_counters_that_ever_moved_if_one_moved_since_the_last() {
    // Section 3.2.3.3, the recommended scheme and its examples.
    let mut one =
        accepted(&Config { delayed_ack: DelayedAck { every: 1, ..plain().delayed_ack }, ..accurate() });
    let mut tell = |seq, field| one.give(&data(seq, 100), field)[0].segment.options.accecn();
    assert_eq!(tell(1, Ecn::Ect0), Some(option(1, [101, 0, 0])));
    assert_eq!(tell(101, Ecn::Ce), Some(option(2, [101, 100, 0])));
    assert_eq!(tell(201, Ecn::Ect0), Some(option(2, [201, 100, 0])));
    assert_eq!(tell(301, Ecn::NotEct), None);
    assert_eq!(tell(401, Ecn::Ect1), Some(option(3, [201, 100, 101])));
}

#[test]
fn two_sack_blocks_stay_beside_the_option_and_it_yields_to_them() {
    let cfg = Config { timestamps: true, ..accurate() };
    let mut one = accepted(&cfg);
    let mut holes = |field| {
        let mut last = None;
        for i in 1..=3 {
            let segment = data(1 + 2000 * i, 1000).stamped(&cfg, 2);
            last = one.give(&segment, field).pop();
        }
        let options = last.expect("a duplicate ACK").segment.options;
        (options.sack.len(), options.accecn().map(|o| o.fields), options.wire_len())
    };
    // 12 bytes of timestamps, 20 of two blocks, 5 of the option, one of which replaces a NOP of the blocks.
    assert_eq!(holes(Ecn::Ect0), (2, Some(1), 36));
    // A third field does not fit, so that all three blocks are sent instead.
    let mut one = accepted(&cfg);
    one.give(&data(1, 1000).stamped(&cfg, 2), Ecn::Ect1);
    let mut last = None;
    for i in 1..=3 {
        last = one.give(&data(1001 + 2000 * i, 1000).stamped(&cfg, 2), Ecn::Ect0).pop();
    }
    let options = last.expect("a duplicate ACK").segment.options;
    assert_eq!((options.sack.len(), options.accecn(), options.wire_len()), (3, None, 40));
}

#[test]
fn the_sender_counts_the_bytes_that_the_option_says_and_not_whole_segments() {
    // Section 3.2.3.1.
    let mut one = accepted(&accurate());
    one.write(14_600);
    one.take(&with(ack(1, 2921).flags(ace(6)), 2, [2821, 100, 0]));
    assert_eq!(one.c.info().delivered_ce, bytes(100));
}

#[test]
fn the_option_shows_that_the_packet_counter_has_wrapped() {
    // Section 3.2.3.2.5: ten marks change ACE from 5 to 7, like two marks; later values count from there.
    let mut one = accepted(&accurate());
    one.write(14_600);
    one.take(&with(ack(1, 14_601).flags(ace(7)), 2, [1, 14_600, 0]));
    assert_eq!(one.c.info().delivered_ce, bytes(14_600));
    one.write(1460);
    one.take(&ack(1, 16_061).flags(ace(0)));
    assert_eq!(one.c.info().delivered_ce, bytes(16_060));
}

#[test]
fn an_option_with_zeroed_counters_is_ignored_from_then_on() {
    // Section 3.2.3.2.4.
    let mut one = One { c: listen(&accurate(), ISS), now: Time::ZERO };
    one.take(&syn(&accurate()).flags(ALL));
    one.take(&with(ack(1, 1).flags(FINAL), 3, [0, 0, 0]));
    one.write(14_600);
    one.take(&with(ack(1, 1461).flags(ace(6)), 2, [1, 100, 0]));
    assert_eq!(one.c.info().delivered_ce, bytes(1460), "as ACE has it");
}

#[test]
fn without_the_option_only_the_flags_report_marks() {
    let mut one = accepted(&Config { ecn_option: false, ..accurate() });
    let out = one.give(&data(1, 1460), Ecn::Ce).remove(0).segment;
    assert_eq!((out.flags, out.options.accecn()), (Flags::ACK | ace(6), None));
}

#[test]
fn a_full_segment_is_shorter_by_the_option_that_it_carries() {
    // Section 3.2.3.3: congestion control has priority. A counter has changed when the first segment is sent, and none has when the next ones are.
    let mut one = accepted(&accurate());
    let reply = {
        assert_eq!(one.c.write(one.now, bytes(4380)), bytes(4380));
        one.give(&data(1, 1460), Ecn::Ect0)
    };
    let seen: Vec<_> = reply
        .iter()
        .map(|out| (out.segment.len, out.mss, out.segment.options.accecn().map(|o| o.fields)))
        .collect();
    assert_eq!(seen, [(1452, 1452, Some(1)), (1460, 1460, None), (1460, 1460, None)]);
}

#[test]
fn each_packet_of_a_super_segment_leaves_room_for_the_option() {
    let cfg = Config { tso: Some(bytes(64_000)), ..accurate() };
    let mut one = accepted(&cfg);
    assert_eq!(one.c.write(one.now, bytes(14_600)), bytes(14_600));
    let out = one.give(&data(1, 1460), Ecn::Ect0).remove(0);
    assert_eq!((out.segment.len % 1452, out.mss, out.segment.options.wire_len()), (0, 1452, 8));
    assert!(out.segment.len > 1460, "{}", out.segment.len);
}

#[test]
fn the_first_data_of_a_client_go_again_without_the_option() {
    // Section 3.2.3.2.2.
    let mut one = One { c: connect(&accurate(), ISS, Time::ZERO), now: Time::ZERO };
    one.sent();
    let mut answer = syn(&accurate()).flags(Flags::ACK | FINAL);
    answer.ack = answer.ack + ISS + 1;
    one.take(&answer);
    assert!(one.write(100)[0].segment.options.accecn().is_some());
    let (_, again) = one.until(at_ms(3000)).remove(0);
    assert_eq!((again.segment.len, again.segment.options.accecn()), (100, None));
}

#[test]
fn bytes_with_ce_and_no_packet_with_it_end_ect() {
    // Section 3.2.3.2.5: three segments cannot wrap the counter.
    let mut one = accepted(&accurate());
    one.write(4380);
    one.take(&with(ack(1, 1461).flags(ace(5)), 2, [1461, 0, 0]));
    assert_eq!(one.write(1460)[0].ecn, Ecn::Ect0);
    one.take(&with(ack(1, 5841).flags(ace(5)), 2, [4381, 1460, 0]));
    assert_eq!(one.write(1460)[0].ecn, Ecn::NotEct);
}

#[test]
fn marks_are_counted_although_acks_are_lost() {
    // All ten segments are marked, and of the ACKs only that of the ninth arrives: 5 + 9 = 6 modulo 8.
    let mut net = Two::new(connect(&accurate(), 7, Time::ZERO), listen(&accurate(), 9), ms(10));
    net.run(at_ms(100), &mut clean);
    assert_eq!(net.ends[0].write(net.now, bytes(14_600)), bytes(14_600));
    let sent: Vec<_> = std::iter::from_fn(|| net.ends[0].poll_transmit(net.now)).collect();
    assert_eq!(sent.len(), 10);
    let mut last = None;
    for out in sent {
        net.ends[1].on_segment(net.now, &out.segment, Ecn::Ce);
        last = std::iter::from_fn(|| net.ends[1].poll_transmit(net.now)).last().or(last);
    }
    net.ends[0].on_segment(net.now, &last.expect("the last ACK").segment, Ecn::NotEct);
    // The first has the option, and twelve bytes less of data.
    assert_eq!(net.ends[1].info().ce_bytes_in, bytes(14_588));
    assert_eq!(net.ends[0].info().delivered_ce, bytes(13_128));
}
