//! One connection as its controller sees it: records of the kernel in, events of `cc` to the controller, what the kernel is to do out.
//!
//! The order of the interface (`tcpassay_cc`) is kept where the kernel's differs:
//!
//! * A reduction that begins with the ACK that ended the one before is told after that ACK.
//! * A fast recovery that the kernel begins straight out of the state `Loss` first ends the timeout's.
//! * After a gap (the ring was full) a reduction that was missed is told when its state is seen.
//!
//! The control in force, for the controller, is the one that it answered last, although the kernel has it only with the next ACK: otherwise
//! two ACKs told together would each grow the same window, and one growth would be lost.
//!
//! Pure: no clock and no kernel. The same records give the same decisions, which is what makes a trace checkable.
//!
//! Differences from the model's sender: bytes delivered, lost and marked are whole packets, as Linux counts them; the flight of a
//! reduction is the window, as Linux has it (the model with profile `linux` too); the exit rule sets no bound (RFC 6937 as in
//! Linux); `Sent` is told for what was sent since the record before, in one.

use crate::record::{INFINITE, Kind, Limit, Record, State};
use tcpassay_cc::{Ack, Cause, Control, Controller, Event, Limited, View};
use tcpassay_units::{Bytes, Dur, Rate, Time};

/// What the kernel is to do with a connection until told otherwise. Windows in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The newest event that it knows of.
    pub answers: u64,
    /// Window; while a reduction is under way, the one that it shall end with.
    pub cwnd: u32,
    /// Slow-start threshold; while a reduction is under way, its target.
    pub ssthresh: u32,
    /// Pacing rate in bytes/s, or the kernel's own.
    pub pacing: Option<u64>,
}

/// What the controller would reduce to, were it told now: the kernel asks sooner than it can be answered. In packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// For a loss.
    pub on_loss: u32,
    /// For a mark.
    pub on_mark: u32,
}

/// Where recovery stands, for the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    Reduced,
    Collapsed,
}

/// A connection and its controller.
#[derive(Debug)]
pub struct Connection {
    controller: Box<dyn Controller>,
    control: Control,
    phase: Phase,
    /// An `Congestion` (by a mark or not) that has to wait for the ACK.
    held: Option<Cause>,
    /// `RecoveryExit` was told, and no `Ack` since.
    left: bool,
    start: u64,
    tick: Dur,
    sent: u64,
    next: u64,
    lost: u64,
    clamps: u64,
    last: Option<Record>,
}

impl Connection {
    /// A connection of which nothing is known yet. `tick` is the kernel's (1/HZ).
    pub fn new(controller: Box<dyn Controller>, tick: Dur) -> Connection {
        Connection {
            controller,
            control: Control { cwnd: Bytes::ZERO, ssthresh: Bytes::MAX, pacing: None },
            phase: Phase::Open,
            held: None,
            left: false,
            start: 0,
            tick,
            sent: 0,
            next: 1,
            lost: 0,
            clamps: 0,
            last: None,
        }
    }

    /// Events that the ring had no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Windows below one segment that the controller asked for.
    pub fn clamps(&self) -> u64 {
        self.clamps
    }

    /// Takes the record in; what the kernel is to do now, or `None` while there is nothing new to say.
    pub fn on(&mut self, record: &Record) -> Option<Decision> {
        if record.number > self.next {
            self.lost += record.number - self.next;
        }
        self.next = record.number + 1;
        if self.last.is_none() {
            self.start(record);
        }
        self.last = Some(*record);
        if self.controller.wants_sent_events() && record.sent > self.sent {
            let bytes = Bytes::new(record.sent - self.sent);
            self.tell(record, &Event::Sent { bytes });
        }
        self.sent = record.sent;
        match record.kind {
            Kind::Established => {}
            Kind::Ack { app_limited } => {
                self.catch_up(record);
                self.tell(record, &Event::Ack(ack(record, app_limited)));
                self.left = false;
                self.release(record);
            }
            Kind::Congestion { marked } => {
                let cause = if marked { Cause::Ecn } else { Cause::Loss };
                if self.phase != Phase::Open {
                    self.leave(record, false);
                }
                if self.left {
                    self.held = Some(cause);
                    return None;
                }
                self.enter(record, cause);
            }
            Kind::RecoveryExit { spurious } => {
                self.release(record);
                if spurious || self.phase != Phase::Open {
                    self.leave(record, spurious);
                }
            }
            Kind::Timeout { again } => self.timeout(record, again),
            Kind::Resume => {
                let restart = bytes(record.initial, record.mss).min(self.control.cwnd);
                let idle = self.tick.saturating_mul(u64::from(record.idle));
                let rto = self.tick.saturating_mul(u64::from(record.rto));
                self.tell(record, &Event::Resume { idle, rto, restart });
            }
            Kind::Closed => return None,
        }
        Some(self.decision(record))
    }

    /// What a reduction would come to now; asks copies of the controller.
    pub fn reserve(&self) -> Reserve {
        let Some(record) = &self.last else { return Reserve { on_loss: 2, on_mark: 2 } };
        let ask = |cause| {
            let event = Event::Congestion { cause, flight: self.control.cwnd };
            packets(self.controller.clone().on(&self.view(record), &event).cwnd, record.mss)
        };
        Reserve { on_loss: ask(Cause::Loss), on_mark: ask(Cause::Ecn) }
    }

    fn start(&mut self, record: &Record) {
        self.start = record.at;
        self.sent = record.sent;
        let ssthresh =
            if record.ssthresh >= INFINITE { Bytes::MAX } else { bytes(record.ssthresh, record.mss) };
        self.control = Control { cwnd: bytes(record.cwnd, record.mss), ssthresh, pacing: None };
        self.tell(record, &Event::Established);
    }

    /// Beginnings and ends that were lost with their records show in the state of the next ACK.
    fn catch_up(&mut self, record: &Record) {
        match (record.state, self.phase) {
            (State::Open | State::Disorder, Phase::Reduced | Phase::Collapsed) => self.leave(record, false),
            (State::Loss, Phase::Open | Phase::Reduced) => self.timeout(record, false),
            (State::Cwr | State::Recovery, Phase::Open) if self.held.is_none() => {
                let cause = if record.state == State::Cwr { Cause::Ecn } else { Cause::Loss };
                self.enter(record, cause);
            }
            _ => {}
        }
    }

    /// What had to wait for the ACK.
    fn release(&mut self, record: &Record) {
        if let Some(cause) = self.held.take() {
            self.enter(record, cause);
        }
    }

    fn enter(&mut self, record: &Record, cause: Cause) {
        self.phase = Phase::Reduced;
        self.tell(record, &Event::Congestion { cause, flight: self.control.cwnd });
    }

    fn leave(&mut self, record: &Record, spurious: bool) {
        self.phase = Phase::Open;
        self.left = true;
        self.tell(record, &Event::RecoveryExit { spurious, exit: Bytes::MAX });
    }

    fn timeout(&mut self, record: &Record, again: bool) {
        self.held = None;
        self.left = false;
        self.phase = Phase::Collapsed;
        self.tell(record, &Event::Timeout { flight: self.control.cwnd, again });
    }

    fn tell(&mut self, record: &Record, event: &Event) {
        let asked = self.controller.on(&self.view(record), event);
        let least = Bytes::new(u64::from(record.mss));
        self.clamps += u64::from(asked.cwnd < least);
        self.control = Control { cwnd: asked.cwnd.max(least), ..asked };
    }

    fn view(&self, record: &Record) -> View {
        let micros = |us: u32| Dur::from_micros(u64::from(us));
        View {
            now: Time::from_nanos(record.at.saturating_sub(self.start)),
            mss: Bytes::new(u64::from(record.mss)),
            control: self.control,
            flight: bytes(record.flight, record.mss),
            srtt: (record.srtt > 0).then(|| micros(record.srtt)),
            min_rtt: record.min_rtt.map(micros),
            limited: match record.limited {
                Limit::Cwnd => Limited::Cwnd,
                Limit::App => Limited::App,
                Limit::Rwnd => Limited::Rwnd,
            },
        }
    }

    fn decision(&self, record: &Record) -> Decision {
        let cwnd = packets(self.control.cwnd, record.mss);
        let ssthresh = match self.phase {
            Phase::Reduced => cwnd,
            Phase::Open | Phase::Collapsed => packets(self.control.ssthresh, record.mss),
        };
        // A rate of nothing would be no rate asked for.
        let pacing = self.control.pacing.map(|rate| (rate.bits_per_sec() / 8).max(1));
        Decision { answers: record.number, cwnd, ssthresh, pacing }
    }
}

fn ack(record: &Record, app_limited: bool) -> Ack {
    let count = |packets| bytes(packets, record.mss);
    Ack {
        acked: Bytes::new(u64::from(record.acked)),
        delivered: count(record.delivered),
        lost: count(record.lost),
        marked: count(record.marked),
        rtt: record.rtt.map(|us| Dur::from_micros(u64::from(us))),
        delivery_rate: record
            .rate
            .map(|(packets, us)| Rate::from_bytes_per(count(packets), Dur::from_micros(u64::from(us)))),
        app_limited,
        round: u64::from(record.round),
        reordered: false,
    }
}

fn bytes(packets: u32, mss: u32) -> Bytes {
    Bytes::new(u64::from(packets) * u64::from(mss))
}

/// Whole packets, at least one; what is beyond the kernel's infinity is infinite.
fn packets(bytes: Bytes, mss: u32) -> u32 {
    u32::try_from(bytes.get() / u64::from(mss.max(1))).map_or(INFINITE, |n| n.clamp(1, INFINITE))
}
