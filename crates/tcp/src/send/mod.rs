//! The sender: the outgoing stream from the application's bytes to acknowledged ones.
//!
//! Sans I/O. The connection tells it [`Sender::write`], [`Sender::on_ack`] and [`Sender::on_timer`]; it asks
//! [`Sender::poll`] what to put on the wire. It speaks of 64-bit stream positions (see `messages`) and must not know
//! headers, options or the receiver.
//!
//! | file | rule | source |
//! | --- | --- | --- |
//! | `board` | what is in flight, SACK, loss marks, pipe | RFC 2018, RFC 6675 |
//! | `delivery` | what an ACK delivered, rate samples, rounds | draft-cheng-iccrg-delivery-rate-estimation |
//! | `rtt` | smoothed RTT, RTO, minimum | RFC 6298 |
//! | `ack` | the order of work on an ACK | RFC 5681; `tcp_ack` of Linux |
//! | `detect` | duplicate threshold, early retransmit, reordering | RFC 5681, 6675, 5827 |
//! | `rack` | time-based loss detection | RFC 8985 |
//! | `recovery` | entering, moving through and leaving recovery | RFC 6582, 6675, 3168 |
//! | `prr` | the window on the way down | RFC 9937 |
//! | `undo` | false recoveries | RFC 3522, 4015, 3708; FreeBSD's RACK |
//! | `timeout` | RTO and F-RTO | RFC 6298, 5682 |
//! | `tlp` | the tail loss probe | RFC 8985 section 7 |
//! | `transmit`, `size` | what to send next, how much of it | RFC 9293 section 3.8.6, RFC 896, RFC 3042 |
//! | `path` | how large a segment may be | RFC 1191, RFC 4821 |
//! | `pace` | when to send it | `tcp_update_pacing_rate` of Linux |
//! | `limits` | what keeps it from sending more | `tcp_cwnd_validate` of Linux |
//! | `jam` | an interface that refuses everything | `tcp_send_probe0` of Linux |
//! | `timers` | which deadline is next; persist | RFC 9293 section 3.8.6.1 |
//! | `driver` | the controller and the order of its events | `tcpassay_cc` |
//!
//! # Known differences from the sources
//!
//! * A zero-window probe carries no data and an old position (`una - 1`), as Linux's, not a byte of new data.
//! * Everything is counted in bytes, where Linux counts segments, but PRR with the profiles of Linux; the FIN counts as one byte in flight.
//! * With [`Recovery::NewReno`] SACK blocks are ignored, as if SACK had not been negotiated; DSACK is not.
//! * A retransmission found lost during RTO recovery is sent again without a second reduction.

mod ack;
mod board;
mod buffer;
mod delivery;
mod detect;
mod driver;
mod info;
mod jam;
mod limits;
mod pace;
mod path;
mod prr;
mod rack;
mod recovery;
mod rtt;
mod size;
mod timeout;
mod timers;
mod tlp;
mod transmit;
mod undo;

#[cfg(test)]
mod tests;

use crate::config::{Config, EcnMode, Pacing, Recovery, StackFlavor};
use crate::log::{CongestionState, Log, LogEvent};
use crate::messages::{Agreed, Span};
use board::Board;
use buffer::{Buffer, Busy};
use delivery::Deliveries;
use detect::Reordering;
use driver::Driver;
use info::Counters;
use limits::Limits;
use pace::Pacer;
use path::Path;
use prr::Prr;
use rack::Rack;
use rtt::Rtt;
use std::sync::Arc;
use tcpassay_cc::{Controller, Event, View};
use tcpassay_units::{Bytes, Dur, Time};
use timeout::Frto;
use timers::Timers;
use tlp::Probe;
pub(crate) use transmit::Flow;
use undo::UndoState;

/// The sender half of a connection.
#[expect(clippy::struct_excessive_bools, reason = "what the handshake agreed on, and what is due")]
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    cfg: Arc<Config>,
    cc: Driver,
    board: Board,
    buf: Buffer,
    rtt: Rtt,
    deliveries: Deliveries,
    rack: Rack,
    reordering: Reordering,
    prr: Prr,
    undo: UndoState,
    probe: Probe,
    pacer: Pacer,
    path: Path,
    timers: Timers,
    limits: Limits,
    stats: Counters,
    /// The handshake is done.
    up: bool,
    /// The handshake is done, there is no TSO, and the controller does not hear of what is sent.
    plain: bool,
    mss: u64,
    mss32: u32,
    /// SACK in force for recovery.
    sack: bool,
    timestamps: bool,
    /// One segment after the other is timed, from this position on.
    times_one: bool,
    timed: u64,
    /// The mode of ECN that was agreed on.
    ecn: EcnMode,
    /// Data are ECN-capable.
    ect: bool,
    /// The peer's window from `una` on.
    wnd: u64,
    /// The largest it was.
    max_wnd: u64,
    state: CongestionState,
    /// Window of the data path: the controller's outside recovery, the recovery algorithm's in it.
    cwnd: u64,
    /// `RecoveryPoint`, `recover`, `high_seq`: the episode ends when this is acknowledged.
    recover: u64,
    /// The present reduction was told as `Congestion` and awaits its `RecoveryExit`.
    entered: bool,
    /// Retransmit the next lost (or first) record whatever the window: the first of an episode.
    force: bool,
    /// Duplicate ACKs in a row.
    dup_acks: u32,
    /// Bytes that duplicate ACKs stand for when there is no SACK.
    dup_bytes: u64,
    /// RFC 6675 rules 3 and 4.
    high_rxt: u64,
    rescue: Option<u64>,
    /// Bytes of the rescue retransmission of FreeBSD's recovery without PRR.
    rescued: u64,
    /// Bytes sent beyond cwnd by limited transmit in this disorder.
    limited_sent: u64,
    /// F-RTO is deciding.
    frto: Frto,
    /// Announce CWR on the next new data.
    cwr_due: bool,
    /// Position after the last segment smaller than the MSS (draft-minshall-nagle).
    small_end: u64,
    /// The present burst began with nothing outstanding.
    idle_burst: bool,
    /// Duplicate ACKs when the recovery began: those after them inflate the window.
    entry_dups: u32,
    /// Partial ACKs in this recovery.
    partial_acks: u32,
    /// End of what the application sent as urgent.
    urgent: u64,
    /// Last transmission of data.
    last_sent: Time,
    /// The interface refuses everything.
    jammed: bool,
    /// Every ACK goes the long way, for the comparison of both.
    #[cfg(test)]
    long_way: bool,
    busy: Busy,
    /// All is sent, and the writer waits for room.
    starved: Busy,
}

impl Sender {
    /// A sender before its handshake; it accepts writes.
    pub fn new(cfg: Arc<Config>, cc: Box<dyn Controller>) -> Sender {
        Sender {
            cc: Driver::new(cc),
            board: Board::new(1),
            buf: Buffer::new(&cfg),
            rtt: Rtt::new(cfg.rto),
            deliveries: Deliveries::default(),
            rack: Rack::default(),
            reordering: Reordering::new(cfg.loss_detection),
            prr: Prr::default(),
            undo: UndoState::default(),
            probe: Probe::default(),
            pacer: Pacer::default(),
            path: Path::new(cfg.mtu_probing),
            timers: Timers::new(cfg.user_timeout),
            limits: Limits::default(),
            stats: Counters::default(),
            up: false,
            plain: false,
            mss: cfg.mss.get(),
            mss32: 0,
            sack: false,
            timestamps: false,
            times_one: false,
            timed: 1,
            ecn: EcnMode::Off,
            ect: false,
            wnd: 0,
            max_wnd: 0,
            state: CongestionState::Open,
            cwnd: 0,
            recover: 0,
            entered: false,
            force: false,
            dup_acks: 0,
            dup_bytes: 0,
            high_rxt: 0,
            rescue: None,
            rescued: 0,
            limited_sent: 0,
            frto: Frto::Off,
            cwr_due: false,
            small_end: 0,
            idle_burst: false,
            entry_dups: 0,
            partial_acks: 0,
            urgent: 0,
            last_sent: Time::ZERO,
            jammed: false,
            #[cfg(test)]
            long_way: false,
            busy: Busy::default(),
            starved: Busy::default(),
            cfg,
        }
    }

    /// The handshake finished: the initial window is in force and data may leave.
    pub fn established(&mut self, now: Time, agreed: &Agreed, log: &mut Log) {
        self.plain = self.cfg.tso.is_none() && self.cfg.mtu_probing.is_none() && !self.cc.wants_sent_events;
        self.sack = agreed.sack && self.cfg.recovery != Recovery::NewReno;
        self.timestamps = agreed.timestamps;
        self.times_one = self.cfg.flavor == StackFlavor::FreeBsd && !agreed.timestamps && !self.racks();
        self.ecn = agreed.ecn;
        self.ect = agreed.ect && agreed.ecn != EcnMode::Off;
        self.wnd = agreed.window;
        self.max_wnd = agreed.window;
        self.start_path(agreed.mss.get(), agreed.options.get(), agreed.path.get(), agreed.clamp.get());
        self.last_sent = now;
        self.limits.start(now);
        match agreed.rtt {
            Some(rtt) => {
                self.rtt.sample(rtt, 1, 1);
                self.rtt.observe_min(now, rtt);
                self.rack.start(rtt);
                self.probe.measured = true;
            }
            None if agreed.handshake_lost => self.rtt.fall_back(),
            None => {}
        }
        self.up = true;
        // RFC 5681 section 3.1: one segment when the SYN or SYN-ACK was lost.
        if agreed.syn_data > 0 {
            self.skip_syn_data(now, agreed.syn_data);
        }
        let segments = if agreed.handshake_lost { 1 } else { self.cfg.initial_window.max(1) };
        self.cc.control.cwnd = self.bytes_mss() * u64::from(segments);
        self.tell(now, &Event::Established, "established", log);
        self.cwnd = self.cc.control.cwnd.get();
        self.buf.follow(self.cwnd);
        self.expand();
        self.update_pacing();
        if let Some(window) = agreed.rate_window.filter(|_| self.cc.control.pacing.is_none()) {
            self.pacer.begin(self.cfg.pacing, window, self.rtt.srtt);
        }
        if agreed.syn_data_lost > 0 {
            self.resend_syn_data(now, agreed.syn_data_lost, log);
        }
    }

    /// The rate after an ACK. Linux counts with the window of PRR, and with what is in flight where that is more.
    #[inline]
    pub(super) fn update_pacing(&mut self) {
        let mut control = self.cc.control;
        if self.cfg.pacing != Pacing::Off && self.cfg.flavor == StackFlavor::Linux {
            control.cwnd = Bytes::new(self.cwnd.max(self.board.outstanding()));
        }
        self.pacer.update(self.cfg.pacing, &control, self.rtt.srtt);
    }

    /// `n` bytes that went with the SYN were not taken: they are lost, which says nothing of the path (`tcp_rcv_fastopen_synack`,
    /// `tcp_non_congestion_loss_retransmit`).
    fn resend_syn_data(&mut self, now: Time, n: u64, log: &mut Log) {
        let small_end = self.small_end;
        let mut left = n.min(self.unsent());
        while left > 0 {
            let len = left.min(self.mss);
            let _ = self.emit_new(now, len, log);
            left -= len;
        }
        // Nagle's rule does not look at a SYN.
        self.small_end = small_end;
        self.lose_without_blame(now, |_| true, "SYN data", log);
    }

    /// What went with the SYN is sent and acknowledged.
    fn skip_syn_data(&mut self, now: Time, n: u64) {
        debug_assert!(n <= self.unsent(), "more was acknowledged than was written");
        self.board = Board::new(1 + n);
        self.small_end = 1 + n;
        self.deliveries.total += n;
        self.deliveries.packets += 1;
        self.stats.bytes_sent += n;
        self.last_sent = now;
        if self.unsent() == 0 {
            self.busy.stop(now);
        }
    }

    /// The handshake of a server that streamed already is done: what is in flight is timed anew.
    pub fn confirmed(&mut self, now: Time, rtt: Option<Dur>, log: &mut Log) {
        if let Some(rtt) = rtt.filter(|_| self.rtt.srtt.is_none()) {
            self.rtt.sample(rtt, 1, 1);
            self.rtt.observe_min(now, rtt);
            self.rack.start(rtt);
        }
        if self.board.outstanding() > 0 {
            self.timers.set_rto(now, self.rtt.rto(), log);
            self.probe.stale = true;
        }
    }

    fn bytes_mss(&self) -> Bytes {
        Bytes::new(self.mss)
    }

    /// What the controller may read.
    #[inline]
    fn view(&self, now: Time) -> View {
        View {
            now,
            mss: self.bytes_mss(),
            control: self.cc.control,
            flight: Bytes::new(self.pipe()),
            srtt: self.rtt.srtt,
            min_rtt: self.rtt.min,
            limited: if self.cfg.flavor == StackFlavor::FreeBsd {
                Limits::by_peer(self.cc.control, self.wnd)
            } else {
                self.limits.over_flight(self.cc.control)
            },
        }
    }

    #[inline]
    fn tell(&mut self, now: Time, event: &Event, why: &'static str, log: &mut Log) {
        let view = self.view(now);
        self.cc.tell(&view, event, why, log);
    }

    /// Bytes in flight: RFC 6675's pipe, or without SACK less one segment a duplicate ACK.
    #[inline]
    fn pipe(&self) -> u64 {
        self.board.pipe().saturating_sub(self.dup_bytes)
    }

    fn set_state(&mut self, now: Time, to: CongestionState, why: &'static str, log: &mut Log) {
        if self.state != to {
            log.put(now, || LogEvent::Congestion { from: self.state, to, why });
            self.state = to;
        }
    }

    /// The window changed by the data path's own rule.
    fn set_cwnd(&mut self, now: Time, cwnd: u64, why: &'static str, log: &mut Log) {
        if self.cwnd != cwnd {
            self.cwnd = cwnd;
            log.put(now, || LogEvent::Window {
                cwnd: Bytes::new(cwnd),
                ssthresh: self.cc.control.ssthresh,
                flight: Bytes::new(self.pipe()),
                why,
            });
        }
    }

    /// Whether an ACK shows anything delivered that was not known: otherwise one that was sent later may have come before it.
    pub fn is_news(&self, ack: u64, sacks: &[Span]) -> bool {
        ack > self.board.una || ack == self.board.una && sacks.iter().any(|s| !self.board.has_sacked(s))
    }

    /// Bytes, and packets, that an ACK newly shows to be delivered.
    pub fn newly(&self, ack: u64, sacks: &[Span]) -> (u64, u64) {
        self.board.newly(ack, sacks, self.mss)
    }

    /// Every segment is thought of on its own, because its options differ.
    pub fn never_plain(&mut self) {
        self.plain = false;
    }

    /// Data are not ECN-capable any more.
    pub fn stop_ect(&mut self) {
        self.ect = false;
    }

    /// ECE on an ACK tells of marks, and CWR answers it (RFC 3168): accurate ECN uses both bits for its counter.
    #[inline]
    fn hears_ece(&self) -> bool {
        matches!(self.ecn, EcnMode::Classic | EcnMode::Dctcp)
    }

    /// Neither a loss nor reordering is being dealt with.
    pub fn is_calm(&self) -> bool {
        matches!(self.state, CongestionState::Open | CongestionState::Cwr)
    }

    /// First position not cumulatively acknowledged.
    pub fn snd_una(&self) -> u64 {
        self.board.una
    }

    /// Next new position.
    pub fn snd_nxt(&self) -> u64 {
        self.board.nxt
    }

    /// Position after the highest that was sent; [`Sender::snd_nxt`] unless a byte went as a probe of a shut window.
    pub fn snd_max(&self) -> u64 {
        self.board.nxt + u64::from(self.timers.probed.is_some_and(|(at, _)| at == self.board.nxt))
    }

    /// Fast recovery is under way.
    pub fn in_recovery_state(&self) -> bool {
        self.state == CongestionState::Recovery
    }

    /// The FIN was sent and is not acknowledged.
    pub fn fin_out(&self) -> bool {
        self.buf.fin && self.board.nxt > self.buf.end && self.board.una <= self.buf.end
    }

    /// The FIN is acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.buf.fin && self.board.una > self.buf.end
    }

    /// The handshake was done.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Nothing is outstanding and nothing waits.
    pub fn idle(&self) -> bool {
        self.board.outstanding() == 0 && !self.has_new()
    }

    /// Smoothed round-trip time, once measured.
    pub fn srtt(&self) -> Option<Dur> {
        self.rtt.srtt
    }

    /// The retransmission timeout in force.
    pub fn rto(&self) -> Dur {
        self.rtt.rto()
    }
}
