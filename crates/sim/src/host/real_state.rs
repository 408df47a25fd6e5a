//! The state that a real stack shows of its connections, as rows of the event log.
//!
//! Rows of a change stand in front of the segments that the stack sent with it, as in the log of the model: an ACK, the window that it
//! opened, what was sent into it. When these segments are known, the state is compared with all that this host sent and received.

use std::collections::BTreeMap;
use tcpassay_measure::reason::{StateChange, TcpState, Timer};
use tcpassay_measure::{Collector, EventKind, EventRow, FlowId, Reason, SegmentLog, SentBy};
use tcpassay_stack::{Drained, Shown, ShownTimer, SocketId as StackSocket};
use tcpassay_units::{Bytes, SeqNum, Time};

/// What a stack shows of the connection of a socket.
#[derive(Debug)]
struct ShownEnd {
    /// The entry of the connection, and the flow that this end sends.
    place: usize,
    out: FlowId,
    state: Shown,
    /// Its connection has ended, as its status says.
    closed: bool,
    /// The fields that contradicted segments. Each is reported once.
    wrong: Vec<&'static str>,
}

impl ShownEnd {
    fn new(place: usize, out: FlowId) -> ShownEnd {
        ShownEnd { place, out, state: Shown::default(), closed: false, wrong: Vec::new() }
    }

    /// The rows of a change to `state`. `timer`: the timer of the host fired at this instant, and nothing arrived.
    fn rows(&mut self, now: Time, host: u32, state: Shown, timer: bool, mut log: impl FnMut(EventRow)) {
        let before = std::mem::replace(&mut self.state, state);
        let row = |kind| EventRow::new(now, host, Some(self.out.0), kind);
        let of_rto = |kind| EventRow { why: Reason::Borrowed(Timer::Rto.name()), ..row(kind) };
        if before.timer != state.timer {
            let due = matches!(before.timer, Some(ShownTimer::Until(at)) if at <= now);
            let ran = matches!(before.timer, Some(ShownTimer::Until(_) | ShownTimer::Runs));
            if timer && due && before.snd_una == state.snd_una {
                log(of_rto(EventKind::TimerFire));
            }
            match state.timer {
                Some(ShownTimer::Until(at)) => {
                    log(EventRow { value: Some(at.as_nanos()), ..of_rto(EventKind::TimerSet) });
                }
                Some(ShownTimer::Runs) => log(of_rto(EventKind::TimerSet)),
                Some(ShownTimer::Replaced) => {
                    log(EventRow { why: Reason::Borrowed("another"), ..row(EventKind::TimerSet) });
                }
                Some(ShownTimer::Stopped) => log(of_rto(EventKind::TimerCancel)),
                None if ran => log(of_rto(EventKind::TimerCancel)),
                None => {}
            }
        }
        let window = |shown: &Shown| (shown.cwnd, shown.ssthresh, shown.srtt, shown.rto);
        if window(&before) != window(&state) {
            let bytes = |size: Option<u32>| size.map(|size| Bytes::new(size.into()));
            let flight = state.snd_una.zip(state.snd_nxt).map(|(una, nxt)| nxt.wrapping_sub(una));
            log(EventRow {
                cwnd: bytes(state.cwnd),
                ssthresh: bytes(state.ssthresh),
                flight: bytes(flight),
                srtt: state.srtt,
                rto: state.rto,
                why: Reason::Borrowed("shown"),
                ..row(EventKind::Window)
            });
        }
    }
}

/// What a host knows of an end of a connection from its segments.
pub(super) struct Known<'a> {
    pub log: &'a SegmentLog,
    /// The flow that this end sends.
    pub out: FlowId,
    /// Positions up to which the peer has acknowledged what this end sent, and this end what its peer sent.
    pub acked: u64,
    pub acked_out: u64,
}

/// The states that the stack of a host shows.
#[derive(Debug, Default)]
pub(super) struct ShownStates {
    ends: BTreeMap<StackSocket, ShownEnd>,
    /// The sockets whose state has changed since it was compared with segments.
    unchecked: Vec<StackSocket>,
    /// The sockets whose connection has ended since the last row.
    closing: Vec<StackSocket>,
}

impl ShownStates {
    /// A socket has the connection of an entry, and sends the flow `out`.
    pub fn attach(&mut self, socket: StackSocket, place: usize, out: FlowId) {
        self.ends.insert(socket, ShownEnd::new(place, out));
    }

    /// The status of a socket says that its connection has ended, also if the application does not use it any more.
    pub fn closed(&mut self, socket: StackSocket) {
        if let Some(end) = self.ends.get_mut(&socket).filter(|end| !end.closed) {
            end.closed = true;
            self.closing.push(socket);
        }
    }

    /// Logs the connections that have ended, behind the segments that the stack sent with it.
    pub fn log_closed(&mut self, collector: &mut Collector, (now, host): (Time, u32)) {
        for socket in self.closing.drain(..) {
            let Some(end) = self.ends.get(&socket) else { continue };
            let moved = StateChange::Moved { from: None, to: Some(TcpState::Closed) };
            let row = EventRow::new(now, host, Some(end.out.0), EventKind::State);
            collector.event(EventRow { why: moved.to_string().into(), ..row });
        }
    }

    /// Logs what the stack of host `host` shows. The state of a connection that is about to be accepted stays until then. `timer`: the timer of
    /// the host fired at this instant, and nothing arrived.
    pub fn show(
        &mut self,
        drained: &mut Drained,
        collector: &mut Collector,
        (now, host): (Time, u32),
        timer: bool,
    ) {
        for (socket, state) in std::mem::take(&mut drained.shown) {
            let Some(end) = self.ends.get_mut(&socket) else {
                if drained.accepted.iter().any(|accepted| accepted.0 == socket) {
                    drained.shown.push((socket, state));
                }
                continue;
            };
            // A connection that is CLOSED has no state.
            if end.closed {
                continue;
            }
            end.rows(now, host, state, timer, |row| collector.event(row));
            self.unchecked.push(socket);
        }
    }

    /// Compares the states that were shown since the last call with the segments of the host. `known`: what it knows of an entry.
    pub fn check<'a>(
        &mut self,
        collector: &mut Collector,
        (now, host): (Time, u32),
        known: impl Fn(usize) -> Option<Known<'a>>,
    ) {
        for socket in std::mem::take(&mut self.unchecked) {
            let Some(end) = self.ends.get_mut(&socket) else { continue };
            // Another connection may have taken the entry.
            let Some(flow) = known(end.place).filter(|flow| flow.out == end.out) else { continue };
            let position = |by, seq: Option<u32>| flow.log.position(by, SeqNum::new(seq?));
            let una = position(SentBy::Own, end.state.snd_una);
            let nxt = position(SentBy::Own, end.state.snd_nxt);
            let expected = position(SentBy::Peer, end.state.rcv_nxt);
            let window = end.state.snd_wnd.map(u64::from);
            let (sent, arrived) = (flow.log.after(SentBy::Own), flow.log.after(SentBy::Peer));
            let above = |shown: Option<u64>, most: u64| shown.filter(|shown| *shown > most).zip(Some(most));
            let below =
                |shown: Option<u64>, least: u64| shown.filter(|shown| *shown < least).zip(Some(least));
            let wrong = [
                ("shown SND.UNA", above(una, flow.acked.max(1))),
                ("shown SND.UNA", above(una, nxt.unwrap_or(u64::MAX))),
                ("shown SND.NXT", above(nxt, sent)),
                ("shown RCV.NXT", above(expected, arrived)),
                ("shown RCV.NXT", below(expected, flow.acked_out)),
                ("shown SND.WND", above(window, flow.log.widest(SentBy::Peer))),
            ];
            for (what, shown) in wrong {
                let Some((shown, bound)) = shown.filter(|_| !end.wrong.contains(&what)) else { continue };
                end.wrong.push(what);
                let row = EventRow::new(now, host, Some(end.out.0), EventKind::Damaged);
                collector.event(EventRow {
                    why: Reason::Borrowed(what),
                    seq: Some(shown),
                    len: Some(0),
                    value: Some(bound),
                    ..row
                });
            }
        }
    }
}
