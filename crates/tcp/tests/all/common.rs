//! Tools for tests: one connection that a test drives segment by segment, and two connections over a path,
//! in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use tcpassay_cc::{Params, build};
use tcpassay_tcp::{Config, Connection, Outgoing, Profile, State};
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Options, SackBlock, Segment, Timestamps};

pub fn ms(n: u64) -> Dur {
    Dur::from_millis(n)
}

pub fn at_ms(n: u64) -> Time {
    Time::ZERO + ms(n)
}

pub fn bytes(n: u64) -> Bytes {
    Bytes::new(n)
}

/// The RFC profile without timestamps, so that segments carry 1460 bytes and tests write short headers.
pub fn plain() -> Config {
    Config { timestamps: false, ..Config::profile(Profile::Rfc) }
}

pub fn reno() -> Box<dyn tcpassay_cc::Controller> {
    build("reno", &Params::default()).expect("reno exists")
}

pub fn connect(cfg: &Config, iss: u32, now: Time) -> Connection {
    Connection::connect(cfg, reno(), SeqNum::new(iss), 1000, now)
}

pub fn listen(cfg: &Config, iss: u32) -> Connection {
    Connection::listen(cfg, reno(), SeqNum::new(iss), 5000)
}

/// The initial sequence number of the end that the test drives; the connection under test has [`ISS`].
pub const PEER: u32 = 50_000;
pub const ISS: u32 = 1000;

/// One connection, whose peer is the test.
pub struct One {
    pub c: Connection,
    pub now: Time,
}

impl One {
    /// A server that has just accepted: window of the peer 65,535 without scaling, MSS 1460, SACK, no timestamps unless the
    /// configuration has them.
    pub fn accepted(cfg: &Config) -> One {
        let mut one = One { c: listen(cfg, ISS), now: Time::ZERO };
        let out = one.give(&syn(cfg), Ecn::NotEct);
        assert_eq!(out.len(), 1, "one SYN-ACK");
        let out = one.give(&ack(1, 1).stamped(cfg, 1), Ecn::NotEct);
        assert_eq!(out, [], "the handshake is done");
        assert_eq!(one.c.state(), State::Established);
        one
    }

    /// Delivers a segment and returns the segments that the connection sends.
    pub fn give(&mut self, segment: &Segment, ecn: Ecn) -> Vec<Outgoing> {
        self.c.on_segment(self.now, segment, ecn);
        self.sent()
    }

    /// Delivers a segment without a mark.
    pub fn take(&mut self, segment: &Segment) -> Vec<Outgoing> {
        self.give(segment, Ecn::NotEct)
    }

    pub fn sent(&mut self) -> Vec<Outgoing> {
        std::iter::from_fn(|| self.c.poll_transmit(self.now)).collect()
    }

    /// Lets time pass to `to` and runs every timer; returns the segments that the connection sends, with their times.
    pub fn until(&mut self, to: Time) -> Vec<(Time, Outgoing)> {
        let mut all = Vec::new();
        while let Some(t) = self.c.next_timer().filter(|&t| t <= to) {
            assert!(t >= self.now, "a deadline in the past: {t} at {}", self.now);
            self.now = t;
            self.c.on_timer(t);
            let out = self.sent();
            all.extend(out.into_iter().map(|o| (t, o)));
        }
        self.now = to;
        all
    }

    pub fn write(&mut self, n: u64) -> Vec<Outgoing> {
        assert_eq!(self.c.write(self.now, bytes(n)), bytes(n), "the send buffer took it");
        self.sent()
    }

    pub fn read(&mut self, n: u64) -> Vec<Outgoing> {
        assert_eq!(self.c.read(self.now, bytes(n)), bytes(n), "so much was readable");
        self.sent()
    }
}

/// The peer's SYN.
pub fn syn(cfg: &Config) -> Segment {
    let options = Options {
        mss: Some(1460),
        window_scale: None,
        sack_permitted: true,
        timestamps: cfg.timestamps.then_some(Timestamps { val: 1, ecr: 0 }),
        ..Options::default()
    };
    Segment { seq: SeqNum::new(PEER), flags: Flags::SYN, window: 65_535, options, ..Segment::default() }
}

/// A pure ACK of the peer at its position `seq`, acknowledging our position `ack`.
pub fn ack(seq: u32, ack: u32) -> Segment {
    Segment {
        seq: SeqNum::new(PEER) + seq,
        ack: SeqNum::new(ISS) + ack,
        flags: Flags::ACK,
        window: 65_535,
        ..Segment::default()
    }
}

/// `len` bytes of the peer at its position `seq`.
pub fn data(seq: u32, len: u32) -> Segment {
    Segment { len, ..ack(seq, 1) }
}

pub trait Change {
    fn flags(self, more: Flags) -> Segment;
    fn window(self, field: u16) -> Segment;
    fn stamped(self, cfg: &Config, val: u32) -> Segment;
    fn stamp(self, val: u32, ecr: u32) -> Segment;
    /// Blocks at our positions.
    fn sack(self, blocks: &[(u32, u32)]) -> Segment;
}

impl Change for Segment {
    fn flags(mut self, more: Flags) -> Segment {
        self.flags |= more;
        self
    }
    fn window(mut self, field: u16) -> Segment {
        self.window = field;
        self
    }
    fn stamped(self, cfg: &Config, val: u32) -> Segment {
        if cfg.timestamps { self.stamp(val, 5000) } else { self }
    }
    fn stamp(mut self, val: u32, ecr: u32) -> Segment {
        self.options.timestamps = Some(Timestamps { val, ecr });
        self
    }
    fn sack(mut self, blocks: &[(u32, u32)]) -> Segment {
        let at = SeqNum::new(ISS);
        self.options.sack = blocks.iter().map(|&(a, b)| SackBlock { start: at + a, end: at + b }).collect();
        self
    }
}

/// The text of a segment in tests: flags, our position, payload length, acknowledged position of the peer.
pub fn show(out: &Outgoing) -> String {
    let s = &out.segment;
    let seq = s.seq.distance(SeqNum::new(ISS));
    let ack = s.ack.distance(SeqNum::new(PEER));
    let mut text = format!("{} {seq}+{} ack {ack}", s.flags, s.len);
    for b in &s.options.sack {
        let at = |n: SeqNum| n.distance(SeqNum::new(PEER));
        write!(text, " sack {}-{}", at(b.start), at(b.end)).expect("a string takes everything");
    }
    text
}

pub fn shows(out: &[Outgoing]) -> Vec<String> {
    out.iter().map(show).collect()
}

/// The effect of the network on a packet: the extra delay of each copy. An empty list is a loss.
pub type Fate = Vec<Dur>;

/// Two connections and a path of equal delay both ways.
pub struct Two {
    pub ends: [Connection; 2],
    pub now: Time,
    pub delay: Dur,
    pub segments: u64,
    queue: BinaryHeap<Reverse<(Time, u64, usize)>>,
    flying: Vec<Option<(Segment, Ecn)>>,
    count: u64,
}

impl Two {
    pub fn new(a: Connection, b: Connection, delay: Dur) -> Two {
        Two {
            ends: [a, b],
            now: Time::ZERO,
            delay,
            segments: 0,
            queue: BinaryHeap::new(),
            flying: Vec::new(),
            count: 0,
        }
    }

    /// Sends the pending packets of both ends; `fate` decides about each packet from end `from`.
    pub fn pump(&mut self, fate: &mut dyn FnMut(usize, &Outgoing) -> Fate) {
        for from in 0..2 {
            while let Some(out) = self.ends[from].poll_transmit(self.now) {
                self.segments += 1;
                for extra in fate(from, &out) {
                    self.count += 1;
                    let slot = self.flying.len();
                    self.flying.push(Some((out.segment, out.ecn)));
                    let at = self.now + self.delay + extra;
                    self.queue.push(Reverse((at, self.count, slot << 1 | (1 - from))));
                }
            }
        }
    }

    /// The next event, up to `end`; returns false if there is none.
    pub fn step(&mut self, end: Time) -> bool {
        let timer = self.ends.iter().filter_map(Connection::next_timer).min();
        let packet = self.queue.peek().map(|Reverse((t, ..))| *t);
        let Some(next) = timer.into_iter().chain(packet).min().filter(|&t| t <= end) else { return false };
        self.now = self.now.max(next);
        if packet == Some(next) {
            let Reverse((_, _, key)) = self.queue.pop().expect("peeked");
            let (segment, ecn) = self.flying[key >> 1].take().expect("delivered once");
            self.ends[key & 1].on_segment(self.now, &segment, ecn);
        } else {
            for c in &mut self.ends {
                if c.next_timer().is_some_and(|t| t <= next) {
                    c.on_timer(next);
                }
            }
        }
        true
    }

    pub fn run(&mut self, end: Time, fate: &mut dyn FnMut(usize, &Outgoing) -> Fate) {
        self.pump(fate);
        while self.step(end) {
            self.pump(fate);
        }
        self.now = self.now.max(end);
    }
}

/// A fate for a path that loses nothing.
pub fn clean(_: usize, _: &Outgoing) -> Fate {
    vec![Dur::ZERO]
}
