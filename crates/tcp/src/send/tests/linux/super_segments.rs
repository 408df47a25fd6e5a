//! Super-segments and packets of several lengths, by Linux 6.1; the name of each test states the rule.

use super::*;

#[test]
fn a_super_segment_is_deferred_up_to_a_millisecond_after_any_segment() {
    // `tcp_tso_should_defer` with tcp_wstamp_ns, which `__tcp_transmit_skb` sets for segments without data, too.
    let deferred = |ack_before: Option<Dur>| {
        let mut r = Rig::new(&tso());
        r.write(16);
        r.advance(ms(100));
        if let Some(before) = ack_before {
            r.s.on_control_sent(r.now);
            r.advance(before);
        }
        r.sack(0, &[1..2]).is_empty()
    };
    assert!(!deferred(None), "the last segment left 100 ms ago");
    assert!(deferred(Some(Dur::from_micros(500))));
    assert!(!deferred(Some(Dur::from_micros(1100))));
}

#[test]
fn segments_with_an_option_that_others_do_not_have_are_whole_packets_in_the_window() {
    // `tcp_current_mss`: 988 of 1000 bytes, as with one SACK block; `tcp_packets_in_flight` counts packets.
    let mut r = Rig::new(&tso());
    assert_eq!(r.s.write(r.now, 100_000), 100_000);
    let mut bytes = 0;
    while let Some(chunk) = r.s.poll_narrow(r.now, 12, &mut r.log) {
        bytes += chunk.span.end - chunk.span.start;
    }
    assert_eq!((bytes, r.s.in_flight()), (9880, 10_000));
    // One of them, which is a record of its own, is SACKed and releases one.
    r.advance(ms(100));
    let ack = AckIn { sacks: [1 + 988..1 + 2 * 988].into_iter().collect(), ..r.ack_in(1) };
    r.deliver(&ack);
    assert_eq!(r.info().sacked.get(), 988);
    let chunk = r.s.poll_narrow(r.now, 12, &mut r.log).unwrap();
    assert_eq!(chunk.span, 9881..9881 + 988);
}

/// Sends `n` bytes in segments that an option makes 12 bytes shorter.
fn narrow(r: &mut Rig, n: u64) -> Vec<Span> {
    assert_eq!(r.s.write(r.now, n), n);
    std::iter::from_fn(|| r.s.poll_narrow(r.now, 12, &mut r.log)).map(|chunk| chunk.span).collect()
}

#[test]
fn a_super_segment_of_shorter_segments_is_retransmitted_as_one() {
    // `__tcp_retransmit_skb`: the socket buffer has the length with which it was sent, and the present segment size.
    let mut r = Rig::new(&tso());
    assert_eq!(narrow(&mut r, 1000), [1..1001]);
    assert_eq!(r.s.in_flight(), 2000, "two packets");
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!((r.info().unacked.get(), r.info().bytes_retransmitted.get()), (1000, 1000));
    assert_eq!(r.s.in_flight(), 1000, "one packet now");
    r.advance(ms(100));
    assert_eq!(r.ack(1), [0; 0]);
}

#[test]
fn a_part_of_a_super_segment_that_arrived_is_not_sent_with_the_others() {
    let mut r = Rig::new(&single());
    let mut r2 = Rig::new(&tso());
    assert_eq!(narrow(&mut r, 1976), [1..989, 989..1977], "without super-segments");
    assert_eq!(narrow(&mut r2, 1976), [1..1977]);
    r2.advance(ms(100));
    let ack = AckIn { sacks: [989..1977].into_iter().collect(), ..r2.ack_in(1) };
    r2.deliver(&ack);
    r2.now = r2.s.next_timer().unwrap();
    r2.s.on_timer(r2.now, &mut r2.log).unwrap();
    assert_eq!(r2.drain().iter().map(|chunk| chunk.span.clone()).collect::<Vec<_>>(), [1..989]);
}

#[test]
fn the_probe_of_a_super_segment_of_shorter_segments_counts_its_packets_with_the_present_size() {
    // `tcp_send_loss_probe`: it begins after (packets - 1) * size bytes, or is everything.
    for (written, probed) in [(1000, 1..1001), (1976, 1001..1977)] {
        let mut r = Rig::new(&Config { tlp: Tlp::On, ..tso() });
        let sent = narrow(&mut r, written);
        assert_eq!(sent.len(), 1);
        r.now = r.s.next_timer().unwrap();
        r.s.on_timer(r.now, &mut r.log).unwrap();
        assert_eq!(r.drain().iter().map(|chunk| chunk.span.clone()).collect::<Vec<_>>(), [probed]);
        assert_eq!(r.info().tlp_probes, 1);
    }
}

#[test]
fn the_probe_joins_parts_that_are_sacked() {
    let mut r = Rig::new(&Config { tlp: Tlp::On, ..tso() });
    r.write(1);
    assert_eq!(narrow(&mut r, 1976).len(), 1);
    r.advance(ms(100));
    let ack = AckIn { sacks: [1001..2977].into_iter().collect(), ..r.ack_in(1) };
    r.deliver(&ack);
    assert_eq!(r.info().sacked.get(), 1976);
    r.now = r.s.next_timer().unwrap();
    r.s.on_timer(r.now, &mut r.log).unwrap();
    r.drain();
    assert_eq!((r.info().sacked.get(), r.s.audit_counts()), (1976, Ok(())));
}

#[test]
fn a_super_segment_has_the_length_of_the_rate_at_the_last_ack() {
    // `tcp_tso_autosize` with sk_pacing_rate, which only ACKs change (`tcp_update_pacing_rate`).
    let restarting = Config { tso_autosize: crate::TsoAutosize::Rate, ..tso() };
    let mut r = Rig::controlled_by("reno", &restarting);
    r.s.rtt.sample(ms(1), 1, 1);
    r.write(10);
    r.advance(ms(1));
    // 20 segments in slow start: 200 % of them in about 88 ms are 452 bytes in 1/1024 s, so that two segments are the least.
    r.ack(10);
    assert_eq!(r.cwnd(), 20_000);
    let before = r.s.pacer.rate_of_size();
    r.advance(ms(3000));
    assert_eq!(r.s.write_step(r.now, 1000, true, false, 0, &mut r.log).0, 1000);
    assert_eq!(r.cwnd(), 10_000, "restarted after the idle time");
    assert_eq!(r.s.pacer.rate_of_size(), before);
}
