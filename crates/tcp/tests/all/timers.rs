//! Keepalive, window probes, and the log.

use crate::common::*;
use tcpassay_tcp::{Config, ConnError, Keepalive, LogEvent, Pacing, Profile, RecvBuffer, State};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

fn with_keepalive() -> Config {
    let keepalive = Keepalive { idle: Dur::from_secs(60), interval: Dur::from_secs(10), count: 3 };
    Config { keepalive: Some(keepalive), ..plain() }
}

#[test]
fn an_idle_connection_is_probed_at_an_old_position_and_goes_on_when_answered() {
    let mut one = One::accepted(&with_keepalive());
    let out = one.until(at_ms(60_000));
    assert_eq!(out.len(), 1);
    assert_eq!(show(&out[0].1), ". 0+0 ack 1");
    one.take(&ack(1, 1));
    assert_eq!(one.until(at_ms(119_999)), []);
    assert_eq!(one.until(at_ms(120_000)).len(), 1);
    assert_eq!(one.c.state(), State::Established);
}

#[test]
fn a_connection_whose_probes_stay_unanswered_is_reset() {
    let mut one = One::accepted(&with_keepalive());
    let out = one.until(at_ms(1_000_000));
    let times: Vec<Time> = out.iter().map(|(t, _)| *t).collect();
    assert_eq!(times, [at_ms(60_000), at_ms(70_000), at_ms(80_000), at_ms(90_000)]);
    assert!(out[3].1.segment.flags.has(Flags::RST));
    assert_eq!(one.c.error(), Some(ConnError::TimedOut));
}

#[test]
fn without_keepalive_an_idle_connection_stays_open() {
    let mut one = One::accepted(&plain());
    assert_eq!(one.c.next_timer(), None);
    assert_eq!(one.until(at_ms(10_000_000)), []);
}

#[test]
fn a_closed_window_is_probed_with_back_off_and_a_window_update_releases_data() {
    let mut one = One::accepted(&plain());
    one.write(1460);
    one.take(&ack(1, 1461).window(0));
    assert_eq!(one.write(4380), []);
    let probes = one.until(at_ms(16_000));
    let gaps: Vec<u64> = probes.windows(2).map(|w| (w[1].0 - w[0].0).as_millis()).collect();
    assert!(gaps.len() >= 2 && gaps.windows(2).all(|w| w[1] == 2 * w[0]), "{gaps:?}");
    assert!(probes.iter().all(|(_, o)| o.segment.len <= 1));
    let out = one.take(&ack(1, 1461).window(10_000));
    assert_eq!(out.iter().map(|o| o.segment.len).sum::<u32>(), 4380);
}

#[test]
fn a_probe_recovers_from_a_lost_window_update() {
    let cfg = Config { recv_buffer: RecvBuffer::Fixed(bytes(2920)), ..plain() };
    let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(5));
    net.run(at_ms(50), &mut clean);
    assert_eq!(net.ends[0].write(net.now, bytes(20_000)), bytes(20_000));
    net.run(at_ms(300), &mut clean);
    assert_eq!(net.ends[1].readable(), bytes(2920));
    assert_eq!(net.ends[1].info().rcv_wnd, bytes(0));
    // The application reads, and the update is lost.
    assert_eq!(net.ends[1].read(net.now, bytes(2920)), bytes(2920));
    assert!(net.ends[1].poll_transmit(net.now).is_some(), "a window update");
    net.run(at_ms(10_000), &mut clean);
    assert_eq!(net.ends[1].readable(), bytes(2920));
}

#[test]
fn the_log_contains_reasons_and_does_not_change_the_connection() {
    let run = |log: bool| {
        let cfg = Config::profile(Profile::Linux);
        let mut net = Two::new(connect(&cfg, 7, Time::ZERO), listen(&cfg, 9), ms(10));
        net.ends[1].set_log(log);
        net.run(at_ms(100), &mut clean);
        let mut n = 0;
        assert_eq!(net.ends[0].write(net.now, bytes(50_000)), bytes(50_000));
        net.run(at_ms(3000), &mut |_, out| {
            n += 1;
            if n % 7 == 3 { vec![] } else { clean(0, out) }
        });
        let entries: Vec<_> = net.ends[1].drain_log().collect();
        (net.segments, net.ends[1].info(), entries)
    };
    let (silent, info, none) = run(false);
    let (logged, same, entries) = run(true);
    assert_eq!((silent, info, none.len()), (logged, same, 0));
    assert!(entries.iter().any(|e| matches!(e.what, LogEvent::SegmentIn { .. })));
    assert!(entries.iter().any(|e| matches!(e.what, LogEvent::Ack { .. })));
    assert!(entries.iter().any(|e| matches!(e.what, LogEvent::State { to: State::Established, .. })));
    assert!(entries.windows(2).all(|w| w[0].at <= w[1].at));
}

/// A sender of ten segments, the first of which was unnecessarily retransmitted after the timeout.
fn sent_again() -> One {
    let mut one = One::accepted(&Config { timestamps: false, ..Config::profile(Profile::Linux) });
    assert_eq!(one.write(14_600).len(), 10);
    let again = one.until(at_ms(1000));
    assert!(again.iter().any(|(_, o)| o.segment.len > 0), "the timer fired");
    one
}

#[test]
fn a_duplicate_below_the_ack_is_proof_of_a_needless_retransmission() {
    let mut one = sent_again();
    one.take(&ack(1, 14_601));
    assert_eq!(one.c.info().spurious, 0);
    one.take(&ack(1, 14_601).sack(&[(1, 1461)]));
    assert_eq!(one.c.info().spurious, 1);
}

#[test]
fn a_duplicate_inside_the_second_block_is_proof_too_and_the_same_block_second_is_not() {
    let mut one = sent_again();
    let again = shows(&one.take(&ack(1, 1461)));
    assert!(again.contains(&". 2921+1460 ack 1".to_owned()), "the third was sent again, too: {again:?}");
    // The first segment arrives a second time while the second one is missing.
    one.take(&ack(1, 1461).sack(&[(2921, 4381), (2921, 5841)]));
    assert_eq!(one.c.info().spurious, 1);
    let mut one = sent_again();
    one.take(&ack(1, 2921).sack(&[(4381, 5841), (1, 1461)]));
    assert_eq!(one.c.info().spurious, 0, "only the first block can be a DSACK");
}

#[test]
fn acks_go_out_while_data_are_held_back() {
    let mut one = One::accepted(&plain());
    assert_eq!(one.c.write(one.now, bytes(1460)), bytes(1460));
    one.c.on_segment(one.now, &data(1, 2920), tcpassay_wire::Ecn::NotEct);
    let ack = one.c.poll_control(one.now).expect("an ACK");
    assert_eq!(show(&ack), ". 1+0 ack 2921");
    assert_eq!(one.c.poll_control(one.now), None);
    assert_eq!(shows(&one.sent()), ["P. 1+1460 ack 2921"]);
}

#[test]
fn a_paced_sender_that_is_not_polled_requests_one_wake_up() {
    let pacing = Pacing::Percent { slow_start: 200, avoidance: 120 };
    let mut one = One { c: listen(&Config { pacing, ..plain() }, ISS), now: Time::ZERO };
    one.take(&syn(&plain()));
    one.now = at_ms(100);
    one.take(&ack(1, 1));
    let sent = one.write(14_600).len();
    assert!(sent < 10, "paced");
    let release = one.c.next_timer().expect("the next release");
    one.now = release;
    one.c.on_timer(release);
    assert!(one.c.next_timer().is_none_or(|t| t > release));
    assert_eq!(one.sent().len(), 1);
}
