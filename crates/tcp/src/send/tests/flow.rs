//! Windows, sizes and waiting: RFC 9293 section 3.8.6, Nagle, cork, pacing, super-segments, idle, the send buffer.

use super::*;
use crate::config::{AfterIdle, Nagle, Pacing, RtoBounds, StackFlavor, TsoAutosize};

fn lens(chunks: &[Chunk]) -> Vec<u64> {
    chunks.iter().map(|c| c.span.end - c.span.start).collect()
}

impl Rig {
    /// Writes `n` bytes; returns the lengths of the transmitted segments.
    fn put(&mut self, n: u64) -> Vec<u64> {
        assert_eq!(self.s.write(self.now, n), n);
        lens(&self.drain())
    }
}

#[test]
fn nagle_holds_a_small_segment_while_anything_is_unacknowledged() {
    let mut r = Rig::new(&rfc());
    assert_eq!(r.put(100), [100]);
    assert_eq!(r.put(100), [0; 0]);
    assert_eq!(r.put(950), [1000]);
    let ack = r.ack_in(1101);
    r.deliver(&ack);
    assert_eq!(lens(&r.drain()), [50]);
}

#[test]
fn bsds_nagle_sends_the_odd_end_of_a_write_into_an_idle_connection() {
    for tso in [None, Some(Bytes::new(64_000))] {
        let mut r = Rig::new(&Config { nagle: Nagle::Idle, tso, ..rfc() });
        assert_eq!(r.put(1500).iter().sum::<u64>(), 1500);
        assert_eq!(r.put(1500), [1000]);
    }
}

#[test]
fn minshalls_nagle_holds_a_small_segment_only_behind_another_small_one() {
    let mut r = Rig::new(&Config { nagle: Nagle::Small, ..rfc() });
    assert_eq!(r.put(1500), [1000, 500]);
    assert_eq!(r.put(200), [0; 0]);
    assert_eq!(r.put(1000), [1000], "200 remain");
    let ack = r.ack_in(1501);
    r.deliver(&ack);
    assert_eq!(lens(&r.drain()), [200]);
}

#[test]
fn nodelay_sends_small_segments_at_once() {
    let mut r = Rig::new(&rfc());
    assert_eq!(r.put(100), [100]);
    r.s.set_nodelay(true);
    assert_eq!(r.put(100), [100]);
}

#[test]
fn cork_holds_a_small_segment_for_200_ms() {
    let mut r = Rig::new(&Config { cork: true, nodelay: true, ..rfc() });
    assert_eq!(r.put(1040), [1000]);
    assert_eq!(r.put(40), [0; 0]);
    assert_eq!(r.s.next_timer(), Some(r.now + ms(200)));
    r.now = r.s.next_timer().unwrap();
    r.s.on_timer(r.now, &mut r.log).unwrap();
    assert_eq!(lens(&r.drain()), [80]);
    assert_eq!(r.put(40), [0; 0]);
    r.s.set_cork(false);
    assert_eq!(lens(&r.drain()), [40]);
}

#[test]
fn linux_counts_the_time_of_a_corked_segment_from_the_ack_of_all_before_it() {
    let mut cfg = Config { cork: true, flavor: StackFlavor::Linux, ..rfc() };
    cfg.rto = RtoBounds { min: ms(50), ..cfg.rto };
    let mut r = Rig::new(&cfg);
    assert_eq!(r.put(40), [0; 0]);
    r.advance(ms(150));
    assert_eq!(r.put(1000), [1000], "and 40 are held");
    r.advance(ms(100));
    r.ack(1);
    // The RTO: 100 ms and four times 37.5 ms.
    assert_eq!(r.wait(), ms(250));
}

#[test]
fn a_fin_takes_the_last_small_segment_with_it() {
    let mut r = Rig::new(&rfc());
    r.put(1000);
    assert_eq!(r.put(10), [0; 0]);
    r.s.finish();
    let chunks = r.drain();
    assert_eq!((lens(&chunks), chunks[0].fin, chunks[0].push), (vec![10], true, true));
    let ack = r.ack_in(1012);
    let out = r.s.on_ack(r.now, &ack, &mut r.log);
    assert_eq!((out.acked, out.fin_acked), (1010, true));
    assert_eq!(r.s.next_timer(), None);
}

#[test]
fn a_lost_fin_is_retransmitted() {
    let mut r = Rig::new(&rfc());
    r.s.finish();
    let chunk = r.drain().remove(0);
    assert_eq!((chunk.span, chunk.fin), (1..1, true));
    r.now = r.s.next_timer().unwrap();
    r.s.on_timer(r.now, &mut r.log).unwrap();
    let chunk = r.drain().remove(0);
    assert_eq!((chunk.span, chunk.fin, chunk.retransmission), (1..1, true, true));
}

#[test]
fn a_fin_waits_for_the_peers_window() {
    let mut r = Rig::with(&rfc(), &Agreed { window: 1000, ..agreed() });
    r.s.write(r.now, 1000);
    r.s.finish();
    let chunks = r.drain();
    assert_eq!((lens(&chunks), chunks[0].fin), (vec![1000], false));
    let ack = r.ack_in(1001);
    r.deliver(&ack);
    assert!(r.drain()[0].fin);
}

#[test]
fn a_zero_window_is_probed_with_back_off_as_long_as_the_peer_answers() {
    let mut r = Rig::with(&Config { retries: 2, ..rfc() }, &Agreed { window: 2000, ..agreed() });
    assert_eq!(r.put(5000), [1000, 1000]);
    r.window = 0;
    r.advance(ms(100));
    r.ack(2);
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(r.wait(), Dur::from_secs(wait));
        r.now = r.s.next_timer().unwrap();
        r.s.on_timer(r.now, &mut r.log).unwrap();
        let probe = r.drain();
        assert_eq!(probe.len(), 1);
        assert_eq!(probe[0].span, 2000..2000, "an old position, so that the peer answers");
        assert!(!probe[0].ect);
        r.ack(2);
    }
    r.window = 10_000;
    assert_eq!(r.ack(2), [2, 3, 4]);
    assert!(r.wait() <= Dur::from_secs(1), "the retransmission timer runs, without backoff");
}

#[test]
fn a_window_that_closes_with_data_in_flight_keeps_the_connection_open_as_long_as_the_peer_answers() {
    // RFC 9293 section 3.8.6.1: the retransmissions are the probes.
    let mut r = Rig::with(&Config { retries: 2, ..rfc() }, &Agreed { window: 2000, ..agreed() });
    assert_eq!(r.put(5000), [1000, 1000]);
    r.window = 0;
    r.ack(0);
    let start = r.now;
    for _ in 0..10 {
        assert_eq!(r.fire(), Ok(vec![0]));
        r.advance(ms(100));
        assert_eq!(r.ack(0), [0; 0]);
    }
    assert!(r.now.since(start) > Dur::from_secs(300), "longer than the user timeout");
    // From then on the peer does not answer.
    assert_eq!(r.fire(), Ok(vec![0]));
    assert_eq!(r.fire(), Err(GaveUp::Retries));
}

#[test]
fn linux_waits_200_ms_for_the_first_probe_of_a_zero_window_regardless_of_the_minimum_rto() {
    for (flavor, first) in [(StackFlavor::Rfc, ms(300)), (StackFlavor::Linux, ms(300))] {
        let mut cfg = Config { flavor, ..rfc() };
        cfg.rto = RtoBounds { min: ms(50), ..cfg.rto };
        assert_eq!(shut_after(&cfg, ms(100)), first, "{flavor:?}: srtt + 4 rttvar");
    }
    for (flavor, first) in [(StackFlavor::Rfc, ms(50)), (StackFlavor::Linux, ms(200))] {
        let mut cfg = Config { flavor, ..rfc() };
        cfg.rto = RtoBounds { min: ms(50), ..cfg.rto };
        assert_eq!(shut_after(&cfg, ms(10)), first, "{flavor:?}");
    }
}

/// The time until the first probe of a zero window, after a round trip of `rtt`.
fn shut_after(cfg: &Config, rtt: Dur) -> Dur {
    let mut r = Rig::with(cfg, &Agreed { rtt: Some(rtt), window: 0, ..agreed() });
    assert_eq!(r.write(1), [0; 0]);
    r.wait()
}

#[test]
fn unanswered_probes_run_out() {
    let mut r = Rig::with(&Config { retries: 2, ..rfc() }, &Agreed { window: 0, ..agreed() });
    r.put(1000);
    for _ in 0..2 {
        r.now = r.s.next_timer().unwrap();
        r.s.on_timer(r.now, &mut r.log).unwrap();
        assert_eq!(r.drain().len(), 1);
    }
    r.now = r.s.next_timer().unwrap();
    assert_eq!(r.s.on_timer(r.now, &mut r.log), Err(GaveUp::Retries));
}

#[test]
fn a_window_below_a_segment_is_used_when_it_is_half_of_the_largest_or_time_passes() {
    let mut r = Rig::with(&rfc(), &Agreed { window: 1500, ..agreed() });
    assert_eq!(r.put(5000), [1000], "500 are not worth a segment");
    let mut ack = r.ack_in(1001);
    ack.window = 800;
    r.deliver(&ack);
    assert_eq!(lens(&r.drain()), [800], "more than half of 1500");
    let mut ack = r.ack_in(1801);
    ack.window = 300;
    r.deliver(&ack);
    assert_eq!(lens(&r.drain()), [0; 0]);
    r.now = r.s.next_timer().unwrap();
    r.s.on_timer(r.now, &mut r.log).unwrap();
    assert_eq!(lens(&r.drain()), [300], "the override");
}

#[test]
fn the_peers_window_bounds_the_flight() {
    let mut r = Rig::with(&rfc(), &Agreed { window: 3000, ..agreed() });
    assert_eq!(r.put(9000), [1000, 1000, 1000]);
    r.advance(ms(100));
    assert_eq!(r.info().limited_rwnd, ms(100), "and the time is charged to it");
    assert_eq!(r.ack(1), [3]);
}

#[test]
fn time_is_counted_for_the_limit_of_the_sender() {
    let mut r = Rig::new(&rfc());
    r.advance(ms(50));
    r.write(20);
    r.advance(ms(100));
    r.ack(10);
    r.advance(ms(30));
    let info = r.info();
    assert_eq!((info.limited_cwnd, info.limited_rwnd, info.limited_app), (ms(100), ms(0), ms(80)));
}

#[test]
fn pacing_spaces_segments_by_their_share_of_the_round_trip() {
    let cfg = Config { pacing: Pacing::Percent { slow_start: 200, avoidance: 120 }, ..rfc() };
    let mut r = Rig::new(&cfg);
    // 10 segments in 100 ms, twice as fast in slow start: one every 5 ms.
    assert_eq!(r.write(3), [0]);
    assert_eq!(r.wait(), ms(5));
    assert_eq!(r.fire(), Ok(vec![1]));
    assert_eq!(r.wait(), ms(5));
    assert_eq!(r.fire(), Ok(vec![2]));
    assert_eq!(r.wait(), ms(990), "nothing waits: the retransmission timer of the first");
}

#[test]
fn a_paced_super_segment_holds_a_millisecond_of_the_rate_and_at_least_two_segments() {
    let cfg = Config {
        pacing: Pacing::Percent { slow_start: 200, avoidance: 120 },
        tso: Some(Bytes::new(64_000)),
        ..rfc()
    };
    let mut r = Rig::new(&cfg);
    assert_eq!(r.put(9000), [2000]);
    let mut r = Rig::with(&cfg, &Agreed { rtt: Some(ms(5)), ..agreed() });
    // 4 MB/s: 4000 bytes a millisecond.
    assert_eq!(r.put(9000), [4000]);
}

#[test]
fn linux_sizes_super_segments_by_the_rate_also_without_pacing_and_by_a_short_round_trip() {
    let sizes = |tso_autosize, rtt| {
        let cfg = Config { tso: Some(Bytes::new(64_000)), tso_autosize, initial_window: 100, ..rfc() };
        Rig::with(&cfg, &Agreed { rtt: Some(rtt), ..agreed() }).put(60_000)[0]
    };
    // 100 segments in 20 ms, twice that in slow start: 10 MB/s, 9765 bytes in 1/1024 s.
    assert_eq!(sizes(TsoAutosize::Rate, ms(20)), 9000);
    assert_eq!(sizes(TsoAutosize::Rate, ms(1000)), 2000, "at least two");
    assert_eq!(sizes(TsoAutosize::Off, ms(20)), 50_000, "half the window");
    // 48,828 bytes in 1/1024 s of 4 ms, and 64,000 / 2^7.
    assert_eq!(sizes(TsoAutosize::Rate, ms(4)), 48_000);
    assert_eq!(sizes(TsoAutosize::RateAndRtt, ms(4)), 49_000);
    assert_eq!(sizes(TsoAutosize::RateAndRtt, ms(20)), 9000, "39 halvings leave nothing");
}

#[test]
fn a_super_segment_holds_whole_segments_and_at_most_half_the_window() {
    let mut r = Rig::new(&Config { tso: Some(Bytes::new(64_000)), ..rfc() });
    assert_eq!(r.put(20_000), [5000, 5000]);
    let mut r = Rig::new(&Config { tso: Some(Bytes::new(3500)), ..rfc() });
    assert_eq!(r.put(20_000), [3000, 3000, 3000, 1000]);
    let mut r = Rig::new(&Config { tso: Some(Bytes::new(64_000)), ..rfc() });
    assert_eq!(r.put(2500), [2000], "Nagle: the odd end waits");
    assert_eq!(r.put(600), [1000]);
}

#[test]
fn tso_defer_waits_for_a_third_of_the_window_when_an_ack_is_near() {
    let cfg = Config { tso: Some(Bytes::new(64_000)), tso_defer: true, ..rfc() };
    let mut r = Rig::new(&cfg);
    assert_eq!(r.put(60_000), [5000, 5000]);
    r.advance(ms(100));
    assert_eq!(r.ack(1), [0; 0], "2 of 11: the ACKs of the rest are near");
    let ack = r.ack_in(seg(3));
    r.deliver(&ack);
    assert_eq!(lens(&r.drain()), [6000]);
    let mut r = Rig::new(&cfg);
    r.put(60_000);
    r.advance(ms(10));
    let ack = r.ack_in(seg(1));
    r.deliver(&ack);
    assert_eq!(lens(&r.drain()), [2000], "the next ACK is half a round trip away or more");
}

/// Linux `tcp_tso_should_defer` since 4.20, for any rule of super-segment sizes (`tcp_tso_rtt_log`).
#[test]
fn tso_defer_of_linux_waits_only_within_a_millisecond_of_the_last_transmission() {
    let cfg = Config {
        tso: Some(Bytes::new(64_000)),
        tso_defer: true,
        tso_defer_recent: true,
        tso_autosize: TsoAutosize::Off,
        initial_window: 12,
        ..rfc()
    };
    let acked = |r: &mut Rig, n| {
        let ack = r.ack_in(seg(n));
        r.deliver(&ack);
        lens(&r.drain())
    };
    let mut r = Rig::new(&cfg);
    assert_eq!(r.put(60_000), [6000, 6000]);
    r.advance(ms(100));
    assert_eq!(acked(&mut r, 1), [2000], "100 ms after the last transmission");
    assert_eq!(acked(&mut r, 2), [0; 0], "2 of 14, at the time of the last transmission");
    r.advance(ms(2));
    assert_eq!(acked(&mut r, 3), [4000], "2 ms after it");
}

#[test]
fn after_an_idle_rto_the_window_restarts_decays_or_stays() {
    for (after_idle, expected) in [(AfterIdle::Keep, 40), (AfterIdle::Restart, 10), (AfterIdle::Decay, 20)] {
        let mut r = Rig::new(&Config { after_idle, ..rfc() });
        r.write(30);
        for n in [10, 30] {
            r.advance(ms(100));
            r.ack(n);
        }
        r.advance(ms(100));
        assert_eq!(r.cwnd(), 40_000);
        r.advance(ms(1500));
        assert_eq!(r.write(60).len(), expected, "{after_idle:?}");
    }
}

#[test]
fn a_pause_shorter_than_the_rto_keeps_the_window() {
    let mut r = Rig::new(&rfc());
    r.write(10);
    r.advance(ms(100));
    r.ack(10);
    r.advance(ms(800));
    assert_eq!(r.write(30).len(), 20);
}

#[test]
fn the_send_buffer_bounds_what_is_unacknowledged() {
    let mut r = Rig::new(&Config { send_buffer: Some(Bytes::new(15_000)), ..rfc() });
    assert_eq!(r.s.write(r.now, 20_000), 15_000);
    assert_eq!(r.sent().len(), 10);
    assert_eq!(r.s.writable(), 0);
    r.advance(ms(100));
    r.ack(4);
    assert_eq!(r.s.writable(), 4000);
}

/// The send buffer after three round trips in which the application fills it: 10, 20 and 40 segments are acknowledged.
fn send_buffer_after_three_round_trips(cfg: &Config) -> u64 {
    let mut r = Rig::new(cfg);
    assert_eq!(r.s.writable(), 65_536);
    for acked in [10, 30, 70] {
        let room = r.s.writable();
        r.s.write(r.now, room);
        r.sent();
        r.advance(ms(100));
        r.ack(acked);
    }
    assert_eq!(r.cwnd(), 80_000);
    // The bytes in the buffer, and the bytes that it accepts.
    r.info().unacked.get() + r.s.unsent() + r.s.writable()
}

#[test]
fn an_autotuned_send_buffer_is_twice_the_window() {
    let cfg = Config { send_buffer: None, ..rfc() };
    assert_eq!(send_buffer_after_three_round_trips(&cfg), 160_000);
}

#[test]
fn an_autotuned_send_buffer_stops_at_its_bound() {
    let cfg = Config { send_buffer: None, max_send_buffer: Bytes::new(100_000), ..rfc() };
    assert_eq!(send_buffer_after_three_round_trips(&cfg), 100_000);
}

#[test]
fn notsent_lowat_bounds_what_is_unsent() {
    let mut r = Rig::new(&Config { notsent_lowat: Some(Bytes::new(4000)), ..rfc() });
    assert_eq!(r.s.write(r.now, 59_000), 4000);
    r.sent();
    assert_eq!(r.s.writable(), 4000);
    r.write(4);
    r.write(4);
    assert_eq!(r.s.unsent(), 2000);
    assert_eq!(r.s.writable(), 2000);
}

#[test]
fn nothing_is_accepted_after_finish() {
    let mut r = Rig::new(&rfc());
    r.s.finish();
    assert_eq!(r.s.write(r.now, 10), 0);
}

#[test]
fn a_controller_is_clamped_to_one_segment_and_the_clamp_is_counted() {
    #[derive(Clone, Debug)]
    struct Zero;
    impl Controller for Zero {
        fn name(&self) -> &'static str {
            "zero"
        }
        fn on(&mut self, view: &View, _: &Event) -> Control {
            Control { cwnd: Bytes::ZERO, ..view.control }
        }
        fn boxed_clone(&self) -> Box<dyn Controller> {
            Box::new(self.clone())
        }
    }
    let mut r = Rig::boxed(&rfc(), &agreed(), Box::new(Zero));
    assert_eq!(r.write(5), [0]);
    let info = r.info();
    assert_eq!((info.cwnd, info.clamps), (Bytes::new(1000), 2));
}

#[test]
fn linux_paces_from_the_tenth_segment_at_the_rate_of_the_syn_ack_until_data_are_acknowledged() {
    // `tcp_update_skb_after_send`, `tcp_update_pacing_rate`: ten segments a round trip of 100 ms, twice as fast in slow start. The
    // initial window is known only later.
    let cfg = Config {
        pacing: Pacing::Percent { slow_start: 200, avoidance: 120 },
        flavor: StackFlavor::Linux,
        initial_window: 40,
        ..rfc()
    };
    let mut r = Rig::with(&cfg, &Agreed { rate_window: Some(Bytes::new(10_000)), ..agreed() });
    assert_eq!(r.write(14), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(r.wait(), ms(5));
    assert_eq!(r.fire(), Ok(vec![10]));
    // After a transmission that is 1 ms late the next wait is 1 ms shorter, but at least half of its time.
    r.advance(ms(6));
    assert_eq!(r.sent(), [11]);
    assert_eq!(r.wait(), ms(4));
    r.advance(ms(30));
    assert_eq!(r.sent(), [12]);
    assert_eq!(r.wait(), Dur::from_micros(2500));
}

#[test]
fn linux_sizes_the_buffers_of_a_call_once_with_the_sack_blocks_of_that_time() {
    let skbs = crate::config::Skbs {
        overhead: Bytes::new(768),
        headers: Bytes::new(192),
        initial: Bytes::new(1 << 20),
    };
    let mut r = Rig::new(&Config { skbs: Some(skbs), tso: Some(Bytes::new(2500)), ..rfc() });
    assert_eq!(
        r.s.write_step(r.now, 6000, true, false, 12, &mut r.log),
        (1976, true),
        "two segments of 988 bytes"
    );
    let (taken, _) = r.s.write_step(r.now, 4024, false, false, 0, &mut r.log);
    assert_eq!(taken, 1976 + 1976, "the blocks have left");
    assert_eq!(r.s.write_step(r.now, 72, false, false, 0, &mut r.log), (72, true));
    assert_eq!(
        r.s.write_step(r.now, 9000, true, false, 0, &mut r.log).0,
        1928,
        "the rest of a buffer of two segments of 1000 bytes"
    );
}

#[test]
fn linux_restarts_the_window_after_idle_when_data_are_written_and_not_when_old_data_leave() {
    let skbs = crate::config::Skbs {
        overhead: Bytes::new(768),
        headers: Bytes::new(192),
        initial: Bytes::new(1 << 20),
    };
    let put = |r: &mut Rig, n: u64| {
        let mut left = n;
        while left > 0 {
            left -= r.s.write_step(r.now, left, left == n, false, 0, &mut r.log).0;
            r.drain();
        }
    };
    let mut r = Rig::new(&Config { skbs: Some(skbs), cork: true, ..rfc() });
    put(&mut r, 10_500);
    r.advance(ms(100));
    r.ack(10);
    assert_eq!(r.cwnd(), 20_000);
    r.advance(ms(3000));
    r.s.set_cork(false);
    assert_eq!(lens(&r.drain()), [500], "written before");
    assert_eq!(r.cwnd(), 20_000);
    let ack = r.ack_in(10_501);
    r.deliver(&ack);
    r.advance(ms(4000));
    assert!(r.s.write_step(r.now, 100, true, true, 0, &mut r.log).0 == 100);
    assert_eq!(r.cwnd(), 10_000, "at the write, before anything leaves");
}
