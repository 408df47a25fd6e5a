//! Opening: options, refusals, retransmission, both at once.

use crate::common::*;
use tcpassay_tcp::{Config, ConnError, LogEvent, Profile, State};
use tcpassay_units::{SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Options, Segment, Timestamps};

#[test]
fn two_ends_agree_on_options_and_are_established_after_one_and_a_half_round_trips() {
    let cfg = Config::profile(Profile::Linux);
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(10));
    net.run(at_ms(19), &mut clean);
    assert_eq!(net.ends[0].state(), State::SynSent);
    net.run(at_ms(20), &mut clean);
    assert_eq!(net.ends[0].state(), State::Established);
    assert_eq!(net.ends[1].state(), State::SynReceived);
    net.run(at_ms(30), &mut clean);
    assert_eq!(net.ends[1].state(), State::Established);
    assert_eq!(net.ends[0].info().mss, bytes(1448));
    assert_eq!(net.ends[0].info().srtt, Some(ms(20)));
    assert_eq!(net.segments, 3);
}

#[test]
fn the_log_has_the_syn_and_the_syn_ack_at_position_0_whatever_the_initial_sequence_number() {
    let cfg = Config::profile(Profile::Linux);
    // Those of the ends are below and above 2^31, where the distance to 0 is positive and negative.
    for seeds in [[7, 9], [9, 7], [1, 2], [3, 4], [5, 6]] {
        let mut net = Two::new(connect(&cfg, seeds[0], Time::ZERO), listen(&cfg, seeds[1]), ms(10));
        net.ends.iter_mut().for_each(|end| end.set_log(true));
        net.run(at_ms(30), &mut clean);
        for end in &mut net.ends {
            let first = end.drain_log().find_map(|entry| match entry.what {
                LogEvent::SegmentIn { seq, flags, .. } => Some((seq, flags.has(Flags::SYN))),
                _ => None,
            });
            assert_eq!(first, Some((0, true)));
        }
    }
}

#[test]
fn a_syn_carries_every_option_that_is_on_and_its_window_is_not_scaled() {
    let cfg = Config::profile(Profile::Linux);
    let mut c = connect(&cfg, ISS, Time::ZERO);
    let out = c.poll_transmit(Time::ZERO).expect("a SYN");
    let o = &out.segment.options;
    assert_eq!(out.segment.flags, Flags::SYN);
    // 44 segments.
    assert_eq!(out.segment.window, 64_240);
    assert_eq!(o.mss, Some(1460));
    // 3 MiB need a shift of 6.
    assert_eq!(o.window_scale, Some(6));
    assert!(o.sack_permitted);
    assert_eq!(o.timestamps, Some(Timestamps { val: 1000, ecr: 0 }));
    assert_eq!(c.poll_transmit(Time::ZERO), None);
}

#[test]
fn an_option_that_the_syn_did_not_offer_is_not_in_the_answer() {
    let cfg = Config::profile(Profile::Linux);
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    let bare = Segment { options: Options::default(), ..syn(&cfg) };
    let out = one.take(&bare);
    let o = &out[0].segment.options;
    assert_eq!(out[0].segment.flags, Flags::SYN | Flags::ACK);
    assert_eq!((o.window_scale, o.sack_permitted, o.timestamps), (None, false, None));
    one.take(&ack(1, 1));
    // Without an MSS option a peer takes 536 bytes (RFC 9293 section 3.7.1).
    assert_eq!(one.c.info().mss, bytes(536));
}

#[test]
fn a_window_scale_above_14_is_read_as_14() {
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    let mut first = syn(&cfg);
    first.options.window_scale = Some(200);
    one.take(&first);
    one.take(&ack(1, 1).window(2));
    one.take(&ack(1, 1).window(3));
    assert_eq!(one.c.info().snd_wnd, bytes(3 << 14));
}

#[test]
fn a_lost_syn_is_sent_again_after_1_then_2_then_4_seconds_until_the_retries_are_used_up() {
    let cfg = Config { syn_retries: 3, ..plain() };
    let mut one = One { c: connect(&cfg, ISS, Time::ZERO), now: Time::ZERO };
    assert_eq!(one.sent().len(), 1);
    let again: Vec<Time> = one.until(at_ms(60_000)).into_iter().map(|(t, _)| t).collect();
    assert_eq!(again, [at_ms(1000), at_ms(3000), at_ms(7000)]);
    assert_eq!(one.c.state(), State::Closed);
    assert_eq!(one.c.error(), Some(ConnError::TimedOut));
}

#[test]
fn a_lost_syn_leaves_an_initial_window_of_one_segment() {
    let cfg = plain();
    let mut dropped = 0;
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(10));
    net.run(at_ms(1100), &mut |_, out| {
        if out.segment.flags == Flags::SYN && dropped == 0 {
            dropped += 1;
            return vec![];
        }
        clean(0, out)
    });
    assert_eq!(dropped, 1, "the SYN was lost");
    assert_eq!(net.ends[0].state(), State::Established);
    assert_eq!(net.ends[0].info().cwnd, bytes(1460));
}

#[test]
fn a_lost_syn_ack_is_repeated_when_the_syn_comes_again_and_by_its_own_timer() {
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    assert_eq!(shows(&one.take(&syn(&cfg))), ["S. 0+0 ack 1"]);
    assert_eq!(shows(&one.take(&syn(&cfg))), ["S. 0+0 ack 1"]);
    let again = one.until(at_ms(1500));
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].0, show(&again[0].1)), (at_ms(1000), "S. 0+0 ack 1".to_owned()));
}

#[test]
fn a_reset_refuses_an_active_open() {
    let cfg = plain();
    let mut one = One { c: connect(&cfg, ISS, Time::ZERO), now: Time::ZERO };
    one.sent();
    assert_eq!(one.take(&ack(0, 1).flags(Flags::RST)), []);
    assert_eq!(one.c.error(), Some(ConnError::Refused));
    assert_eq!(one.c.next_timer(), None);
}

#[test]
fn a_reset_that_does_not_acknowledge_the_syn_is_ignored() {
    let cfg = plain();
    let mut one = One { c: connect(&cfg, ISS, Time::ZERO), now: Time::ZERO };
    one.sent();
    assert_eq!(one.take(&ack(0, 77).flags(Flags::RST)), []);
    assert_eq!(one.c.state(), State::SynSent);
}

#[test]
fn a_wrong_ack_in_syn_sent_is_answered_with_a_reset() {
    let cfg = plain();
    let mut one = One { c: connect(&cfg, ISS, Time::ZERO), now: Time::ZERO };
    one.sent();
    let out = one.take(&ack(0, 77).flags(Flags::SYN));
    assert_eq!(out[0].segment.flags, Flags::RST);
    assert_eq!(out[0].segment.seq, SeqNum::new(ISS + 77));
    assert_eq!(one.c.state(), State::SynSent);
}

#[test]
fn data_that_overtake_the_ack_of_the_handshake_are_kept_and_end_it() {
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg));
    // The second segment comes before the first, and both before the ACK.
    one.take(&data(1461, 1460));
    assert_eq!(one.c.state(), State::Established);
    one.take(&data(1, 1460));
    assert_eq!(one.c.readable(), bytes(2920));
    assert_eq!(one.c.info().refused, 0);
}

#[test]
fn a_reset_in_syn_received_brings_a_passive_open_back_to_listen() {
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg));
    assert_eq!(one.take(&ack(1, 1).flags(Flags::RST)), []);
    assert_eq!(one.c.state(), State::Listen);
    assert_eq!(shows(&one.take(&syn(&cfg))), ["S. 0+0 ack 1"]);
}

#[test]
fn a_segment_to_a_listener_that_is_no_syn_is_answered_with_a_reset() {
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    let out = one.take(&ack(5, 99));
    assert_eq!((out[0].segment.flags, out[0].segment.seq), (Flags::RST, SeqNum::new(ISS + 99)));
    assert_eq!(one.take(&ack(5, 99).flags(Flags::RST)), []);
}

#[test]
fn a_closed_connection_answers_everything_but_a_reset_with_a_reset() {
    let mut one = One::accepted(&plain());
    one.c.abort(one.now);
    one.sent();
    let out = one.take(&data(1, 100));
    assert_eq!((out[0].segment.flags, out[0].segment.seq), (Flags::RST, SeqNum::new(ISS + 1)));
    assert_eq!(one.take(&ack(1, 1).flags(Flags::RST)), []);
}

#[test]
fn two_syns_that_cross_open_one_connection() {
    let cfg = plain();
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), connect(&cfg, 9, Time::ZERO), ms(10));
    let mut states = Vec::new();
    net.pump(&mut clean);
    while net.step(at_ms(100)) {
        states.push(net.ends[0].state());
        net.pump(&mut clean);
    }
    assert!(states.contains(&State::SynReceived), "the opens were simultaneous: {states:?}");
    assert!(net.ends.iter().all(|c| c.state() == State::Established));
    assert_eq!(net.ends[0].write(net.now, bytes(1000)), bytes(1000));
    net.run(at_ms(1000), &mut clean);
    assert_eq!(net.ends[1].readable(), bytes(1000));
}

#[test]
fn data_written_before_the_handshake_leaves_with_its_end() {
    let cfg = plain();
    let mut c = connect(&cfg, ISS, Time::ZERO);
    assert_eq!(c.write(Time::ZERO, bytes(100)), bytes(100));
    let mut one = One { c, now: Time::ZERO };
    assert_eq!(shows(&one.sent()), ["S 0+0 ack -50000"]);
    let answer = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNum::new(ISS + 1), ..syn(&cfg) };
    assert_eq!(shows(&one.take(&answer)), ["P. 1+100 ack 1"]);
}

#[test]
fn a_syn_in_an_open_connection_gets_a_challenge_ack_and_changes_nothing() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&Segment { flags: Flags::SYN, ..ack(1, 0) })), [". 1+0 ack 1"]);
    assert_eq!(one.c.state(), State::Established);
    // RFC 5961 section 7: at most ten in five seconds.
    let answers: usize =
        (0..20).map(|_| one.give(&Segment { flags: Flags::SYN, ..ack(1, 0) }, Ecn::NotEct).len()).sum();
    assert_eq!(answers, 9);
}

#[test]
fn a_syn_in_the_window_brings_a_passive_open_back_to_listen() {
    // RFC 9293 section 3.10.7.4, fourth.
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg));
    let mut other = syn(&cfg);
    other.seq = SeqNum::new(PEER) + 70_000;
    assert_eq!(shows(&one.take(&other)), [". 1+0 ack 1"], "what is not acceptable is acknowledged");
    assert_eq!(one.c.state(), State::SynReceived, "it is not in the window");
    other.seq = SeqNum::new(PEER) + 500;
    assert_eq!(one.take(&other), []);
    assert_eq!(one.c.state(), State::Listen);
    assert_eq!(one.take(&syn(&cfg)).len(), 1, "and takes the next");
}

#[test]
fn on_linux_a_repeated_syn_ack_is_measured_by_its_echoed_timestamp() {
    // `tcp_ack_update_rtt`: at least one tick.
    for (profile, srtt) in [(Profile::Linux, Some(ms(1))), (Profile::FreeBsd, None)] {
        let cfg = Config::profile(profile);
        let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
        let first = one.take(&syn(&cfg));
        assert_eq!(one.take(&syn(&cfg)).len(), 1, "the SYN came twice");
        let stamp = first[0].segment.options.timestamps.expect("a timestamp").val;
        one.now = Time::from_nanos(300_000);
        one.take(&ack(1, 1).stamp(1, stamp));
        assert_eq!(one.c.info().srtt, srtt, "{profile:?}");
    }
}
