#![allow(missing_docs, clippy::all, clippy::pedantic)]
use tcpassay_cc::{Params, build};
use tcpassay_tcp::*;
use tcpassay_units::*;
fn main() {
    let p = Profile::by_name(&std::env::args().nth(1).unwrap_or("linux".into())).unwrap();
    let n: u64 = std::env::args().nth(2).map_or(3_000_000, |s| s.parse().unwrap());
    let mut cfg = Config::profile(p);
    cfg.recv_buffer = RecvBuffer::Fixed(Bytes::new(200_000));
    cfg.send_buffer = Some(Bytes::new(1 << 20));
    let cc = || build("reno", &Params::default()).unwrap();
    let mut now = Time::ZERO;
    let mut a = Connection::connect(&cfg, cc(), SeqNum::new(1), 0, now);
    let mut b = Connection::listen(&cfg, cc(), SeqNum::new(2), 0);
    let mut sent = 0u64;
    let mut acks = 0u64;
    let mut q: std::collections::VecDeque<Outgoing> = Default::default();
    let mut back: std::collections::VecDeque<Outgoing> = Default::default();
    while sent < n {
        now += Dur::from_nanos(600);
        let w = a.writable();
        if w > Bytes::new(100_000) {
            let _ = a.write(now, w);
        }
        while let Some(o) = a.poll_transmit(now) {
            if o.segment.len > 0 {
                sent += 1;
            }
            q.push_back(o);
        }
        if let Some(o) = q.pop_front() {
            b.on_segment(now, &o.segment, o.ecn);
            let r = b.readable();
            if !r.is_zero() {
                let _ = b.read(now, r);
            }
            while let Some(o) = b.poll_transmit(now) {
                acks += 1;
                back.push_back(o);
            }
        }
        if back.len() > 20 || q.is_empty() {
            if let Some(o) = back.pop_front() {
                a.on_segment(now, &o.segment, o.ecn);
            }
        }
        if a.next_timer().is_some_and(|t| t <= now) {
            a.on_timer(now);
        }
        if b.next_timer().is_some_and(|t| t <= now) {
            b.on_timer(now);
        }
    }
    println!(
        "{} data, {} acks, cwnd {} retrans {} timeouts {}",
        sent,
        acks,
        a.info().cwnd,
        a.info().retransmissions,
        a.info().timeouts
    );
}
