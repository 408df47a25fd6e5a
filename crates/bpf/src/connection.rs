//! A connection and its controller: translates records of the kernel into events of `cc`, and the answers of the controller into
//! decisions for the kernel.
//!
//! The order of events is that of the interface `tcpassay_cc`, which differs from the kernel's order in three cases:
//!
//! * If an ACK ends a reduction and the next reduction begins with the same ACK, the controller gets the event `Congestion` after
//!   the event of the ACK.
//! * If the kernel begins a fast recovery in the state `Loss`, the controller first gets the end of the recovery from the timeout.
//! * If records were lost because the ring was full, the controller gets a missed reduction when a later record shows its state.
//!
//! The view of the controller contains its own last answer as the control in force, although the kernel applies it with the next ACK. Otherwise two
//! ACKs that are processed together would both increase the same window, and one increase would be lost.
//!
//! This module uses no clock and no kernel. The same records give the same decisions, so that a trace can be replayed.
//!
//! Differences from the model's sender: the bytes delivered, lost and marked are whole packets, as Linux counts them. The flight size of
//! a reduction is the window, as in Linux (and in the model with profile `linux`). The end of a recovery sets no bound on the
//! window (RFC 6937 as in Linux). One event `Sent` reports everything that was sent since the previous record.

use crate::record::{INFINITE, Record, RecordKind};
use tcpassay_cc::{Ack, Cause, Control, Controller, Event, Limited, RateSample, Transmissions, View};
use tcpassay_states::CongestionState;
use tcpassay_units::{Bytes, Dur, Time};

/// The window, threshold and pacing rate that the kernel applies to a connection until the next decision.
/// Windows are in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The number of the newest event that the decision takes into account.
    pub answers: u64,
    /// The window; during a reduction, the window at its end.
    pub cwnd: u32,
    /// The slow-start threshold; during a reduction, its target.
    pub ssthresh: u32,
    /// The pacing rate in bytes/s; `None` for the rate of the kernel.
    pub pacing: Option<u64>,
}

/// The windows to which the controller would reduce now, in packets. The kernel needs them at once when a reduction begins, before user
/// space can answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// The window after a loss.
    pub on_loss: u32,
    /// The window after a CE mark.
    pub on_mark: u32,
}

/// The state of recovery as the controller knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    Reduced,
    Collapsed,
}

/// A connection and its controller.
#[derive(Debug)]
pub struct ControlledConnection {
    controller: Box<dyn Controller>,
    control: Control,
    phase: Phase,
    /// A reduction that is reported after the next ACK.
    deferred: Option<Cause>,
    /// The last event was a `RecoveryExit`: no `Ack` has followed.
    exited: bool,
    start: u64,
    tick: Dur,
    sent: u64,
    next: u64,
    lost: u64,
    clamps: u64,
    last: Option<Record>,
}

impl ControlledConnection {
    /// A connection without records. `tick` is the tick of the kernel (1/HZ).
    pub fn new(controller: Box<dyn Controller>, tick: Dur) -> ControlledConnection {
        ControlledConnection {
            controller,
            control: Control { cwnd: Bytes::ZERO, ssthresh: Bytes::MAX, pacing: None },
            phase: Phase::Open,
            deferred: None,
            exited: false,
            start: 0,
            tick,
            sent: 0,
            next: 1,
            lost: 0,
            clamps: 0,
            last: None,
        }
    }

    /// The number of records that were lost because the ring was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of times that the controller requested a window below one segment.
    pub fn clamps(&self) -> u64 {
        self.clamps
    }

    /// Processes a record. Returns the new decision; `None` if the previous one stays in force.
    pub fn on(&mut self, record: &Record) -> Option<Decision> {
        if record.number > self.next {
            self.lost += record.number - self.next;
        }
        self.next = record.number + 1;
        if self.last.is_none() {
            self.start(record);
        }
        let last = self.last.replace(*record);
        // Records are of ACKs: the time between two of them stands for that between two transmissions.
        let idle = last
            .filter(|last| last.flight == 0)
            .map(|last| Dur::from_nanos(record.at.saturating_sub(last.at)));
        let wanted = match self.controller.wants_sent_events() {
            Transmissions::None => false,
            Transmissions::IntoEmptyPath => idle.is_some(),
            Transmissions::All => true,
        };
        if wanted && record.sent > self.sent {
            let bytes = Bytes::new(record.sent - self.sent);
            let app_limited = record.limited == Limited::App;
            self.notify(record, &Event::Sent { bytes, app_limited, idle });
        }
        self.sent = record.sent;
        match record.kind {
            RecordKind::Established => {}
            RecordKind::Ack { app_limited } => {
                self.report_missed(record);
                self.notify(record, &Event::Ack(ack(record, app_limited, self.start)));
                self.exited = false;
                self.report_deferred(record);
            }
            RecordKind::Congestion { marked } => {
                let cause = if marked { Cause::Ecn } else { Cause::Loss };
                if self.phase != Phase::Open {
                    self.leave(record, false);
                }
                if self.exited {
                    self.deferred = Some(cause);
                    return None;
                }
                self.enter(record, cause);
            }
            RecordKind::RecoveryExit { spurious } => {
                self.report_deferred(record);
                if spurious || self.phase != Phase::Open {
                    self.leave(record, spurious);
                }
            }
            RecordKind::Timeout { again } => self.timeout(record, again),
            RecordKind::Resume => {
                let restart = bytes(record.initial, record.mss).min(self.control.cwnd);
                let idle = self.tick.saturating_mul(u64::from(record.idle));
                let rto = self.tick.saturating_mul(u64::from(record.rto));
                self.notify(record, &Event::Resume { idle, rto, restart });
            }
            RecordKind::Closed => return None,
        }
        Some(self.decision(record))
    }

    /// The windows after a reduction that begins now, from copies of the controller.
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
        self.notify(record, &Event::Established);
    }

    /// Reports the begin or end of a reduction whose record was lost, by the state in the record of an ACK.
    fn report_missed(&mut self, record: &Record) {
        match (record.state, self.phase) {
            (CongestionState::Open | CongestionState::Disorder, Phase::Reduced | Phase::Collapsed) => {
                self.leave(record, false);
            }
            (CongestionState::Loss, Phase::Open | Phase::Reduced) => self.timeout(record, false),
            (CongestionState::Cwr | CongestionState::Recovery, Phase::Open) if self.deferred.is_none() => {
                let cause = if record.state == CongestionState::Cwr { Cause::Ecn } else { Cause::Loss };
                self.enter(record, cause);
            }
            _ => {}
        }
    }

    /// Reports the deferred reduction.
    fn report_deferred(&mut self, record: &Record) {
        if let Some(cause) = self.deferred.take() {
            self.enter(record, cause);
        }
    }

    fn enter(&mut self, record: &Record, cause: Cause) {
        self.phase = Phase::Reduced;
        self.notify(record, &Event::Congestion { cause, flight: self.control.cwnd });
    }

    fn leave(&mut self, record: &Record, spurious: bool) {
        self.phase = Phase::Open;
        self.exited = true;
        self.notify(record, &Event::RecoveryExit { spurious, exit: Bytes::MAX });
    }

    fn timeout(&mut self, record: &Record, again: bool) {
        self.deferred = None;
        self.exited = false;
        self.phase = Phase::Collapsed;
        self.notify(record, &Event::Timeout { flight: self.control.cwnd, again });
    }

    fn notify(&mut self, record: &Record, event: &Event) {
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
            limited: record.limited,
            next_send: Time::ZERO,
            open: matches!(self.phase, Phase::Open),
        }
    }

    fn decision(&self, record: &Record) -> Decision {
        let cwnd = packets(self.control.cwnd, record.mss);
        let ssthresh = match self.phase {
            Phase::Reduced => cwnd,
            Phase::Open | Phase::Collapsed => packets(self.control.ssthresh, record.mss),
        };
        // 0 would mean that the kernel chooses the rate.
        let pacing = self.control.pacing.map(|rate| (rate.bits_per_sec() / 8).max(1));
        Decision { answers: record.number, cwnd, ssthresh, pacing }
    }
}

/// `start` is the time of the first record of the connection.
fn ack(record: &Record, app_limited: bool, start: u64) -> Ack {
    let count = |packets| bytes(packets, record.mss);
    Ack {
        acked: Bytes::new(u64::from(record.acked)),
        delivered: count(record.delivered),
        lost: count(record.lost),
        marked: count(record.marked),
        rtt: record.rtt.map(|us| Dur::from_micros(u64::from(us))),
        sample: record.rate.filter(|(_, us)| *us > 0).map(|(packets, us)| {
            let interval = Dur::from_micros(u64::from(us));
            let rtt = record.rtt.unwrap_or(us);
            let now = Time::from_nanos(record.at.saturating_sub(start));
            RateSample {
                delivered: count(packets),
                interval,
                sent_at: now.saturating_sub(Dur::from_micros(u64::from(rtt))),
            }
        }),
        app_limited,
        round: u64::from(record.round),
        reordered: false,
    }
}

fn bytes(packets: u32, mss: u32) -> Bytes {
    Bytes::new(u64::from(packets) * u64::from(mss))
}

/// A window in whole packets: at least 1, at most the kernel's infinite value.
fn packets(bytes: Bytes, mss: u32) -> u32 {
    u32::try_from(bytes.get() / u64::from(mss.max(1))).map_or(INFINITE, |n| n.clamp(1, INFINITE))
}
