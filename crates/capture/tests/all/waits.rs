//! What kept a sender from sending, from a capture at the sender. Round trip 20 ms; the time counts from 20 ms on, when the handshake is done.

use crate::made::{Made, Timed, analyse, by, handshake, pcap};
use tcpassay_capture::TimeShares;
use tcpassay_wire::Flags;

const PUSH: Flags = Flags::PSH;

fn data(seq: u32, len: u32, push: bool, ms: u64) -> Timed {
    let made = by(true).seq(seq, len).ack(5001).window(500);
    let flags = made.segment.flags;
    made.flags(if push { flags | PUSH } else { flags }).at_us(1000 * ms)
}

fn ack(ack: u32, window: u16) -> Made {
    by(false).seq(5001, 0).ack(ack).window(window)
}

fn at(made: Made, ms: u64) -> Timed {
    made.at_us(1000 * ms)
}

fn shares(rest: Vec<Timed>) -> TimeShares {
    let syn = |client: bool, flags: Flags| {
        let mut made = by(client).flags(flags).window(64_000).scale(7);
        made.segment.options.mss = Some(1400);
        made
    };
    let mut packets = vec![
        syn(true, Flags::SYN).seq(1000, 0).ack(0).at_us(0),
        syn(false, Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).at_us(20_000),
        by(true).seq(1001, 0).ack(5001).window(500).at_us(20_000),
    ];
    packets.extend(rest);
    analyse(&pcap(101, &packets)).0.flows[0].time_shares.expect("a capture at the sender")
}

/// The shares in percent: application, Nagle, send buffer, receive window, congestion window, pacing, recovery, timers, unknown.
fn percent(shares: TimeShares) -> String {
    let all = [
        shares.time_application,
        shares.time_nagle,
        shares.time_send_buffer,
        shares.time_receive_window,
        shares.time_congestion_window,
        shares.time_pacing,
        shares.time_recovery,
        shares.time_timers,
        shares.time_unknown,
    ];
    assert!((all.iter().sum::<f64>() + shares.time_host_queue - 1.0).abs() < 1e-9, "{all:?}");
    all.map(|share| format!("{:.0}", 100.0 * share)).join(" ")
}

#[test]
fn full_segments_that_leave_with_an_ack_waited_for_the_congestion_window() {
    let shares = shares(vec![
        data(1001, 1400, false, 20),
        at(ack(2401, 500), 40),
        data(2401, 1400, false, 40),
        at(ack(3801, 500), 60),
        data(3801, 900, true, 60),
        data(4701, 1400, true, 100),
        at(ack(6101, 500), 120),
    ]);
    // Why nothing follows a full segment is unknown.
    assert_eq!(percent(shares), "40 0 0 0 40 0 0 0 20");
}

#[test]
fn a_process_that_is_scheduled_after_the_ack_waited_for_it() {
    // The round trip is 20 ms.
    let late = |ms: u64| {
        shares(vec![
            data(1001, 1400, false, 20),
            at(ack(2401, 500), 40),
            data(2401, 100, true, 40 + ms),
            at(ack(2501, 500), 100),
        ])
    };
    assert_eq!(percent(late(2)), "72 0 0 0 28 0 0 0 0");
    assert_eq!(percent(late(3)), "100 0 0 0 0 0 0 0 0");
}

#[test]
fn what_a_capture_without_the_options_of_the_handshake_cannot_tell_is_unknown() {
    let mut packets = handshake(20_000);
    packets.iter_mut().take(2).for_each(|(_, bytes)| bytes.truncate(40));
    packets.extend([
        data(1001, 1400, false, 20),
        at(ack(2401, 500), 40),
        data(2401, 1400, true, 40),
        at(ack(3801, 500), 60),
        data(3801, 1400, true, 60),
        at(ack(5201, 500), 80),
        at(by(true).flags(Flags::FIN | Flags::ACK).seq(5201, 0).ack(5001).window(500), 120),
    ]);
    let shares = analyse(&pcap(101, &packets)).0.flows[0].time_shares.expect("a capture at the sender");
    assert_eq!(percent(shares), "60 0 0 0 0 0 0 0 40");
}

#[test]
fn a_window_without_room_limits_until_it_opens() {
    let shares = shares(vec![
        data(1001, 1400, false, 20),
        at(ack(2401, 0), 40),
        at(ack(2401, 500), 90),
        data(2401, 1400, true, 90),
        at(ack(3801, 500), 120),
    ]);
    // Before the ACK the window was open.
    assert_eq!(percent(shares), "0 0 0 50 0 0 0 0 50");
}

#[test]
fn a_window_limits_from_its_announcement_on() {
    let fin = by(false).flags(Flags::FIN | Flags::ACK).seq(5001, 0).ack(1301).window(0);
    let shares = shares(vec![
        data(1001, 300, true, 20),
        at(ack(1301, 500), 40),
        at(fin, 100),
        at(by(true).seq(1301, 0).ack(5002).window(500), 120),
    ]);
    assert_eq!(percent(shares), "80 0 0 20 0 0 0 0 0");
}

#[test]
fn a_small_segment_after_the_ack_of_everything_waited_by_nagle() {
    let shares = shares(vec![
        data(1001, 300, true, 20),
        at(ack(1301, 500), 60),
        data(1301, 900, true, 60),
        at(ack(2201, 500), 120),
    ]);
    assert_eq!(percent(shares), "60 40 0 0 0 0 0 0 0");
}

#[test]
fn a_response_that_leaves_with_the_ack_of_a_request_is_the_applications() {
    let shares = shares(vec![
        data(1001, 300, true, 20),
        at(by(false).seq(5001, 100).ack(1301).window(500), 60),
        data(1301, 300, true, 60),
        at(ack(1601, 500), 120),
    ]);
    assert_eq!(percent(shares), "100 0 0 0 0 0 0 0 0");
}

#[test]
fn a_response_to_data_that_follow_the_ack_is_the_applications() {
    let request = by(false).seq(5001, 100).ack(1301).window(500);
    let shares = shares(vec![
        data(1001, 300, true, 20),
        at(ack(1301, 500), 60),
        request.at_us(60_020),
        by(true).flags(Flags::ACK | PUSH).seq(1301, 200).ack(5101).window(500).at_us(60_040),
        at(ack(1501, 500), 120),
    ]);
    assert_eq!(percent(shares), "100 0 0 0 0 0 0 0 0");
}

#[test]
fn data_after_the_last_of_a_write_that_leave_with_an_ack_waited_for_room_in_the_send_buffer() {
    let shares = shares(vec![
        data(1001, 1400, false, 20),
        data(2401, 800, true, 20),
        at(ack(2401, 500), 60),
        data(3201, 1400, true, 60),
        at(ack(4601, 500), 120),
    ]);
    assert_eq!(percent(shares), "0 0 40 0 0 0 0 0 60");
}

#[test]
fn full_segments_that_leave_without_an_ack_are_paced_and_a_silence_of_a_round_trip_before_a_retransmission_is_a_timer()
 {
    let shares = shares(vec![
        data(1001, 1400, false, 20),
        data(2401, 1400, false, 25),
        data(3801, 1400, true, 30),
        data(1001, 1400, false, 230),
        at(ack(5201, 500), 270),
    ]);
    assert_eq!(percent(shares), "0 0 0 0 0 4 16 80 0");
}

/// Full segments that leave together; the last one has PSH, or none has.
fn train(seq: u32, segments: u32, push: bool, ms: u64) -> Vec<Timed> {
    (0..segments).map(|n| data(seq + 1400 * n, 1400, push && n + 1 == segments, ms)).collect()
}

#[test]
fn psh_on_every_train_of_full_segments_is_no_end_of_a_write() {
    let trains = |segments: u32, ms: u64| {
        let mut all: Vec<Timed> = (0..4)
            .flat_map(|n| train(1001 + n * segments * 1400, segments, true, 20 + u64::from(n) * ms))
            .collect();
        all.push(at(ack(1001 + 4 * segments * 1400, 500), 20 + 4 * ms));
        percent(shares(all))
    };
    // Pairs that are spread over the round trip are paced; longer trains after pauses of 12 ms are not.
    assert_eq!(trains(2, 8), "0 0 0 0 0 75 0 0 25");
    assert_eq!(trains(5, 12), "0 0 0 0 0 0 0 0 100");
}

#[test]
fn psh_ends_a_write_of_a_sender_of_which_other_trains_have_none() {
    let mut all = train(1001, 4, false, 20);
    all.push(at(ack(3801, 500), 40));
    all.extend(train(6601, 4, true, 40));
    all.extend(train(12_201, 1, false, 52));
    all.push(at(ack(13_601, 500), 60));
    assert_eq!(percent(shares(all)), "30 0 0 0 50 0 0 0 20");
}

#[test]
fn full_segments_after_several_acks_waited_for_no_room_in_the_send_buffer() {
    for push in [false, true] {
        let mut all = train(1001, 12, push, 20);
        all.extend([at(ack(3801, 500), 38), at(ack(12_201, 500), 40)]);
        all.extend(train(17_801, 2, push, 40));
        all.push(at(ack(20_601, 500), 60));
        assert_eq!(percent(shares(all)), "0 0 0 0 50 0 0 0 50", "PSH: {push}");
    }
}

#[test]
fn a_capture_at_the_receiver_does_not_tell() {
    let packets = vec![
        by(true).flags(Flags::SYN).seq(1000, 0).ack(0).window(64_000).scale(7).at_us(0),
        by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).window(64_000).scale(7).at_us(10),
        by(true).seq(1001, 0).ack(5001).window(500).at_us(20_000),
        data(1001, 1400, true, 30),
        ack(2401, 500).at_us(30_010),
    ];
    assert_eq!(analyse(&pcap(101, &packets)).0.flows[0].time_shares, None);
}
