//! Probes of the window and tail loss probes, by Linux 6.1; the name of each test states the rule.

use super::*;

#[test]
fn a_probe_that_the_window_does_not_hold_any_more_is_not_sent() {
    // `__tcp_retransmit_skb`: -EAGAIN, and the retransmission timer runs.
    for (window, sent) in [(2000, true), (1000, false)] {
        let mut r = Rig::new(&Config { tlp: Config::profile(Profile::Linux).tlp, ..single() });
        r.write(2);
        r.window = window;
        let ack = AckIn { may_update: true, ..r.ack_in(seg(0)) };
        r.deliver(&ack);
        assert_eq!(r.fire().map(|probe| probe == [1]), Ok(sent), "{window}");
        assert_eq!(r.info().tlp_probes, u64::from(sent));
    }
}

/// A sender whose one segment was acknowledged with a closed window, and that has another segment to send. It probes the window.
fn closed(cfg: &Config) -> Rig {
    let mut r = Rig::new(cfg);
    r.write(1);
    r.advance(ms(100));
    r.window = 0;
    assert_eq!(r.ack(1), [0; 0]);
    assert_eq!(r.write(1), [0; 0]);
    r
}

#[test]
fn each_ack_restarts_the_timer_of_window_probes() {
    // `tcp_ack_probe`; RFC 9293 section 3.8.6.1 only requires probes.
    for (cfg, left) in [(linux(), 300), (rfc(), 250)] {
        let mut r = closed(&cfg);
        let wait = r.wait();
        r.advance(ms(50));
        r.ack(1);
        assert_eq!(wait.saturating_sub(r.wait()), ms(300 - left));
    }
}

#[test]
fn window_probes_continue_the_back_off_of_the_retransmission_timer_after_an_ack() {
    // `tcp_probe0_when`: the RTO, doubled as often as `icsk_backoff` says.
    let mut r = Rig::new(&linux());
    r.write(1);
    r.fire().unwrap();
    r.window = 0;
    r.ack(1);
    r.write(1);
    assert_eq!(r.wait(), ms(600), "the RTO without more");
    r.ack(1);
    assert_eq!(r.wait(), ms(1200));
    r.fire().unwrap();
    assert_eq!(r.wait(), ms(2400));
}

#[test]
fn a_probe_that_the_window_forbids_lets_the_retransmission_timer_count_from_the_first_segment() {
    // `tcp_send_loss_probe`, `tcp_rearm_rto`.
    let mut r = Rig::new(&Config { tlp: Tlp::On, ..single() });
    r.write(5);
    r.advance(ms(1));
    r.window = 1000;
    r.ack(0);
    assert_eq!(r.fire(), Ok(vec![]), "the probe timer");
    assert!(r.now < Time::ZERO + ms(1300));
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.now, Time::ZERO + ms(1300), "300 ms after the segments");
}

#[test]
fn data_that_the_timer_of_window_probes_sends_start_no_tail_loss_probe() {
    // `tcp_write_wakeup`.
    let mut r = Rig::new(&Config { tlp: Tlp::On, ..single() });
    r.window = 200;
    r.ack(0);
    assert_eq!(r.write(1), [0; 0]);
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!((r.info().tlp_probes, r.info().timeouts), (0, 1));
}
