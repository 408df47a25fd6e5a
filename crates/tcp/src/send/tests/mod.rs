//! Tests of the sender by RFC; the name of each test states the rule.

#![expect(clippy::single_range_in_vec_init, reason = "one SACK block is a list of one range")]

mod basics;
mod ecn;
mod flow;
mod governing;
mod linux;
mod newreno;
mod prop;
mod prr;
mod rack;
mod rto;
mod sack;
mod tlp;

use super::Sender;
use crate::Info;
use crate::config::{Config, EcnMode, Profile};
use crate::log::Log;
use crate::messages::{AckIn, Agreed, Chunk, GaveUp, Span};
use tcpassay_cc::{Control, Controller, Event, Limited, View};
use tcpassay_units::{Bytes, Dur, Time};

/// Reno in its simplest form: slow start by bytes, one MSS a window in avoidance, half on loss.
#[derive(Clone, Debug, Default)]
struct TinyReno {
    recovering: bool,
    collapsed: bool,
    /// The ACK that ends a recovery does not increase the window.
    left: bool,
    before: Option<Control>,
    /// Window kept on a loss, in tenths; 5 by default.
    keep: Option<u64>,
}

impl TinyReno {
    fn reduced(&self, flight: Bytes, mss: Bytes) -> Bytes {
        (flight * self.keep.unwrap_or(5) / 10).max(mss * 2)
    }
}

impl Controller for TinyReno {
    fn name(&self) -> &'static str {
        "tiny"
    }

    fn on(&mut self, view: &View, event: &Event) -> Control {
        let mut c = view.control;
        match *event {
            Event::Ack(_) if std::mem::take(&mut self.left) => {}
            Event::Ack(ack) if !self.recovering => {
                if c.cwnd < c.ssthresh {
                    c.cwnd += ack.acked;
                } else if view.limited == Limited::Cwnd {
                    c.cwnd += Bytes::new(view.mss.get() * ack.acked.get() / c.cwnd.get());
                }
            }
            Event::Congestion { flight, .. } => {
                self.before = Some(c);
                self.recovering = true;
                c.ssthresh = self.reduced(flight, view.mss);
                c.cwnd = c.ssthresh;
            }
            Event::Timeout { flight, again } => {
                if !again {
                    if !self.recovering {
                        self.before = Some(c);
                    }
                    c.ssthresh = self.reduced(flight, view.mss);
                }
                self.recovering = false;
                self.collapsed = true;
                c.cwnd = view.mss;
            }
            Event::RecoveryExit { spurious, exit } => {
                if spurious {
                    let before = self.before.take().expect("something to undo");
                    c.cwnd = c.cwnd.max(before.cwnd);
                    c.ssthresh = before.ssthresh;
                } else if !self.collapsed {
                    c.cwnd = c.ssthresh.min(exit);
                }
                self.recovering = false;
                self.collapsed = false;
                self.left = !spurious;
            }
            Event::Resume { restart, .. } => c.cwnd = restart,
            _ => {}
        }
        c
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// A sender with MSS 1000, round trips of 100 ms, and a peer whose ACKs the test writes.
struct Rig {
    s: Sender,
    log: Log,
    now: Time,
    window: u64,
}

fn ms(n: u64) -> Dur {
    Dur::from_millis(n)
}

/// RFC profile with an MSS of 1000 bytes.
fn rfc() -> Config {
    Config {
        mss: Bytes::new(1000),
        send_buffer: Some(Bytes::new(10_000_000)),
        ..Config::profile(Profile::Rfc)
    }
}

fn agreed() -> Agreed {
    Agreed {
        mss: Bytes::new(1000),
        options: Bytes::ZERO,
        path: Bytes::new(1000),
        clamp: Bytes::new(1000),
        sack: true,
        timestamps: false,
        ecn: EcnMode::Off,
        ect: true,
        window: 1_000_000,
        rtt: Some(ms(100)),
        handshake_lost: false,
        rate_window: None,
        syn_data: 0,
        syn_data_lost: 0,
    }
}

/// Position after the first `n` segments.
fn seg(n: u64) -> u64 {
    1 + n * 1000
}

impl Sender {
    fn next_timer(&self) -> Option<Time> {
        Some(self.deadline()).filter(|&at| at != Time::MAX)
    }
}

impl Rig {
    fn with(cfg: &Config, agreed: &Agreed) -> Rig {
        Rig::controlled(cfg, agreed, TinyReno::default())
    }

    fn controlled(cfg: &Config, agreed: &Agreed, cc: TinyReno) -> Rig {
        Rig::boxed(cfg, agreed, Box::new(cc))
    }

    /// Under a controller of the `cc` crate.
    fn controlled_by(name: &str, cfg: &Config) -> Rig {
        Rig::boxed(cfg, &agreed(), tcpassay_cc::build(name, &tcpassay_cc::Params::default()).unwrap())
    }

    /// The same without SACK.
    fn without_sack_by(name: &str, cfg: &Config) -> Rig {
        let cc = tcpassay_cc::build(name, &tcpassay_cc::Params::default()).unwrap();
        Rig::boxed(cfg, &Agreed { sack: false, ..agreed() }, cc)
    }

    fn boxed(cfg: &Config, agreed: &Agreed, cc: Box<dyn Controller>) -> Rig {
        let mut log = Log::default();
        log.set(true);
        let mut s = Sender::new(cfg.into(), cc);
        let now = Time::ZERO + ms(1000);
        s.established(now, agreed, &mut log);
        Rig { s, log, now, window: agreed.window }
    }

    fn new(cfg: &Config) -> Rig {
        Rig::with(cfg, &agreed())
    }

    fn no_sack(cfg: &Config) -> Rig {
        Rig::with(cfg, &Agreed { sack: false, ..agreed() })
    }

    fn advance(&mut self, by: Dur) {
        self.now += by;
    }

    /// All segments that may be sent now.
    fn drain(&mut self) -> Vec<Chunk> {
        std::iter::from_fn(|| self.s.poll(self.now, &mut self.log)).collect()
    }

    /// The numbers (from 0) of all segments that may be sent now.
    fn sent(&mut self) -> Vec<u64> {
        self.drain().iter().map(|c| (c.span.start - 1) / 1000).collect()
    }

    /// Writes `n` segments and sends those that may be sent.
    fn write(&mut self, n: u64) -> Vec<u64> {
        assert_eq!(self.s.write(self.now, n * 1000), n * 1000);
        self.sent()
    }

    fn ack_in(&self, ack: u64) -> AckIn {
        AckIn { ack, window: self.window, ts_now: self.ts_now(), ..AckIn::default() }
    }

    fn ts_now(&self) -> u32 {
        u32::try_from(self.now.as_nanos() / 1_000_000).unwrap().wrapping_add(77)
    }

    fn deliver(&mut self, ack: &AckIn) {
        self.s.on_ack(self.now, ack, &mut self.log);
    }

    /// The first `n` segments are acknowledged.
    fn ack(&mut self, n: u64) -> Vec<u64> {
        let ack = self.ack_in(seg(n));
        self.deliver(&ack);
        self.sent()
    }

    /// The same with SACK blocks, in segments.
    fn sack(&mut self, n: u64, blocks: &[Span]) -> Vec<u64> {
        let mut ack = self.ack_in(seg(n));
        ack.sacks = blocks.iter().map(|b| seg(b.start)..seg(b.end)).collect();
        self.deliver(&ack);
        self.sent()
    }

    /// Waits for the next timer and runs it.
    fn fire(&mut self) -> Result<Vec<u64>, GaveUp> {
        self.now = self.s.next_timer().expect("a timer runs");
        self.s.on_timer(self.now, &mut self.log)?;
        Ok(self.sent())
    }

    /// Time until the next timer.
    fn wait(&self) -> Dur {
        self.s.next_timer().expect("a timer runs").since(self.now)
    }

    fn cwnd(&self) -> u64 {
        self.s.gauges().cwnd.get()
    }

    /// The sender's statistics.
    fn info(&self) -> Info {
        let mut info = Info::empty();
        self.s.fill(self.now, &mut info);
        info
    }
}
