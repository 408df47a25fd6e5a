//! ECN: negotiation, ECE and CWR, and the counters of accurate ECN.

use crate::common::*;
use tcpassay_tcp::{Config, EcnMode, Outgoing, Profile, State};
use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Flags};

fn with(ecn: EcnMode) -> Config {
    Config { ecn, ..plain() }
}

/// The ECN flags of the three handshake segments when `a` opens to `b`, and whether data segments then have ECT.
fn handshake(a: EcnMode, b: EcnMode) -> (Vec<String>, Ecn) {
    let mut net = Two::new(connect(&with(a), 7, Time::ZERO), listen(&with(b), 9), ms(1));
    let mut seen = Vec::new();
    net.run(at_ms(100), &mut |_, out| {
        seen.push(out.segment.flags.to_string());
        clean(0, out)
    });
    assert!(net.ends.iter().all(|c| c.state() == State::Established));
    assert_eq!(net.ends[0].write(net.now, bytes(10)), bytes(10));
    let data = net.ends[0].poll_transmit(net.now).expect("data");
    (seen, data.ecn)
}

#[test]
fn classic_ecn_is_agreed_by_ece_and_cwr_on_the_syn_and_ece_on_the_answer() {
    assert_eq!(
        handshake(EcnMode::Classic, EcnMode::Classic),
        (vec!["SEW".into(), "S.E".into(), ".".into()], Ecn::Ect0)
    );
}

#[test]
fn a_listener_without_ecn_refuses_it() {
    assert_eq!(
        handshake(EcnMode::Classic, EcnMode::Off),
        (vec!["SEW".into(), "S.".into(), ".".into()], Ecn::NotEct)
    );
}

#[test]
fn a_listener_does_not_offer_what_was_not_asked() {
    assert_eq!(
        handshake(EcnMode::Off, EcnMode::Classic),
        (vec!["S".into(), "S.".into(), ".".into()], Ecn::NotEct)
    );
}

#[test]
fn three_flags_negotiate_accurate_ecn_and_report_the_ecn_field_of_each_syn() {
    // 010: each SYN arrived Not-ECT.
    assert_eq!(
        handshake(EcnMode::Accurate, EcnMode::Accurate),
        (vec!["SEWA".into(), "S.W".into(), ".W".into()], Ecn::Ect0)
    );
}

#[test]
fn an_accurate_client_and_a_classic_server_agree_on_classic_ecn() {
    assert_eq!(
        handshake(EcnMode::Accurate, EcnMode::Classic),
        (vec!["SEWA".into(), "S.E".into(), ".".into()], Ecn::Ect0)
    );
    assert_eq!(
        handshake(EcnMode::Classic, EcnMode::Accurate),
        (vec!["SEW".into(), "S.E".into(), ".".into()], Ecn::Ect0)
    );
    assert_eq!(
        handshake(EcnMode::Accurate, EcnMode::Off),
        (vec!["SEWA".into(), "S.".into(), ".".into()], Ecn::NotEct)
    );
}

#[test]
fn a_syn_ack_with_both_ecn_flags_does_not_accept_ecn() {
    let cfg = with(EcnMode::Classic);
    let mut one = One { c: connect(&cfg, ISS, Time::ZERO), now: Time::ZERO };
    one.sent();
    // RFC 3168 section 6.1.1: ECE and CWR both set on the SYN-ACK.
    let mut answer = syn(&cfg).flags(Flags::ACK | Flags::ECE | Flags::CWR);
    answer.ack = answer.ack + ISS + 1;
    one.take(&answer);
    assert_eq!(one.write(10)[0].ecn, Ecn::NotEct);
}

#[test]
fn a_repeated_syn_does_not_ask_for_ecn() {
    let mut one = One { c: connect(&with(EcnMode::Classic), ISS, Time::ZERO), now: Time::ZERO };
    assert_eq!(one.sent()[0].segment.flags, Flags::SYN | Flags::ECE | Flags::CWR);
    assert_eq!(one.until(at_ms(1500))[0].1.segment.flags, Flags::SYN);
}

#[test]
fn dctcp_makes_every_packet_ecn_capable() {
    let cfg = with(EcnMode::Dctcp);
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(1));
    let mut fields = Vec::new();
    net.run(at_ms(100), &mut |_, out| {
        fields.push(out.ecn);
        clean(0, out)
    });
    assert_eq!(fields, [Ecn::Ect0; 3]);
}

#[test]
fn a_mark_on_a_syn_does_not_count_for_dctcps_receiver() {
    let cfg = with(EcnMode::Dctcp);
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.give(&syn(&cfg).flags(Flags::ECE | Flags::CWR), Ecn::Ce);
    one.take(&ack(1, 1));
    assert_eq!(
        ece(&one.give(&data(1, 1460), Ecn::Ect0)),
        [false; 0],
        "no change to tell: the ACK is delayed"
    );
    assert_eq!(ece(&one.give(&data(1461, 1460), Ecn::Ect0)), [false]);
    assert_eq!(ece(&one.give(&data(2921, 1460), Ecn::Ce)), [true], "a mark on data is a change");
}

#[test]
fn classic_ecn_does_not_mark_pure_acks_or_syns_as_capable() {
    let cfg = with(EcnMode::Classic);
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(1));
    let mut fields = Vec::new();
    net.run(at_ms(100), &mut |_, out| {
        fields.push(out.ecn);
        clean(0, out)
    });
    assert_eq!(fields, [Ecn::NotEct; 3]);
}

/// A server with classic ECN in force.
fn classic() -> One {
    let cfg = with(EcnMode::Classic);
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg).flags(Flags::ECE | Flags::CWR));
    one.take(&ack(1, 1));
    one
}

fn ece(out: &[Outgoing]) -> Vec<bool> {
    out.iter().map(|o| o.segment.flags.has(Flags::ECE)).collect()
}

#[test]
fn a_mark_is_echoed_in_every_ack_until_cwr_comes() {
    let mut one = classic();
    assert_eq!(ece(&one.give(&data(1, 2920), Ecn::Ce)), [true]);
    assert_eq!(ece(&one.give(&data(2921, 2920), Ecn::Ect0)), [true]);
    assert_eq!(ece(&one.write(100)), [true], "data carry the echo, too");
    assert_eq!(ece(&one.give(&data(5841, 2920).flags(Flags::CWR), Ecn::Ect0)), [false]);
}

#[test]
fn a_mark_on_the_segment_with_cwr_is_a_new_one() {
    let mut one = classic();
    one.give(&data(1, 2920), Ecn::Ce);
    assert_eq!(ece(&one.give(&data(2921, 2920).flags(Flags::CWR), Ecn::Ce)), [true]);
}

/// A server of the profile `linux` with classic ECN in force.
fn linux() -> One {
    let cfg = Config { ecn: EcnMode::Classic, timestamps: false, ..Config::profile(Profile::Linux) };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg).flags(Flags::ECE | Flags::CWR));
    one.take(&ack(1, 1));
    one
}

#[test]
fn cwr_without_data_ends_the_echo_in_linux_and_is_not_answered() {
    // `tcp_ecn_accept_cwr`. RFC 3168 section 6.1.2 sends CWR with new data.
    for (mut one, echo) in [(linux(), false), (classic(), true)] {
        assert_eq!(ece(&one.give(&data(1, 2920), Ecn::Ce)), [true]);
        assert_eq!(one.take(&ack(2921, 1).flags(Flags::CWR)), []);
        assert_eq!(ece(&one.give(&data(2921, 2920), Ecn::Ect0)), [echo]);
    }
}

#[test]
fn linuxs_reset_of_a_connection_carries_the_echo() {
    // `tcp_send_active_reset` sends it like every packet of the connection (`tcp_ecn_send`).
    let mut one = linux();
    one.give(&data(1, 2920), Ecn::Ce);
    one.c.close(one.now);
    let [reset] = &one.sent()[..] else { panic!("unread data cause a reset") };
    assert_eq!(reset.segment.flags, Flags::RST | Flags::ACK | Flags::ECE);
}

#[test]
fn linuxs_time_wait_has_no_echo_but_the_ack_of_the_fin_has() {
    // `tcp_fin`, then `tcp_timewait_state_process`.
    let mut one = linux();
    assert_eq!(ece(&one.give(&data(1, 2920), Ecn::Ce)), [true]);
    one.read(2920);
    one.c.shutdown(one.now);
    assert_eq!(ece(&one.sent()), [true]);
    one.take(&ack(2921, 2));
    assert_eq!(ece(&one.take(&ack(2921, 2).flags(Flags::FIN))), [true]);
    assert_eq!(one.c.state(), State::TimeWait);
    one.now += ms(600);
    assert_eq!(ece(&one.take(&ack(2921, 2).flags(Flags::FIN))), [false]);
}

#[test]
fn linux_reads_the_mark_of_old_data_beside_a_new_fin() {
    // `tcp_event_data_recv`.
    let mut one = linux();
    assert_eq!(ece(&one.give(&data(1, 2920), Ecn::Ect0)), [false]);
    one.give(&data(1461, 1460).flags(Flags::FIN), Ecn::Ce);
    let out = one.until(at_ms(1000));
    assert_eq!(out.iter().map(|(_, out)| out.segment.flags.has(Flags::ECE)).collect::<Vec<_>>(), [true]);
}

#[test]
fn a_sender_that_receives_ece_reduces_once_and_sets_cwr_on_new_data() {
    let mut one = classic();
    let before = one.c.info().cwnd;
    assert_eq!(before, bytes(14_600));
    let first = one.write(14_600);
    assert_eq!(first.len(), 10);
    let mut out = Vec::new();
    for i in 1..=4 {
        out.extend(one.take(&ack(1, 1 + 1460 * i).flags(Flags::ECE)));
        out.extend(one.write(1460));
    }
    assert_eq!(one.c.info().ecn_reductions, 1);
    assert!(one.c.info().cwnd < before);
    for i in 5..=10 {
        out.extend(one.take(&ack(1, 1 + 1460 * i)));
    }
    let cwr: Vec<bool> = out.iter().map(|o| o.segment.flags.has(Flags::CWR)).collect();
    assert_eq!(cwr.iter().filter(|&&c| c).count(), 1, "{cwr:?}");
    assert!(cwr[0], "on the first new data after the reduction");
}

#[test]
fn accurate_ecn_counts_marks_both_ways() {
    let cfg = Config { ecn: EcnMode::Accurate, ..Config::profile(Profile::Rfc) };
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(5));
    net.run(at_ms(100), &mut clean);
    assert_eq!(net.ends[0].write(net.now, bytes(14_480)), bytes(14_480));
    // Three of the ten packets are marked on the way.
    let mut n = 0;
    let sent: Vec<Outgoing> = std::iter::from_fn(|| net.ends[0].poll_transmit(net.now)).collect();
    for out in sent {
        n += 1;
        let field = if (4..7).contains(&n) { Ecn::Ce } else { out.ecn };
        net.ends[1].on_segment(net.now, &out.segment, field);
        while let Some(back) = net.ends[1].poll_transmit(net.now) {
            net.ends[0].on_segment(net.now, &back.segment, back.ecn);
        }
    }
    assert_eq!(n, 10);
    net.run(at_ms(500), &mut clean);
    assert_eq!(net.ends[1].info().ce_segments_in, 3);
    assert_eq!(net.ends[0].info().delivered_ce, bytes(3 * 1448));
    assert_eq!(net.ends[0].info().ecn_reductions, 1);
}

/// Both ends of a handshake with accurate ECN in which the SYN or SYN-ACK of `from` is marked.
fn marked_handshake(from: usize) -> Two {
    let cfg = Config { ecn: EcnMode::Accurate, ..plain() };
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(5));
    for end in [0, 1, 0] {
        while let Some(out) = net.ends[end].poll_transmit(Time::ZERO) {
            let marked = end == from && out.segment.flags.has(Flags::SYN);
            net.ends[1 - end].on_segment(Time::ZERO, &out.segment, if marked { Ecn::Ce } else { out.ecn });
        }
    }
    net
}

#[test]
fn a_marked_syn_ack_starts_both_counters_at_6_and_is_not_counted_again() {
    let mut net = marked_handshake(1);
    assert!(net.ends.iter().all(|c| c.state() == State::Established));
    // The client's ACE: r.cep = 6 = 110.
    assert_eq!(net.ends[0].write(Time::ZERO, bytes(10)), bytes(10));
    let data = net.ends[0].poll_transmit(Time::ZERO).expect("data");
    assert!(data.segment.flags.has(Flags::AE | Flags::CWR) && !data.segment.flags.has(Flags::ECE));
    net.ends[1].on_segment(Time::ZERO, &data.segment, data.ecn);
    assert_eq!(net.ends[1].write(Time::ZERO, bytes(10)), bytes(10));
    while let Some(out) = net.ends[1].poll_transmit(Time::ZERO) {
        net.ends[0].on_segment(Time::ZERO, &out.segment, out.ecn);
    }
    while let Some(out) = net.ends[0].poll_transmit(Time::ZERO) {
        net.ends[1].on_segment(Time::ZERO, &out.segment, out.ecn);
    }
    assert_eq!(net.ends[1].info().ecn_reductions, 0);
}

#[test]
fn a_reset_of_a_dctcp_connection_is_ecn_capable_and_of_a_classic_one_is_not() {
    // RFC 8257 section 3.6; RFC 3168 has ECT on data only.
    for (mode, field) in [(EcnMode::Dctcp, Ecn::Ect0), (EcnMode::Classic, Ecn::NotEct)] {
        let cfg = with(mode);
        let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
        one.take(&syn(&cfg).flags(Flags::ECE | Flags::CWR));
        one.take(&ack(1, 1).stamped(&cfg, 1));
        assert_eq!(one.c.state(), State::Established);
        one.c.abort(one.now);
        let out = one.sent();
        assert!(out[0].segment.flags.has(Flags::RST));
        assert_eq!(out[0].ecn, field);
    }
}

#[test]
fn a_classic_server_that_sees_a_syn_without_ecn_ends_it() {
    // RFC 3168 section 6.1.1 and the scenario of 6.1.1.1.
    let cfg = with(EcnMode::Classic);
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg).flags(Flags::ECE | Flags::CWR));
    assert_eq!(one.take(&syn(&cfg))[0].segment.flags, Flags::SYN | Flags::ACK);
    one.take(&ack(1, 1));
    assert_eq!(one.write(10)[0].ecn, Ecn::NotEct);
}
