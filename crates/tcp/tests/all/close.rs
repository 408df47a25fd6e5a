//! Closing: FIN in every order, half close, TIME-WAIT, resets.

use crate::common::*;
use tcpassay_tcp::{Config, ConnError, Connection, Profile, State};
use tcpassay_units::Dur;
use tcpassay_wire::Flags;

fn fin(seq: u32, acked: u32) -> tcpassay_wire::Segment {
    ack(seq, acked).flags(Flags::FIN)
}

#[test]
fn closing_first_goes_through_fin_wait_to_time_wait_and_ends_after_2_msl() {
    let mut one = One::accepted(&plain());
    one.c.close(one.now);
    assert_eq!(shows(&one.sent()), ["F. 1+0 ack 1"]);
    assert_eq!(one.c.state(), State::FinWait1);
    assert_eq!(one.take(&ack(1, 2)), []);
    assert_eq!(one.c.state(), State::FinWait2);
    assert_eq!(shows(&one.take(&fin(1, 2))), [". 2+0 ack 2"]);
    assert_eq!(one.c.state(), State::TimeWait);
    one.until(at_ms(239_999));
    assert_eq!(one.c.state(), State::TimeWait);
    one.until(at_ms(240_000));
    assert_eq!((one.c.state(), one.c.error()), (State::Closed, None));
}

#[test]
fn a_fin_that_comes_again_in_time_wait_is_acknowledged_and_starts_the_wait_anew() {
    let mut one = One::accepted(&plain());
    one.c.close(one.now);
    one.sent();
    one.take(&ack(1, 2));
    one.take(&fin(1, 2));
    one.until(at_ms(100_000));
    assert_eq!(shows(&one.take(&fin(1, 2))), [". 2+0 ack 2"]);
    one.until(at_ms(339_999));
    assert_eq!(one.c.state(), State::TimeWait);
    one.until(at_ms(340_000));
    assert_eq!(one.c.state(), State::Closed);
}

#[test]
fn the_peers_fin_is_acknowledged_at_once_and_reported_after_all_data_were_read() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 100));
    assert_eq!(shows(&one.take(&fin(101, 1))), [". 1+0 ack 102"]);
    assert_eq!(one.c.state(), State::CloseWait);
    assert!(!one.c.peer_closed());
    one.read(100);
    assert!(one.c.peer_closed());
    one.c.close(one.now);
    assert_eq!(shows(&one.sent()), ["F. 1+0 ack 102"]);
    assert_eq!(one.c.state(), State::LastAck);
    one.take(&ack(102, 2));
    assert_eq!((one.c.state(), one.c.error()), (State::Closed, None));
}

#[test]
fn in_linux_the_ack_of_the_peers_fin_waits_for_the_own_fin() {
    let cfg = Config { timestamps: false, ..Config::profile(Profile::Linux) };
    let mut one = One::accepted(&cfg);
    assert_eq!(one.take(&fin(1, 1)), []);
    one.c.close(one.now);
    assert_eq!(shows(&one.sent()), ["F. 1+0 ack 2"]);
}

#[test]
fn after_our_fin_data_still_arrive_and_are_read() {
    let mut one = One::accepted(&plain());
    one.c.shutdown(one.now);
    one.sent();
    one.take(&ack(1, 2));
    one.take(&data(1, 1460).flags(Flags::PSH));
    assert_eq!(one.c.write(one.now, bytes(1)), bytes(0), "nothing is sent after a FIN");
    one.read(1460);
    // A half-closed connection has no time limit.
    one.until(at_ms(3_600_000));
    assert_eq!(one.c.state(), State::FinWait2);
}

#[test]
fn the_fin_of_an_orphan_that_is_never_answered_by_a_fin_ends_after_the_timeout() {
    let mut one = One::accepted(&Config::profile(Profile::Linux));
    one.c.close(one.now);
    one.sent();
    one.take(&ack(1, 2).stamp(2, 5000));
    assert_eq!(one.c.state(), State::FinWait2);
    one.until(at_ms(59_999));
    assert_eq!(one.c.state(), State::FinWait2);
    one.until(at_ms(60_000));
    assert_eq!(one.c.state(), State::Closed);
}

#[test]
fn in_linux_an_orphan_in_fin_wait_2_reports_no_sack_blocks_and_keeps_the_timestamp_of_the_ack_of_its_fin() {
    // `tcp_time_wait`, `tcp_timewait_state_process`: only a TIME-WAIT socket is left.
    let mut one = One::accepted(&Config::profile(Profile::Linux));
    one.take(&data(1001, 100).stamp(2, 5000));
    one.c.close(one.now);
    one.sent();
    one.take(&ack(1, 2).stamp(3, 5000));
    assert_eq!(one.c.state(), State::FinWait2);
    one.take(&ack(1, 2).stamp(9, 5000));
    let answer = one.take(&data(9_000_001, 1).stamp(10, 5000));
    assert_eq!(answer.len(), 1);
    let options = &answer[0].segment.options;
    assert_eq!((options.timestamps.map(|t| t.ecr), options.sack.len()), (Some(3), 0));
}

#[test]
fn both_ends_that_close_at_once_go_through_closing() {
    let mut one = One::accepted(&plain());
    one.c.close(one.now);
    one.sent();
    assert_eq!(shows(&one.take(&fin(1, 1))), [". 2+0 ack 2"]);
    assert_eq!(one.c.state(), State::Closing);
    one.take(&ack(2, 2));
    assert_eq!(one.c.state(), State::TimeWait);
}

#[test]
fn a_fin_that_acknowledges_ours_goes_straight_to_time_wait() {
    let mut one = One::accepted(&plain());
    one.c.close(one.now);
    one.sent();
    one.take(&fin(1, 2));
    assert_eq!(one.c.state(), State::TimeWait);
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut one = One::accepted(&plain());
    one.c.close(one.now);
    one.sent();
    let again = one.until(at_ms(1000));
    assert_eq!(again.len(), 1);
    assert_eq!(show(&again[0].1), "F. 1+0 ack 1");
}

#[test]
fn a_fin_before_its_data_counts_when_they_have_come() {
    let mut one = One::accepted(&plain());
    one.take(&fin(101, 1));
    assert_eq!(one.c.state(), State::Established);
    one.take(&data(1, 100));
    assert_eq!(one.c.state(), State::CloseWait);
    assert_eq!(one.c.readable(), bytes(100));
}

#[test]
fn two_ends_that_close_at_the_same_time_reach_closed_after_time_wait() {
    let cfg = Config::profile(Profile::Linux);
    let mut net = Two::new(connect(&cfg, 7, tcpassay_units::Time::ZERO), listen(&cfg, 9), ms(10));
    net.run(at_ms(100), &mut clean);
    for c in &mut net.ends {
        c.close(at_ms(100));
    }
    net.run(at_ms(200), &mut clean);
    assert!(net.ends.iter().all(|c| c.state() == State::TimeWait));
    net.run(at_ms(100_000), &mut clean);
    assert!(net.ends.iter().all(|c| c.state() == State::Closed && c.error().is_none()));
    assert!(net.ends.iter().all(|c| Connection::next_timer(c).is_none()));
}

#[test]
fn closing_with_unread_data_resets() {
    let mut one = One::accepted(&plain());
    one.take(&data(1, 100));
    one.c.close(one.now);
    assert_eq!(shows(&one.sent()), ["R. 1+0 ack 101"]);
    assert_eq!(one.c.state(), State::Closed);
}

#[test]
fn data_that_arrive_after_close_are_answered_with_a_reset() {
    let mut one = One::accepted(&plain());
    one.c.close(one.now);
    one.sent();
    // As RFC 9293 section 3.10.7.1 has it for no connection: at the position that the segment acknowledges, without ACK.
    assert_eq!(shows(&one.take(&data(1, 100))), ["R 1+0 ack -50000"]);
    assert_eq!(one.c.state(), State::Closed);
}

#[test]
fn abort_sends_a_reset_and_nothing_after_it() {
    let mut one = One::accepted(&plain());
    one.write(100);
    one.c.abort(one.now);
    assert_eq!(shows(&one.sent()), ["R. 101+0 ack 1"]);
    assert_eq!((one.c.next_timer(), one.c.error()), (None, None));
}

#[test]
fn only_a_reset_at_exactly_the_next_position_resets() {
    let mut one = One::accepted(&plain());
    // RFC 5961 section 3: in the window but not exact: a challenge ACK.
    assert_eq!(shows(&one.take(&ack(100, 1).flags(Flags::RST))), [". 1+0 ack 1"]);
    // Outside the window: nothing.
    assert_eq!(one.take(&ack(0, 1).flags(Flags::RST)), []);
    assert_eq!(one.c.error(), None);
    assert_eq!(one.take(&ack(1, 1).flags(Flags::RST)), []);
    assert_eq!((one.c.state(), one.c.error()), (State::Closed, Some(ConnError::Reset)));
}

#[test]
fn an_ack_of_data_that_were_never_sent_is_challenged_and_its_data_dropped() {
    let mut one = One::accepted(&plain());
    let mut wrong = data(1, 100);
    wrong.ack = wrong.ack + 5000;
    assert_eq!(shows(&one.take(&wrong)), [". 1+0 ack 1"]);
    assert_eq!(one.c.readable(), bytes(0));
}

#[test]
fn an_ack_older_than_a_window_is_challenged_and_its_data_dropped() {
    let mut one = One::accepted(&plain());
    // The peer's window is 65,535; 70,000 bytes later an ACK of the first byte is too old (RFC 5961 section 5).
    let mut sent = 1;
    while sent < 70_000 {
        let out = one.write(1460);
        sent += out.iter().map(|o| o.segment.len).sum::<u32>();
        one.take(&ack(1, sent));
    }
    assert_eq!(shows(&one.take(&data(1, 100))), [format!(". {sent}+0 ack 1")]);
    assert_eq!(one.c.readable(), bytes(0));
    let mut good = data(1, 100);
    good.ack = good.ack + (sent - 1);
    one.take(&good);
    assert_eq!(one.c.readable(), bytes(100));
}

#[test]
fn an_older_segment_does_not_update_the_send_window() {
    let mut one = One::accepted(&plain());
    one.take(&data(101, 100).window(1000));
    assert_eq!(one.c.info().snd_wnd, bytes(1000));
    // RFC 9293 section 3.10.7.4, SND.WL1: the segment before it was overtaken.
    one.take(&data(1, 100).window(9000));
    assert_eq!(one.c.info().snd_wnd, bytes(1000));
    one.take(&data(201, 100).window(2000));
    assert_eq!(one.c.info().snd_wnd, bytes(2000));
}

#[test]
fn a_segment_beyond_the_window_is_answered_and_dropped() {
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&data(100_000, 100))), [". 1+0 ack 1"]);
    assert_eq!(one.c.info().refused, 1);
}

#[test]
fn a_fin_waits_for_the_handshake_to_finish() {
    let cfg = plain();
    let mut one = One { c: listen(&cfg, ISS), now: tcpassay_units::Time::ZERO };
    one.take(&syn(&cfg));
    one.c.close(one.now);
    assert_eq!(one.c.state(), State::SynReceived);
    assert_eq!(shows(&one.take(&ack(1, 1))), ["F. 1+0 ack 1"]);
    assert_eq!(one.c.state(), State::FinWait1);
}

#[test]
fn a_connection_without_answers_is_aborted_after_the_user_timeout() {
    let mut one = One::accepted(&Config { user_timeout: Some(Dur::from_secs(10)), ..plain() });
    one.write(100);
    one.until(at_ms(60_000));
    assert_eq!((one.c.state(), one.c.error()), (State::Closed, Some(ConnError::TimedOut)));
    assert!(one.c.info().timeouts > 1);
}

#[test]
fn a_reset_in_the_window_is_challenged_and_one_outside_is_dropped_without_an_answer() {
    // RFC 9293 section 3.10.7.4, second; RFC 5961 section 3.2.
    let cfg = Config { recv_buffer: tcpassay_tcp::RecvBuffer::Fixed(bytes(1000)), ..plain() };
    let reset = |seq| ack(seq, 1).flags(Flags::RST);
    for (seq, answers) in [(0, 0), (2, 1), (1000, 1), (1001, 0), (1002, 0)] {
        let mut one = One::accepted(&cfg);
        assert_eq!(one.take(&reset(seq)).len(), answers, "at {seq}");
        assert_eq!(one.c.state(), State::Established);
    }
}

#[test]
fn eleven_challenges_in_five_seconds_get_ten_acks() {
    // RFC 5961 section 7.
    let mut one = One::accepted(&plain());
    let answers = (0..11).map(|_| one.take(&ack(2, 1).flags(Flags::RST)).len()).sum::<usize>();
    assert_eq!(answers, 10);
    one.now = at_ms(5000);
    assert_eq!(one.take(&ack(2, 1).flags(Flags::RST)).len(), 1);
}

#[test]
fn the_timestamp_of_a_reset_is_not_used() {
    // RFC 7323 section 5.2.
    let cfg = Config::profile(Profile::Rfc);
    let mut one = One::accepted(&cfg);
    one.take(&ack(2, 1).flags(Flags::RST).stamp(900, 5000));
    let out = one.take(&data(1, 1448).stamp(5, 5000).flags(Flags::FIN));
    assert_eq!(shows(&out), [". 1+0 ack 1450"]);
    assert_eq!(out[0].segment.options.timestamps.map(|t| t.ecr), Some(5));
}

#[test]
fn a_reset_that_answers_a_segment_echoes_its_timestamp_and_our_own_carries_the_clock() {
    // RFC 7323 section 5.2. Linux and FreeBSD echo nothing.
    for (profile, echo) in [(Profile::Rfc, Some((0, 77))), (Profile::Linux, None), (Profile::FreeBsd, None)] {
        let cfg = Config::profile(profile);
        let mut one = One { c: listen(&cfg, ISS), now: at_ms(3) };
        let out = one.take(&ack(1, 1).stamp(77, 1));
        assert_eq!(out[0].segment.options.timestamps.map(|t| (t.val, t.ecr)), echo);
        let mut one = One::accepted(&cfg);
        one.now = at_ms(3);
        one.take(&data(1, 10).stamp(78, 5000));
        one.c.abort(one.now);
        let out = one.sent();
        assert!(out[0].segment.flags.has(Flags::RST));
        assert_eq!(out[0].segment.options.timestamps.map(|t| (t.val, t.ecr)), Some((5003, 78)));
    }
}

#[test]
fn text_after_the_peers_fin_is_ignored() {
    // RFC 9293 section 3.10.7.4, seventh and eighth.
    let mut one = One::accepted(&plain());
    assert_eq!(shows(&one.take(&data(1, 100).flags(Flags::FIN))), [". 1+0 ack 102"]);
    assert_eq!(shows(&one.take(&data(102, 50))), [""; 0]);
    // Half of it old: that is answered as a duplicate.
    assert_eq!(shows(&one.take(&data(51, 100))), [". 1+0 ack 102 sack 51-102"]);
    assert_eq!(one.c.readable(), bytes(100));
    assert_eq!(one.c.state(), State::CloseWait);
}

#[test]
fn urgent_data_announced_after_the_fin_are_ignored() {
    // RFC 9293 section 3.10.7.4, sixth.
    let mut one = One::accepted(&plain());
    one.take(&data(1, 10).flags(Flags::FIN));
    let mut late = ack(12, 1).flags(Flags::URG);
    late.urgent = 100;
    one.take(&late);
    one.read(10);
    assert!(!one.c.is_urgent());
}

#[test]
fn linux_reports_what_it_had_out_of_order_in_the_ack_of_a_fin_that_follows_its_own() {
    let cfg = Config { timestamps: false, ..Config::profile(Profile::Linux) };
    let mut one = One::accepted(&cfg);
    one.c.shutdown(one.now);
    assert_eq!(shows(&one.sent()), ["F. 1+0 ack 1"]);
    assert_eq!(shows(&one.take(&data(1001, 1000).flags(Flags::FIN))), [". 2+0 ack 1 sack 1001-2002"]);
    // `tcp_fin` answers before it drops the block.
    assert_eq!(shows(&one.take(&data(1, 1000))), [". 2+0 ack 2002 sack 1001-2002"]);
}
