//! The receiver: times of ACKs, SACK blocks, and the window.

use crate::common::*;
use tcpassay_tcp::{Config, DelayedAck, Keepalive, Outgoing, Profile, RecvBuffer};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Flags, Segment};

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&data(1, 1460))), [""; 0]);
    assert_eq!(shows(&one.take(&data(1461, 1460))), [". 1+0 ack 2921"]);
    assert_eq!(shows(&one.take(&data(2921, 1460))), [""; 0]);
    assert_eq!(shows(&one.take(&data(4381, 1460))), [". 1+0 ack 5841"]);
}

#[test]
fn a_single_segment_is_acknowledged_when_the_timer_fires() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 1460));
    let later = one.until(at_ms(1000));
    assert_eq!(later.len(), 1);
    assert_eq!((later[0].0, show(&later[0].1)), (at_ms(200), ". 1+0 ack 1461".to_owned()));
    assert_eq!(one.c.info().delayed_ack_timeouts, 1);
}

#[test]
fn data_of_our_own_carry_the_ack() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 1460));
    assert_eq!(shows(&one.write(10)), ["P. 1+10 ack 1461"]);
    assert_eq!(one.c.info().delayed_acks, 1);
    one.now = at_ms(900);
    assert_eq!(one.c.info().acks_out, 0);
}

#[test]
fn a_merged_segment_counts_as_the_packets_in_it() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&data(1, 2920))), [". 1+0 ack 2921"]);
}

#[test]
fn every_segment_is_acknowledged_when_delaying_is_off() {
    let base = plain();
    let cfg = Config { delayed_ack: DelayedAck { every: 1, ..base.delayed_ack }, ..base };
    let mut one = One::accepted(&cfg);
    assert_eq!(shows(&one.take(&data(1, 10))), [". 1+0 ack 11"]);
    assert_eq!(shows(&one.take(&data(11, 10))), [". 1+0 ack 21"]);
}

#[test]
fn the_socket_option_quickack_acknowledges_what_waits_and_what_comes() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 100));
    one.c.set_quickack(one.now, true);
    assert_eq!(shows(&one.sent()), [". 1+0 ack 101"]);
    assert_eq!(shows(&one.take(&data(101, 100))), [". 1+0 ack 201"]);
    one.c.set_quickack(one.now, false);
    assert_eq!(shows(&one.take(&data(201, 100))), [""; 0]);
}

#[test]
fn linux_acknowledges_the_first_sixteen_segments_quickly_then_every_second() {
    let cfg = Config {
        timestamps: false,
        // A buffer of the size of the first window: the window does not grow, which would also cause quick ACKs.
        recv_buffer: RecvBuffer::Fixed(bytes(29_200)),
        ..Config::profile(Profile::Linux)
    };
    let mut one = One::accepted(&cfg);
    let mut answered = Vec::new();
    for i in 0..24 {
        let out = one.take(&data(1 + i * 1000, 1000));
        answered.push(out.len());
        // The application reads at once.
        one.read(1000);
    }
    // 29,200 / (2 * 1000) = 14 quick ACKs.
    assert_eq!(answered[..14], [1; 14]);
    assert_eq!(answered[14..22], [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn linux_counts_quick_acks_by_the_window_that_it_announced() {
    let cfg = Config {
        timestamps: false,
        recv_buffer: RecvBuffer::Fixed(bytes(8760)),
        ..Config::profile(Profile::Linux)
    };
    let mut one = One::accepted(&cfg);
    let answered: Vec<usize> = (0..8)
        .map(|i| {
            let acks = one.take(&data(1 + i * 1000, 1000)).len();
            one.read(1000);
            acks
        })
        .collect();
    // 8760 / (2 * 1000), not the 7760 that the first segment leaves.
    assert_eq!(answered, [1, 1, 1, 1, 0, 1, 0, 1]);
}

#[test]
fn linux_delays_by_40_ms_when_segments_come_quickly_and_longer_when_they_come_slowly() {
    let base = Config::profile(Profile::Linux);
    let cfg =
        Config { timestamps: false, delayed_ack: DelayedAck { quick_ack: 0, ..base.delayed_ack }, ..base };
    // A round trip of 100 ms: it bounds the delay.
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg));
    one.now = at_ms(100);
    one.take(&ack(1, 1));
    one.take(&data(1, 1000));
    assert_eq!(one.c.next_timer(), Some(at_ms(140)));
    one.now = at_ms(139);
    assert_eq!(one.take(&data(1001, 1000)).len(), 1);
    one.now = at_ms(178);
    one.take(&data(2001, 300));
    // ato = 40 / 2 + 39 = 59, then 59 / 2 + 39 = 68.5.
    assert_eq!(one.c.next_timer(), Some(at_ms(178) + Dur::from_micros(68_500)));
}

/// Linux's receiver without quick ACKs, after a handshake of 100 ms; the clock shows 100 ms.
fn linux_without_quick_acks() -> One {
    let base = Config::profile(Profile::Linux);
    let cfg =
        Config { timestamps: false, delayed_ack: DelayedAck { quick_ack: 0, ..base.delayed_ack }, ..base };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg));
    one.now = at_ms(100);
    one.take(&ack(1, 1));
    one
}

#[test]
fn in_linux_a_keepalive_probe_ends_a_delayed_ack() {
    let keepalive = Keepalive { idle: ms(25), interval: ms(50), count: 9 };
    let base = Config::profile(Profile::Linux);
    let delayed_ack = DelayedAck { quick_ack: 0, ..base.delayed_ack };
    let mut one =
        One::accepted(&Config { timestamps: false, keepalive: Some(keepalive), delayed_ack, ..base });
    assert_eq!(one.take(&data(1, 300)), []);
    let start = one.now;
    let out = one.until(start + ms(74));
    let sent: Vec<(u64, String)> =
        out.iter().map(|(at, out)| (at.since(start).as_millis(), show(out))).collect();
    // The ACK would be due after 40 ms.
    assert_eq!(sent, [(25, ". 0+0 ack 301".to_string())]);
}

#[test]
fn linux_acknowledges_the_end_of_a_write_when_the_application_has_read_it() {
    let mut one = linux_without_quick_acks();
    // Shorter than a full segment: it ends a write, so that no further segment may follow.
    assert_eq!(one.take(&data(1, 300).flags(Flags::PSH)), []);
    assert_eq!(shows(&one.read(300)), [". 1+0 ack 301"]);
    // In ping-pong mode the answer carries the ACK.
    one.c.set_nodelay(one.now, true);
    one.write(10);
    assert_eq!(one.take(&data(301, 300).flags(Flags::PSH)), []);
    assert_eq!(shows(&one.write(10)), ["P. 11+10 ack 601"]);
    assert_eq!(one.take(&data(601, 300).flags(Flags::PSH)), []);
    assert_eq!(one.read(600), []);
}

#[test]
fn linux_acknowledges_one_full_segment_with_push_when_the_application_has_read_it() {
    let mut one = linux_without_quick_acks();
    assert_eq!(one.take(&data(1, 1000)), []);
    assert_eq!(one.read(1000), []);
    assert_eq!(shows(&one.take(&data(1001, 1000))), [". 1+0 ack 2001"]);
    assert_eq!(one.read(1000), []);
    // The end of a super-segment, with no earlier unacknowledged data.
    assert_eq!(one.take(&data(2001, 1000).flags(Flags::PSH)), []);
    assert_eq!(shows(&one.read(1000)), [". 1+0 ack 3001"]);
}

#[test]
fn linux_sends_a_delayed_ack_early_when_its_timer_is_about_to_fire() {
    let mut one = linux_without_quick_acks();
    one.take(&data(1, 200).flags(Flags::PSH));
    assert_eq!(one.c.next_timer(), Some(at_ms(140)));
    one.now = at_ms(125);
    assert_eq!(one.take(&data(201, 100).flags(Flags::PSH)).len(), 0);
    one.now = at_ms(131);
    assert_eq!(shows(&one.take(&data(301, 100).flags(Flags::PSH))), [". 1+0 ack 401"]);
}

#[test]
fn linux_acknowledges_quickly_after_a_silence_longer_than_the_rto() {
    let cfg = Config {
        timestamps: false,
        recv_buffer: RecvBuffer::Fixed(bytes(29_200)),
        ..Config::profile(Profile::Linux)
    };
    let mut one = One::accepted(&cfg);
    for i in 0..20 {
        one.take(&data(1 + i * 1000, 1000));
        one.read(1000);
    }
    one.until(at_ms(500));
    assert_eq!(one.take(&data(20_001, 1000)).len(), 1, "quick");
}

#[test]
fn a_segment_out_of_order_is_answered_at_once_with_its_block() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&data(1461, 1460))), [". 1+0 ack 1 sack 1461-2921"]);
    assert_eq!(shows(&one.take(&data(2921, 1460))), [". 1+0 ack 1 sack 1461-4381"]);
    assert_eq!(one.c.info().out_of_order_in, 2);
}

#[test]
fn a_segment_that_fills_a_gap_is_acknowledged_at_once() {
    let mut one = One::accepted(&plain());
    one.take(&data(1461, 1460));
    assert_eq!(shows(&one.take(&data(1, 1460))), [". 1+0 ack 2921"]);
    assert_eq!(one.c.readable(), bytes(2920));
}

#[test]
fn linux_counts_the_ack_of_a_gap_that_is_filled_in_part_as_the_first_of_three_for_its_position() {
    let base = Config::profile(Profile::Linux);
    let cfg =
        Config { timestamps: false, delayed_ack: DelayedAck { quick_ack: 0, ..base.delayed_ack }, ..base };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    one.take(&syn(&cfg));
    one.now = at_ms(100);
    one.take(&ack(1, 1));
    // Three segments out of order, the first half of the gap before them, and three more.
    let answered = [2001, 4001, 6001, 1, 8001, 10_001, 12_001].map(|at| one.take(&data(at, 1000)).len());
    assert_eq!(answered, [1, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn the_first_block_is_the_most_recent_and_the_rest_follow_in_order_of_report() {
    let mut one = One::accepted(&plain());
    for seq in [1001, 3001, 5001, 7001] {
        one.take(&data(seq, 1000));
    }
    let out = one.take(&data(9001, 1000));
    assert_eq!(shows(&out), [". 1+0 ack 1 sack 9001-10001 sack 7001-8001 sack 5001-6001 sack 3001-4001"]);
    let out = one.take(&data(6001, 1000));
    assert_eq!(shows(&out), [". 1+0 ack 1 sack 5001-8001 sack 9001-10001 sack 3001-4001"]);
}

#[test]
fn three_blocks_fit_beside_timestamps() {
    let cfg = Config::profile(Profile::Rfc);
    let mut one = One::accepted(&cfg);
    for seq in [1001, 3001, 5001, 7001] {
        one.take(&data(seq, 1000).stamp(2, 5000));
    }
    let out = one.take(&data(9001, 1000).stamp(2, 5000));
    assert_eq!(out[0].segment.options.sack.len(), 3);
    assert!(out[0].segment.header_len() <= 60, "a TCP header has at most 60 bytes");
}

#[test]
fn a_duplicate_is_reported_once_as_the_first_block() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 1000));
    one.take(&data(2001, 1000));
    // RFC 2883 section 4: below the cumulative ACK.
    assert_eq!(shows(&one.take(&data(1, 1000))), [". 1+0 ack 1001 sack 1-1001 sack 2001-3001"]);
    // Inside a block that was reported.
    assert_eq!(shows(&one.take(&data(2001, 500))), [". 1+0 ack 1001 sack 2001-2501 sack 2001-3001"]);
    assert_eq!(shows(&one.take(&data(4001, 500))), [". 1+0 ack 1001 sack 4001-4501 sack 2001-3001"]);
    assert_eq!(one.c.info().bytes_duplicate, bytes(1500));
}

#[test]
fn without_dsack_a_duplicate_is_answered_without_a_report() {
    let mut one = One::accepted(&Config { dsack: false, ..plain() });
    one.take(&data(1, 1000));
    assert_eq!(shows(&one.take(&data(1, 1000))), [". 1+0 ack 1001"]);
}

#[test]
fn a_block_that_data_have_no_room_for_goes_out_in_an_ack_of_its_own() {
    let mut one = One::accepted(&plain());
    one.c.on_segment(one.now, &data(1461, 1460), tcpassay_wire::Ecn::NotEct);
    assert_eq!(shows(&one.write(1460)), ["P. 1+1460 ack 1", ". 1461+0 ack 1 sack 1461-2921"]);
}

#[test]
fn a_segment_that_overlaps_what_came_before_gives_only_what_is_new() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 1000));
    one.take(&data(501, 1000));
    assert_eq!(one.c.readable(), bytes(1500));
}

#[test]
fn the_window_closes_as_data_wait_and_opens_with_an_update_when_they_are_read() {
    let cfg = Config { recv_buffer: RecvBuffer::Fixed(bytes(5000)), ..plain() };
    let mut one = One::accepted(&cfg);
    one.take(&data(1, 1460));
    let out = one.take(&data(1461, 1460));
    assert_eq!(out[0].segment.window, 2080);
    one.take(&data(2921, 1460));
    let out = one.take(&data(4381, 620));
    assert_eq!(shows(&out), [""; 0], "less than two full segments");
    let out = one.until(at_ms(200));
    assert_eq!(out[0].1.segment.window, 0);
    // Silly window avoidance: an increase by 1459 bytes is not announced.
    assert_eq!(one.read(1459), []);
    assert_eq!(one.read(1), []);
    let out = one.read(1460);
    assert_eq!(shows(&out), [". 1+0 ack 5001"]);
    assert_eq!(out[0].segment.window, 2920);
}

#[test]
fn data_beyond_a_closed_window_are_not_taken_and_answered() {
    let cfg = Config { recv_buffer: RecvBuffer::Fixed(bytes(2920)), ..plain() };
    let mut one = One::accepted(&cfg);
    let out = one.take(&data(1, 2920));
    assert_eq!(out[0].segment.window, 0);
    // A window probe with one byte.
    let out = one.take(&data(2921, 1));
    assert_eq!(shows(&out), [". 1+0 ack 2921"]);
    assert_eq!(one.c.readable(), bytes(2920));
}

#[test]
fn a_keepalive_probe_is_answered() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&ack(0, 1))), [". 1+0 ack 1"]);
}

#[test]
fn the_right_edge_never_moves_left() {
    let cfg = Config { recv_buffer: RecvBuffer::Fixed(bytes(1 << 20)), ..Config::profile(Profile::Linux) };
    let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
    let mut first = syn(&cfg);
    first.options.window_scale = Some(3);
    one.take(&first);
    one.take(&ack(1, 1).stamp(1, 5000));
    let mut edge = 0;
    let mut grew = 0;
    for i in 0..300u32 {
        let out = one.take(&data(1 + 777 * i, 777).stamp(1, 5000));
        for o in out {
            let right = o.segment.ack.distance(tcpassay_units::SeqNum::new(PEER))
                + (i32::from(o.segment.window) << 5);
            assert!(right >= edge, "{right} after {edge}");
            grew += i32::from(right > edge);
            edge = right;
        }
        if i % 3 == 0 {
            one.read(500);
        }
    }
    assert!(grew > 50, "the window moved");
}

#[test]
fn an_autotuned_buffer_grows_with_what_the_application_reads() {
    let cfg = Config {
        recv_buffer: RecvBuffer::Auto { initial: bytes(20_000), max: bytes(1_000_000) },
        ..Config::profile(Profile::Rfc)
    };
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(10));
    net.run(at_ms(100), &mut clean);
    while net.now < at_ms(2000) {
        let _ = net.ends[0].write(net.now, bytes(1 << 20));
        net.pump(&mut clean);
        if !net.step(at_ms(2000)) {
            break;
        }
        let n = net.ends[1].readable();
        let _ = net.ends[1].read(net.now, n);
        net.pump(&mut clean);
    }
    let info = net.ends[1].info();
    assert!(info.rcv_buf > bytes(200_000), "{info:?}");
}

#[test]
fn an_old_timestamp_is_refused_and_answered_and_the_data_do_not_count() {
    let cfg = Config::profile(Profile::Rfc);
    let mut one = One::accepted(&cfg);
    one.take(&data(1, 100).stamp(500, 5000));
    one.until(at_ms(300));
    one.take(&data(101, 100).stamp(600, 5000));
    let out = one.take(&data(201, 100).stamp(599, 5000));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].segment.ack.distance(tcpassay_units::SeqNum::new(PEER)), 201);
    assert_eq!(one.c.readable(), bytes(200));
    assert_eq!(one.c.info().refused, 1);
    // The same data with a good timestamp.
    one.take(&data(201, 100).stamp(601, 5000));
    assert_eq!(one.c.readable(), bytes(300));
}

#[test]
fn linux_takes_data_whose_timestamp_is_older_by_one_and_keeps_the_newer_one() {
    let cfg = Config::profile(Profile::Linux61);
    for (stamp, taken) in [(599, 300), (598, 200)] {
        let mut one = One::accepted(&cfg);
        one.take(&data(1, 100).stamp(600, 5000));
        one.take(&data(101, 100).stamp(600, 5000));
        let out = one.take(&data(201, 100).stamp(stamp, 5000));
        assert_eq!(one.c.readable(), bytes(taken), "TCP_PAWS_WINDOW");
        assert_eq!(out[0].segment.options.timestamps.expect("stamped").ecr, 600);
    }
}

#[test]
fn after_24_days_of_silence_an_old_timestamp_is_accepted() {
    let cfg = Config { user_timeout: None, ..Config::profile(Profile::Rfc) };
    let mut one = One::accepted(&cfg);
    one.take(&data(1, 100).stamp(500, 5000));
    one.until(Time::ZERO + Dur::from_secs(25 * 86_400));
    one.take(&data(101, 100).stamp(400, 5000));
    assert_eq!(one.c.readable(), bytes(200));
}

#[test]
fn the_echo_is_the_stamp_of_the_segment_at_the_last_ack_not_of_the_newest() {
    let cfg = Config::profile(Profile::Rfc);
    let mut one = One::accepted(&cfg);
    // RFC 7323 section 4.3: with a delayed ACK the earliest unacknowledged segment is echoed.
    one.take(&data(1, 1448).stamp(10, 5000));
    let out = one.take(&data(1449, 1448).stamp(20, 5000));
    assert_eq!(out[0].segment.options.timestamps.expect("stamped").ecr, 10);
    // A segment out of order: the echoed timestamp is that of the last segment in order.
    let out = one.take(&data(5793, 1448).stamp(40, 5000));
    assert_eq!(out[0].segment.options.timestamps.expect("stamped").ecr, 10);
}

#[test]
fn data_without_room_for_a_waiting_dsack_count_as_the_last_ack() {
    let mut one = One::accepted(&Config::profile(Profile::Rfc));
    let echo = |out: &[Outgoing]| out[0].segment.options.timestamps.expect("stamped").ecr;
    // The ACK of new data, part of which arrived before, is delayed, and so is the DSACK.
    assert_eq!(shows(&one.take(&data(1, 100).stamp(10, 5000))), [""; 0]);
    assert_eq!(shows(&one.take(&data(1, 150).stamp(20, 5000))), [""; 0]);
    let out = one.write(1448);
    assert_eq!((shows(&out), echo(&out)), (vec!["P. 1+1448 ack 151".to_owned()], 20));
    // RFC 7323 section 4.3: Last.ACK.sent is 151.
    one.take(&data(151, 100).stamp(30, 5000));
    let out: Vec<Outgoing> = one.until(at_ms(1000)).into_iter().map(|(_, out)| out).collect();
    assert_eq!(echo(&out), 30);
}

#[test]
fn urgent_data_are_known_until_they_are_read() {
    let mut one = One::accepted(&plain());
    let mut urgent = data(1, 100).flags(Flags::URG);
    urgent.urgent = 50;
    one.take(&urgent);
    assert!(one.c.is_urgent());
    one.read(50);
    assert!(!one.c.is_urgent());
}

#[test]
fn linux_processes_an_ack_from_the_position_of_its_last_ack_on() {
    let cfg = Config { timestamps: false, ..Config::profile(Profile::Linux) };
    let mut one = One::accepted(&cfg);
    assert_eq!(shows(&one.write(1000)), ["P. 1+1000 ack 1"]);
    one.c.set_quickack(one.now, false);
    // Its ACK waits: RCV.NXT is 101, the last ACK was 1.
    assert_eq!(shows(&one.take(&data(1, 100))), [""; 0]);
    let before = one.c.info().refused;
    assert_eq!(shows(&one.take(&ack(1, 1001))), [""; 0]);
    assert_eq!(one.c.info().refused - before, 0);
    assert!(one.c.is_flushed());
    // A reset there is challenged, and the challenge is an ACK of everything.
    assert_eq!(shows(&one.take(&Segment { flags: Flags::RST, ..ack(50, 0) })), [". 1001+0 ack 101"]);
    // From now on the position is too old.
    one.take(&ack(50, 1001));
    assert_eq!(one.c.info().refused - before, 2);
}

#[test]
fn by_the_rfc_an_ack_below_the_next_expected_position_is_answered() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.write(1000)), ["P. 1+1000 ack 1"]);
    assert_eq!(shows(&one.take(&data(1, 100))), [""; 0]);
    assert_eq!(shows(&one.take(&ack(1, 1001))), [". 1001+0 ack 101"]);
    assert!(!one.c.is_flushed());
}

#[test]
fn linux_measures_no_round_trip_of_the_receiver_by_the_segment_that_ends_the_handshake() {
    // `tcp_rcv_rtt_measure_ts` is called by `tcp_rcv_established`, not by `tcp_rcv_state_process`.
    for (profile, measured) in [(Profile::Linux61, [0, 39]), (Profile::FreeBsd, [38, 38])] {
        let cfg = Config::profile(profile);
        let mut one = One { c: listen(&cfg, ISS), now: Time::ZERO };
        let opened = one.take(&syn(&cfg));
        let echo = opened[0].segment.options.timestamps.expect("a stamp").val;
        let mut get = |ms: u64, seq: u32| {
            one.now = at_ms(ms);
            one.take(&data(seq, 1000).stamp(2, echo));
            one.c.tuned()[5] / 1_000_000
        };
        assert_eq!([get(38, 1), get(39, 1001)], measured, "{profile:?}");
    }
}

#[test]
fn in_linux_a_reply_of_any_size_delays_the_ack_of_what_follows() {
    // `tcp_event_data_sent`; without a reply the first ACKs are quick.
    for (reply, acks) in [(0, 1), (100, 0), (1460, 0), (2920, 0)] {
        let mut one = One::accepted(&Config { timestamps: false, ..Config::profile(Profile::Linux) });
        assert_eq!(one.take(&data(1, 100)).len(), 1, "a quick ACK");
        if reply > 0 {
            one.write(reply);
        }
        assert_eq!(one.take(&data(101, 100)).len(), acks, "after a reply of {reply} bytes");
    }
}
