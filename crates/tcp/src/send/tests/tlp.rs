//! Tests of the tail loss probe (RFC 8985 section 7, and the conditions of Linux 4.6).

use super::*;
use crate::config::{StackFlavor, Tlp};
use crate::log::{CongestionState as Ca, LogEvent, Timer};

fn tlp(kind: Tlp) -> Config {
    Config { tlp: kind, ..rfc() }
}

#[test]
fn after_two_srtt_the_last_segment_goes_out_again_and_the_rto_starts_anew() {
    let mut r = Rig::new(&tlp(Tlp::On));
    assert_eq!(r.write(3), [0, 1, 2]);
    assert_eq!(r.wait(), ms(200));
    assert_eq!(r.fire(), Ok(vec![2]));
    assert_eq!(r.info().tlp_probes, 1);
    assert_eq!(r.wait(), Dur::from_secs(1), "the RTO counts from the probe");
    assert_eq!(r.info().ca_state, Ca::Open);
    assert_eq!(r.fire(), Ok(vec![0]), "one probe, then the RTO");
}

#[test]
fn a_probe_sends_new_data_if_there_are_any_regardless_of_cwnd() {
    let mut r = Rig::new(&tlp(Tlp::On));
    assert_eq!(r.write(12).len(), 10);
    assert_eq!(r.fire(), Ok(vec![10]));
    assert_eq!(r.info().retransmissions, 0);
}

#[test]
fn with_one_segment_in_flight_the_probe_timer_includes_the_receivers_ack_delay() {
    let mut r = Rig::new(&tlp(Tlp::On));
    r.write(1);
    assert_eq!(r.wait(), ms(400));
    let mut r = Rig::new(&tlp(Tlp::OpenOnly));
    r.write(1);
    assert_eq!(r.wait(), ms(350), "Linux 4.6: 1.5 srtt + 200 ms");
}

#[test]
fn a_segment_in_flight_is_one_also_while_the_next_one_leaves_room_for_an_option() {
    let mut r = Rig::new(&tlp(Tlp::On));
    r.write(2);
    r.advance(ms(100));
    let ack = r.ack_in(seg(1));
    r.deliver(&ack);
    assert_eq!(r.s.poll_narrow(r.now, 12, &mut r.log), None);
    assert_eq!(r.wait(), ms(400));
}

#[test]
fn with_two_small_segments_in_flight_the_probe_timer_has_no_ack_delay() {
    // RFC 8985 section 7.2: the allowance for a delayed ACK is for a flight of one segment.
    let mut r = Rig::new(&Config { nodelay: true, ..tlp(Tlp::On) });
    for _ in 0..2 {
        assert_eq!(r.s.write(r.now, 100), 100);
        assert_eq!(r.drain().len(), 1);
    }
    assert_eq!(r.wait(), ms(200));
}

#[test]
fn without_srtt_the_probe_timer_is_one_second_and_nothing_is_probed_before_a_round_trip_is_measured() {
    // RFC 8985 section 7.2 (1 s) and 7.3 (second condition).
    let mut cfg = tlp(Tlp::On);
    cfg.rto.initial = Dur::from_secs(3);
    let mut r = Rig::with(&cfg, &Agreed { rtt: None, ..agreed() });
    r.write(3);
    assert_eq!(r.wait(), Dur::from_secs(1));
    assert_eq!(r.fire(), Ok(vec![]), "no probe");
    assert_eq!(r.wait(), Dur::from_secs(3), "the RTO starts anew all the same");
    assert_eq!(r.info().tlp_probes, 0);
    r.advance(ms(100));
    r.ack(1);
    assert_eq!(r.fire(), Ok(vec![2]));
}

#[test]
fn there_is_no_second_probe_before_a_new_round_trip_is_measured() {
    // RFC 8985 section 7.3, second condition. Without timestamps the ACK of a retransmission gives no sample.
    let mut r = Rig::new(&tlp(Tlp::On));
    r.write(1);
    assert_eq!(r.fire(), Ok(vec![0]));
    r.advance(ms(100));
    let mut ack = r.ack_in(seg(1));
    ack.dsack = Some(seg(0)..seg(1));
    r.deliver(&ack);
    r.write(1);
    assert_eq!(r.fire(), Ok(vec![]), "no probe");
    assert_eq!((r.info().tlp_probes, r.info().timeouts), (1, 0));
    r.ack(2);
    r.write(1);
    assert_eq!(r.fire(), Ok(vec![2]), "the second segment was measured");
}

#[test]
fn linux_4_6_waits_at_least_10_ms_and_never_beyond_the_rto() {
    let rtt = |rtt| Agreed { rtt: Some(rtt), ..agreed() };
    let mut r = Rig::with(&tlp(Tlp::OpenOnly), &rtt(ms(1)));
    r.write(3);
    assert_eq!(r.wait(), ms(10));
    let mut r = Rig::with(&tlp(Tlp::On), &rtt(ms(1)));
    r.write(3);
    assert_eq!(r.wait(), ms(2));
    let mut cfg = tlp(Tlp::OpenOnly);
    cfg.rto.min = ms(5);
    let mut r = Rig::with(&cfg, &rtt(ms(1)));
    r.write(3);
    assert_eq!(r.wait(), ms(5));
}

#[test]
fn there_is_no_probe_without_sack_nor_with_sacked_segments() {
    let mut r = Rig::no_sack(&tlp(Tlp::On));
    r.write(3);
    assert_eq!(r.wait(), Dur::from_secs(1));
    let mut r = Rig::new(&tlp(Tlp::On));
    r.write(3);
    r.sack(0, &[1..2]);
    assert_eq!(r.wait(), Dur::from_secs(1));
}

#[test]
fn in_cwr_linux_probes_with_the_last_segment_even_if_it_is_sacked_and_by_the_rfc_there_is_no_probe() {
    for (flavor, probe) in [(StackFlavor::Linux, true), (StackFlavor::Rfc, false)] {
        let ecn = crate::config::EcnMode::Dctcp;
        let mut r = Rig::with(&Config { ecn, flavor, ..tlp(Tlp::On) }, &Agreed { ecn, ..agreed() });
        r.write(10);
        r.advance(ms(100));
        let mut ack = r.ack_in(seg(7));
        ack.ece = true;
        r.deliver(&ack);
        assert_eq!(r.info().ca_state, Ca::Cwr);
        r.advance(ms(50));
        r.sack(7, &[9..10]);
        assert_eq!(r.info().ca_state, Ca::Cwr, "{flavor:?}");
        let sent = r.fire().expect("the connection goes on");
        assert_eq!((r.info().tlp_probes, r.info().timeouts), if probe { (1, 0) } else { (0, 1) });
        assert_eq!(sent, if probe { [9] } else { [7] });
    }
}

#[test]
fn in_cwr_linux_4_6_has_no_probe_and_later_ones_do() {
    for (kind, probe) in [(Tlp::OpenOnly, false), (Tlp::On, true)] {
        let cfg = Config { ecn: crate::config::EcnMode::Dctcp, ..tlp(kind) };
        let mut r = Rig::with(&cfg, &Agreed { ecn: cfg.ecn, ..agreed() });
        r.write(10);
        r.advance(ms(100));
        let mut ack = r.ack_in(seg(2));
        ack.ece = true;
        r.deliver(&ack);
        assert_eq!(r.info().ca_state, Ca::Cwr);
        r.sent();
        let rto = Dur::from_secs(1);
        assert_eq!(r.wait() < rto, probe, "{kind:?}");
    }
}

#[test]
fn linux_4_6_has_no_probe_while_window_and_data_are_left() {
    // Pacing keeps data back although the window is open.
    let cfg = Config {
        pacing: crate::config::Pacing::Percent { slow_start: 200, avoidance: 120 },
        ..tlp(Tlp::OpenOnly)
    };
    let mut r = Rig::new(&cfg);
    assert_eq!(r.write(10), [0]);
    let probes =
        |r: &mut Rig| r.log.drain().any(|e| matches!(e.what, LogEvent::Timer { timer: Timer::Tlp, .. }));
    assert!(!probes(&mut r));
    let mut r = Rig::new(&Config { tlp: Tlp::On, ..cfg });
    r.write(10);
    assert!(probes(&mut r));
}

/// Three segments, the last probed 200 ms later.
fn probed() -> Rig {
    probed_by(&tlp(Tlp::On))
}

fn probed_by(cfg: &Config) -> Rig {
    let mut r = Rig::new(cfg);
    r.write(3);
    r.advance(ms(100));
    r.ack(2);
    r.fire().unwrap();
    assert_eq!(r.info().tlp_probes, 1);
    r.advance(ms(100));
    r
}

#[test]
fn a_dsack_of_the_probe_shows_that_nothing_was_lost() {
    let mut r = probed();
    let mut ack = r.ack_in(seg(3));
    ack.dsack = Some(seg(2)..seg(3));
    r.deliver(&ack);
    r.write(1);
    r.advance(ms(100));
    r.ack(4);
    assert_eq!((r.info().ca_state, r.info().recoveries), (Ca::Open, 0));
    assert!(r.cwnd() > 10_000);
}

#[test]
fn a_duplicate_ack_without_sack_after_the_probe_shows_that_nothing_was_lost() {
    let mut r = probed();
    r.ack(3);
    r.write(1);
    // The ACK of the second copy.
    r.ack(3);
    r.advance(ms(100));
    r.ack(4);
    assert_eq!(r.info().ca_state, Ca::Open);
}

#[test]
fn a_duplicate_ack_with_sack_blocks_does_not_show_that_the_probe_was_needless() {
    // RFC 8985 section 7.4.2, case 2: "without any SACK option".
    let mut r = probed();
    r.ack(3);
    r.write(4);
    r.advance(ms(100));
    r.sack(3, &[4..5]);
    assert_eq!(r.info().ca_state, Ca::Disorder);
    r.ack(5);
    assert_eq!(r.info().ca_state, Ca::Cwr, "the probe repaired a loss");
}

#[test]
fn an_ack_beyond_the_probe_without_such_evidence_reduces_the_window_once() {
    let mut r = probed();
    r.ack(3);
    assert_eq!(r.info().ca_state, Ca::Open, "the ACK of the probe alone says nothing yet");
    let before = r.cwnd();
    r.write(4);
    r.advance(ms(100));
    r.ack(5);
    assert_eq!(r.info().ca_state, Ca::Cwr, "the probe repaired a loss");
    assert!(r.cwnd() < before);
    r.ack(7);
    assert_eq!(r.write(1), [7]);
    r.advance(ms(100));
    r.ack(8);
    assert_eq!(r.info().ca_state, Ca::Open);
}

#[test]
fn linux_ends_the_reduction_with_the_ack_that_shows_the_repair() {
    let linux = Config { flavor: StackFlavor::Linux, cwr_by_prr: true, ..tlp(Tlp::On) };
    let mut r = probed_by(&linux);
    r.ack(3);
    let before = r.cwnd();
    r.write(4);
    r.advance(ms(100));
    r.log.drain().count();
    r.ack(5);
    let states: Vec<Ca> = r
        .log
        .drain()
        .filter_map(|e| match e.what {
            LogEvent::Congestion { to, .. } => Some(to),
            _ => None,
        })
        .collect();
    assert_eq!(states, [Ca::Cwr, Ca::Open]);
    assert!(r.cwnd() < before, "{} and {before}", r.cwnd());
}

#[test]
fn the_probes_sack_shows_the_tail_lost_and_recovery_repairs_it() {
    let mut r = Rig::new(&Config {
        loss_detection: crate::config::LossDetection::Rack { dsack_adaptation: true },
        ..tlp(Tlp::On)
    });
    r.write(10);
    r.advance(ms(100));
    r.ack(5);
    // 5 to 9 were lost; the probe is 9.
    assert_eq!(r.fire(), Ok(vec![9]));
    r.advance(ms(100));
    assert_eq!(r.sack(5, &[9..10]), [5, 6]);
    assert_eq!(r.info().ca_state, Ca::Recovery);
    assert_eq!(r.info().timeouts, 0);
}

#[test]
fn data_that_set_the_timer_of_a_probe_end_the_wait_for_reordering_where_both_are_one_timer() {
    // `tcp_schedule_loss_probe`: in Linux there is one timer, and a duplicate ACK does not set it again.
    for (profile, shared) in [(Profile::Linux, true), (Profile::Rfc, false)] {
        let cfg = Config {
            mss: Bytes::new(1000),
            send_buffer: Some(Bytes::new(10_000_000)),
            tlp: Tlp::On,
            loss_detection: crate::config::LossDetection::Rack { dsack_adaptation: true },
            tso: None,
            ..Config::profile(profile)
        };
        let mut r = Rig::new(&cfg);
        r.write(3);
        r.advance(ms(100));
        r.ack(1);
        let until = r.now + ms(50);
        r.s.timers.set_reorder(r.now, until, &mut r.log);
        r.write(1);
        assert_eq!(r.s.timers.is_reorder_running(), !shared, "{profile:?}");
        assert!(r.s.timers.is_tlp_running(), "{profile:?}");
        if shared {
            r.ack(1);
            assert!(r.s.timers.is_tlp_running(), "a duplicate ACK leaves it");
        }
    }
}
