//! RFC 3168, RFC 8257, RFC 9768: the sender's answer to marks.

use super::*;
use crate::config::EcnMode;
use crate::log::CongestionState as Ca;

fn rig(mode: EcnMode, by_prr: bool) -> Rig {
    let cfg = Config { ecn: mode, cwr_by_prr: by_prr, ..rfc() };
    Rig::with(&cfg, &Agreed { ecn: cfg.ecn, ..agreed() })
}

fn ece(r: &mut Rig, n: u64) -> Vec<Chunk> {
    let mut ack = r.ack_in(seg(n));
    ack.ece = true;
    r.deliver(&ack);
    r.drain()
}

#[test]
fn a_mark_halves_the_window_once_a_window_and_is_announced_once() {
    for mode in [EcnMode::Classic, EcnMode::Dctcp] {
        let mut r = rig(mode, false);
        r.write(100);
        r.advance(ms(100));
        ece(&mut r, 2);
        assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Cwr, 5000));
        let mut cwr = Vec::new();
        for n in 3..10 {
            cwr.extend(ece(&mut r, n).iter().map(|c| (c.span.start, c.cwr)));
            assert_eq!(r.cwnd(), 5000, "once a window");
        }
        assert_eq!(cwr, [(10_001, true), (11_001, false), (12_001, false), (13_001, false)]);
        r.advance(ms(100));
        ece(&mut r, 11);
        assert_eq!(r.info().ecn_reductions, 2, "the next window, marked again");
        assert_eq!(r.cwnd(), 2500);
    }
}

#[test]
fn a_reduction_ends_when_something_sent_after_it_is_acknowledged() {
    let mut r = rig(EcnMode::Classic, false);
    r.write(100);
    r.advance(ms(100));
    ece(&mut r, 2);
    r.ack(10);
    assert_eq!(r.info().ca_state, Ca::Cwr, "the CWR must reach the receiver first");
    r.advance(ms(100));
    r.ack(11);
    assert_eq!(r.info().ca_state, Ca::Open);
}

#[test]
fn an_idle_time_within_a_reduction_does_not_raise_its_window() {
    let mut r = rig(EcnMode::Dctcp, true);
    r.write(1);
    r.advance(ms(100));
    ece(&mut r, 1);
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Cwr, 2000));
    r.advance(ms(2000));
    assert_eq!(r.write(30).len(), 2);
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Cwr, 2000), "ssthresh is 5000");
}

#[test]
fn linux_reduces_by_prr_over_the_window() {
    let mut r = rig(EcnMode::Classic, true);
    r.write(100);
    r.advance(ms(100));
    ece(&mut r, 1);
    // 10 in flight, target 5: one at once, then one for every two delivered until five are in flight.
    let sent: Vec<_> = (2..=10).map(|n| ece(&mut r, n).len()).collect();
    assert_eq!(sent, [0, 1, 0, 1, 0, 1, 0, 0, 1]);
    assert_eq!(r.info().flight.get(), 5000);
    r.advance(ms(100));
    r.ack(11);
    assert_eq!((r.info().ca_state, r.cwnd()), (Ca::Open, 5000));
}

#[test]
fn a_loss_during_the_reduction_adds_none() {
    let mut r = rig(EcnMode::Classic, false);
    r.write(100);
    r.advance(ms(100));
    ece(&mut r, 2);
    for k in 4..=6 {
        r.sack(2, &[3..k]);
    }
    assert_eq!(r.info().ca_state, Ca::Recovery);
    assert_eq!(r.cwnd(), 5000);
}

#[test]
fn a_loss_is_announced_too() {
    let mut r = rig(EcnMode::Classic, false);
    r.write(100);
    for k in 2..=4 {
        r.sack(0, &[1..k]);
    }
    let mut chunks = Vec::new();
    for k in 5..=10 {
        let mut ack = r.ack_in(1);
        ack.sacks.push(seg(1)..seg(k));
        r.deliver(&ack);
        chunks.extend(r.drain());
    }
    assert!(chunks[0].cwr && !chunks[0].retransmission);
}

#[test]
fn retransmissions_and_probes_carry_ect_with_dctcp_alone() {
    for (mode, ect) in [(EcnMode::Classic, false), (EcnMode::Dctcp, true)] {
        let mut r = rig(mode, false);
        r.s.write(r.now, 1000);
        assert!(r.drain()[0].ect);
        r.now = r.s.next_timer().unwrap();
        r.s.on_timer(r.now, &mut r.log).unwrap();
        let chunk = &r.drain()[0];
        assert!(chunk.retransmission);
        assert_eq!(chunk.ect, ect, "{mode:?}");
    }
}

#[test]
fn accurate_ecn_reduces_on_reported_bytes_and_never_sets_cwr() {
    let mut r = rig(EcnMode::Accurate, false);
    r.write(100);
    r.advance(ms(100));
    let mut ack = r.ack_in(seg(1));
    ack.accurate_ce = Some(1000);
    r.deliver(&ack);
    assert_eq!(r.info().ca_state, Ca::Cwr);
    for n in 2..10 {
        let ack = r.ack_in(seg(n));
        r.deliver(&ack);
        assert!(r.drain().iter().all(|chunk| !chunk.cwr));
    }
    assert_eq!(r.info().delivered_ce.get(), 1000);
}

#[test]
fn ece_without_ecn_in_force_is_ignored() {
    let mut r = Rig::new(&rfc());
    r.write(10);
    ece(&mut r, 2);
    assert_eq!(r.info().ca_state, Ca::Open);
}

#[test]
fn dctcps_marks_count_the_bytes_of_marked_acks() {
    let mut r = rig(EcnMode::Dctcp, true);
    r.write(100);
    r.advance(ms(100));
    ece(&mut r, 2);
    r.ack(4);
    ece(&mut r, 7);
    assert_eq!((r.info().delivered.get(), r.info().delivered_ce.get()), (7000, 5000));
}

#[test]
fn a_mark_that_finds_one_segment_of_window_stops_new_data_for_a_retransmission_timeout() {
    // RFC 3168 section 6.1.2.
    for (holds, wait) in [(true, 1000), (false, 0)] {
        let cfg = Config { ecn: EcnMode::Classic, initial_window: 1, mark_stops_one_segment: holds, ..rfc() };
        let reno = tcpassay_cc::build("reno", &tcpassay_cc::Params::default()).unwrap();
        let mut r = Rig::boxed(&cfg, &Agreed { ecn: cfg.ecn, ..agreed() }, reno);
        assert_eq!(r.write(10), [0]);
        for n in 1..4 {
            r.advance(ms(100));
            let out = ece(&mut r, n);
            assert_eq!(r.cwnd(), 1000);
            if !holds {
                assert_eq!((out.len(), out[0].cwr), (1, true));
                continue;
            }
            assert!(out.is_empty(), "{n}: {out:?}");
            assert_eq!(r.wait(), ms(wait));
            r.now += ms(wait);
            r.s.on_timer(r.now, &mut r.log).unwrap();
            let out = r.drain();
            assert_eq!((out.len(), out[0].cwr, out[0].span.start), (1, true, seg(n)));
        }
        assert_eq!((r.info().timeouts, r.info().ecn_reductions), (0, 3));
        r.advance(ms(100));
        assert!(!r.ack(4).is_empty(), "without a mark the next one goes at once");
    }
}

#[test]
fn the_negotiated_ecn_mode_and_not_the_requested_one_decides_the_reaction_to_marks() {
    use EcnMode::{Accurate, Classic, Dctcp, Off};
    for asked in [Off, Classic, Dctcp, Accurate] {
        for got in [Off, Classic, Dctcp, Accurate] {
            let cfg = Config { ecn: asked, ..rfc() };
            let mut r = Rig::with(&cfg, &Agreed { ecn: got, ..agreed() });
            assert_eq!(r.write(20).len(), 10);
            r.advance(ms(100));
            let chunks = ece(&mut r, 1);
            let classic = matches!(got, Classic | Dctcp);
            assert_eq!(r.info().ca_state == Ca::Cwr, classic, "{asked:?} {got:?}");
            let mut cwr = chunks.iter().filter(|c| c.cwr).count();
            for n in 2..10 {
                let ack = r.ack_in(seg(n));
                r.deliver(&ack);
                let chunks = r.drain();
                cwr += chunks.iter().filter(|c| c.cwr).count();
                assert!(chunks.iter().all(|c| c.ect == (got != Off)), "{asked:?} {got:?}");
            }
            assert_eq!(cwr, usize::from(classic), "{asked:?} {got:?}");
        }
    }
}

#[test]
fn linux_forgets_an_outstanding_loss_probe_when_a_mark_begins_a_reduction() {
    // `tcp_init_cwnd_reduction` clears `tlp_high_seq`, so that another probe may follow in this flight.
    for (profile, out) in [(Profile::Linux, false), (Profile::Rfc, true)] {
        let cfg = Config {
            mss: Bytes::new(1000),
            send_buffer: Some(Bytes::new(10_000_000)),
            ecn: EcnMode::Classic,
            tlp: crate::config::Tlp::On,
            tso: None,
            ..Config::profile(profile)
        };
        let mut r = Rig::with(&cfg, &Agreed { ecn: cfg.ecn, ..agreed() });
        r.write(3);
        r.fire().expect("the probe");
        assert!(r.s.probe.is_out());
        r.advance(ms(10));
        ece(&mut r, 1);
        assert_eq!((r.info().ca_state, r.s.probe.is_out()), (Ca::Cwr, out), "{profile:?}");
    }
}
