//! One bulk transfer between two connections over a pipe, to measure the cost of the stack without the
//! simulator.
//!
//! `pair [CONTROLLER] [PACKETS]`, under callgrind: `--toggle-collect` is not needed, the pipe itself costs little. The
//! pipe has 10 Gbit/s, 100 us of round trip and marks CE above 100 KB; with a controller other than `dctcp` it drops
//! above 400 KB instead.

use std::collections::VecDeque;
use tcpassay_cc::{Params, build};
use tcpassay_tcp::{Config, Connection, EcnMode, Outgoing, Profile};
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Segment};

const DELAY: Dur = Dur::from_micros(50);
const MARK: u64 = 100_000;
const DROP: u64 = 400_000;

struct Pipe {
    flight: VecDeque<(Time, Segment, Ecn)>,
    free_at: Time,
    marks: bool,
}

impl Pipe {
    fn send(&mut self, now: Time, out: Outgoing) {
        let wire = u64::from(out.segment.len + 90);
        // 1.25 bytes a nanosecond.
        let backlog = self.free_at.since(now).as_nanos() * 5 / 4;
        let mut ecn = out.ecn;
        if self.marks && backlog > MARK && ecn.is_capable() {
            ecn = Ecn::Ce;
        }
        if !self.marks && backlog > DROP {
            return;
        }
        self.free_at = self.free_at.max(now) + Dur::from_nanos(wire * 4 / 5);
        self.flight.push_back((self.free_at + DELAY, out.segment, ecn));
    }

    fn next(&self) -> Time {
        self.flight.front().map_or(Time::MAX, |f| f.0)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "dctcp".to_owned());
    let packets: u64 = arguments.next().map_or(50_000, |n| n.parse().expect("a number of packets"));
    let dctcp = name == "dctcp";
    let mut cfg = Config::profile(Profile::Linux);
    if dctcp {
        cfg.ecn = EcnMode::Dctcp;
    }
    let cc = || build(&name, &Params::default()).expect("a controller");
    let mut client = Connection::connect(&cfg, cc(), SeqNum::new(1), 0, Time::ZERO);
    let mut server = Connection::listen(&cfg, cc(), SeqNum::new(2), 0);
    let pipe = || Pipe { flight: VecDeque::new(), free_at: Time::ZERO, marks: dctcp };
    let (mut there, mut back) = (pipe(), pipe());
    let (mut read, mut arrived) = (0, 0u64);
    let mut now = Time::ZERO;
    while read < packets * 1448 {
        while client.may_transmit() {
            let Some(out) = client.poll_transmit(now) else { break };
            there.send(now, out);
        }
        while server.may_transmit() {
            let Some(out) = server.poll_transmit(now) else { break };
            back.send(now, out);
        }
        let timers = [client.next_timer().unwrap_or(Time::MAX), server.next_timer().unwrap_or(Time::MAX)];
        let next = there.next().min(back.next());
        now = next.min(timers[0]).min(timers[1]);
        assert!(now != Time::MAX, "no event is left before the end of the transfer");
        if now == there.next() {
            let (_, segment, ecn) = there.flight.pop_front().expect("it has a head");
            arrived += 1;
            server.on_segment(now, &segment, ecn);
            read += server.read(now, Bytes::MAX).get();
        } else if now == back.next() {
            let (_, segment, ecn) = back.flight.pop_front().expect("it has a head");
            client.on_segment(now, &segment, ecn);
            if client.has_room() {
                let _ = client.write(now, Bytes::MAX);
            }
        } else {
            client.on_timer(now);
            server.on_timer(now);
        }
    }
    println!("{} bytes a connection", size_of::<Connection>());
    let info = client.info();
    println!(
        "{name}: {arrived} segments in {now} s, {} retransmitted, {} marked",
        info.retransmissions,
        server.info().ce_segments_in
    );
}
