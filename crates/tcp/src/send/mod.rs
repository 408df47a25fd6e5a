//! The sender: the outgoing stream from the application's bytes to acknowledged ones.
//!
//! Sans I/O. The connection calls [`Sender::write`], [`Sender::on_ack`] and [`Sender::on_timer`], and calls
//! [`Sender::poll`] for the next segment. All positions are 64-bit stream positions (see `messages`). The
//! sender does not depend on headers, options or the receiver.
//!
//! [`Sender`] holds components and the state of congestion control. Each component has private state, takes
//! its inputs as arguments and returns a decision; no component depends on the sender. These files contain
//! the order of processing:
//!
//! | file | what |
//! | --- | --- |
//! | `mod` | the handshake's result; values that other modules read |
//! | `ack` | an ACK: scoreboard, round-trip time, delivery rate, loss detection, controller, window, timers |
//! | `congestion` | the congestion states: how a recovery begins, continues and ends |
//! | `detect` | the detection of losses by the rule in force |
//! | `in_flight` | what is in flight, in the unit of the window |
//! | `on_timer` | timers that fire, and those that an ACK sets |
//! | `poll` | selection of the next segment |
//! | `path` | changes of the segment size |
//! | `application` | writes and socket options |
//! | `info` | counters and present values |
//! | `observed` | what a real stack sent, whose packets are followed |
//!
//! The components:
//!
//! | file | rule | source |
//! | --- | --- | --- |
//! | `scoreboard` | outstanding data, SACK, loss marks, pipe | RFC 2018, RFC 6675 |
//! | `delivery` | what an ACK delivered, rate samples, rounds | draft-cheng-iccrg-delivery-rate-estimation |
//! | `rtt` | smoothed RTT, RTO, minimum | RFC 6298 |
//! | `pacing` | when the next segment may leave | `tcp_update_pacing_rate` of Linux |
//! | `pmtud` | how large a segment may be | RFC 1191, RFC 4821 |
//! | `cwnd_validation` | what limits the sender | `tcp_cwnd_validate` of Linux |
//! | `limits` | the time of each limit | - |
//! | `peer_window` | the window that the peer offers | RFC 9293 section 3.8.6 |
//! | `persist` | probes of a closed window | RFC 9293 section 3.8.6.1 |
//! | `local_drop` | an interface that drops all packets | `tcp_send_probe0` of Linux |
//! | `timers` | the other deadlines | RFC 6298 |
//! | `driver` | the controller and the order of its events | `tcpassay_cc` |
//! | `loss/dupthresh` | duplicate threshold, early retransmit, reordering | RFC 5681, 6675, 5827 |
//! | `loss/rack`, `loss/tlp` | time-based loss detection, tail loss probe | RFC 8985 |
//! | `loss/rto` | F-RTO | RFC 5682 |
//! | `loss/undo` | spurious recoveries | RFC 3522, 4015, 3708; FreeBSD's RACK |
//! | `recovery/newreno`, `recovery/sack`, `recovery/prr`, `recovery/freebsd` | how much a recovery sends | RFC 6582, 6675, 9937; FreeBSD |
//! | `output` | send buffer, Nagle, segment and super-segment sizes | RFC 9293 section 3.8.6, RFC 896; Linux |
//!
//! # Known differences from the sources
//!
//! * A zero-window probe carries no data and an old position (`una - 1`), as Linux's, not a byte of new data.
//! * Everything is counted in bytes. Linux counts segments; with its flavor PRR does, too. The FIN counts as one byte in
//!   flight.
//! * With [`Recovery::NewReno`] SACK blocks are ignored, as if SACK had not been negotiated; DSACK is not.
//! * A retransmission found lost during RTO recovery is sent again without a second reduction.

mod ack;
mod application;
mod congestion;
mod cwnd_validation;
mod delivery;
mod detect;
mod driver;
mod emit;
mod in_flight;
mod info;
mod limits;
mod local_drop;
mod loss;
mod loss_probe;
mod observed;
mod on_timer;
mod output;
mod pacing;
mod path;
mod peer_window;
mod persist;
mod pmtud;
mod poll;
mod recovery;
mod ring;
mod rtt;
mod scoreboard;
mod timers;

#[cfg(test)]
mod tests;

use crate::config::{Config, EcnMode, LossDetection, Recovery};
use crate::flavor::SendRules;
use crate::log::{CongestionCause, CongestionState, Log, LogEvent, LossRule, WindowCause};
use crate::messages::{Agreed, Span};
use cwnd_validation::{CwndValidation, limit_by_peer_window};
use delivery::{Deliveries, micros};
use driver::Driver;
use limits::Limits;
use local_drop::LocalDrop;
use loss::dupthresh::{DupThresh, DuplicateAcks};
use loss::rack::Rack;
use loss::rto::Frto;
use loss::tlp::LossProbe;
use loss::undo::UndoState;
use output::nagle::Nagle;
use output::send_buffer::{Progress, SendBuffer};
use pacing::{Basis, Pacer};
use peer_window::PeerWindow;
use persist::Persist;
use pmtud::Pmtud;
use recovery::freebsd::PartialAckWindow;
use recovery::newreno::NewReno;
use recovery::prr::Prr;
use recovery::sack::NextSeg;
use rtt::{Rtt, SegmentTimer};
use scoreboard::Scoreboard;
use std::sync::Arc;
use tcpassay_cc::{Controller, Event, Transmissions, View};
use tcpassay_units::{Bytes, Dur, Time};
use timers::Timers;

/// The next action of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// Send whole new segments, for which the congestion window has this room: [`Sender::emit_whole`].
    Whole(u64),
    /// Send no data, because the congestion window is full: [`Sender::rest_full`].
    Full,
    /// Ask [`Sender::poll`].
    Other,
}

/// Event counts since the connection began.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    bytes_sent: u64,
    bytes_retransmitted: u64,
    retransmissions: u64,
    timeouts: u64,
    recoveries: u64,
    ecn_reductions: u64,
    undos: u64,
    spurious: u64,
    /// Segments that were reported as duplicates, whatever caused them (`dsack_dups`).
    reported: u64,
    tlp_probes: u64,
    ece_acks_in: u64,
    dup_acks_in: u64,
}

/// The sender half of a connection.
#[expect(clippy::struct_excessive_bools, reason = "what the handshake agreed on, and what is due")]
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    cfg: Arc<Config>,
    rules: &'static SendRules,
    cc: Driver,
    scoreboard: Scoreboard,
    buffer: SendBuffer,
    /// Capacity of the buffers of the present write: it is computed once, and again after waiting for room (`tcp_sendmsg_locked`).
    call_goal: Option<u64>,
    rtt: Rtt,
    segment_timer: SegmentTimer,
    deliveries: Deliveries,
    dup_thresh: DupThresh,
    duplicates: DuplicateAcks,
    rack: Rack,
    frto: Frto,
    /// F-RTO waits for an ACK, but the queue of the own host lets lost segments through (`tcp_tsq_write`).
    repairs_beside_frto: bool,
    undo: UndoState,
    probe: LossProbe,
    newreno: NewReno,
    next_seg: NextSeg,
    prr: Prr,
    partial_ack_window: PartialAckWindow,
    pacer: Pacer,
    pmtud: Pmtud,
    timers: Timers,
    persist: Persist,
    local_drop: LocalDrop,
    cwnd_validation: CwndValidation,
    limits: Limits,
    nagle: Nagle,
    window: PeerWindow,
    stats: Counters,
    /// The handshake is done.
    up: bool,
    /// The handshake is done, there is no TSO, and the controller gets no events of transmissions, so that
    /// [`Sender::flow`] may use the fast path.
    simple: bool,
    mss: u64,
    mss32: u32,
    /// SACK is in use for recovery.
    sack: bool,
    /// RACK detects losses: it needs SACK (RFC 8985 section 3).
    uses_rack: bool,
    timestamps: bool,
    /// The mode of ECN that was agreed on.
    ecn: EcnMode,
    /// Data are ECN-capable.
    ect: bool,
    state: CongestionState,
    /// Window of the data path: the controller's outside recovery, the recovery algorithm's in it.
    cwnd: u64,
    /// `RecoveryPoint`, `recover`, `high_seq`: the episode ends when this is acknowledged.
    recover: u64,
    /// The present reduction was passed to the controller as `Congestion` and awaits its `RecoveryExit`.
    reducing: bool,
    /// Retransmit the next lost (or first) record even if the window does not allow it: the first retransmission of an episode.
    force_retransmit: bool,
    /// The last ACK ended at SACKed data: nothing is retransmitted before the next ACK or timeout.
    reneging: bool,
    /// Bytes sent beyond cwnd by limited transmit in the present Disorder state.
    limited_sent: u64,
    /// Announce CWR on the next new data.
    cwr_due: bool,
    /// Bytes by which the segments of the present poll are shorter, for an option that the others do not have.
    narrowed: u64,
    /// Position after the last segment that is not a full one; while it is outstanding, packets are counted.
    short_end: u64,
    /// Last transmission of data.
    last_sent: Time,
    /// The window was restarted after the idle time that the next transmission ends.
    restarted: bool,
    /// Last transmission of a segment without data.
    control_sent: Time,
    /// Every ACK takes the slow path, for the comparison of slow and fast path.
    #[cfg(test)]
    long_way: bool,
}

impl Sender {
    /// A sender before its handshake; it accepts writes.
    pub fn new(cfg: Arc<Config>, cc: Box<dyn Controller>) -> Sender {
        let rules = &cfg.flavor.rules().send;
        let dsack = matches!(cfg.loss_detection, LossDetection::Rack { dsack_adaptation: true });
        Sender {
            rules,
            cc: Driver::new(cc),
            scoreboard: Scoreboard::new(1, rules.first_mark_keeps_retransmission),
            buffer: SendBuffer::new(&cfg),
            call_goal: None,
            rtt: Rtt::new(cfg.rto, cfg.timer_ticks, rules.clock_in_micros),
            segment_timer: SegmentTimer::new(false, 1),
            deliveries: Deliveries::default(),
            dup_thresh: DupThresh::new(cfg.loss_detection),
            duplicates: DuplicateAcks::default(),
            rack: Rack::new(dsack, rules.rack_window),
            frto: Frto::Off,
            repairs_beside_frto: false,
            undo: UndoState::new(cfg.undo),
            probe: LossProbe::new(
                cfg.tlp,
                rules.probe_shares_timer,
                rules.probe_without_sample,
                cfg.timer_floor,
            ),
            newreno: NewReno::default(),
            next_seg: NextSeg::default(),
            prr: Prr::default(),
            partial_ack_window: PartialAckWindow::default(),
            pacer: Pacer::new(rules.pacing_credit),
            pmtud: Pmtud::new(cfg.mtu_probing),
            timers: Timers::new(cfg.user_timeout, cfg.timer_ticks),
            persist: Persist::default(),
            local_drop: LocalDrop::default(),
            cwnd_validation: CwndValidation::default(),
            limits: Limits::default(),
            nagle: Nagle::default(),
            window: PeerWindow::default(),
            stats: Counters::default(),
            up: false,
            simple: false,
            mss: cfg.mss.get(),
            mss32: 0,
            sack: false,
            uses_rack: false,
            timestamps: false,
            ecn: EcnMode::Off,
            ect: false,
            state: CongestionState::Open,
            cwnd: 0,
            recover: 0,
            reducing: false,
            force_retransmit: false,
            reneging: false,
            limited_sent: 0,
            cwr_due: false,
            narrowed: 0,
            short_end: 0,
            last_sent: Time::ZERO,
            restarted: false,
            control_sent: Time::ZERO,
            #[cfg(test)]
            long_way: false,
            cfg,
        }
    }

    /// The handshake finished: the initial window is in force and data may leave.
    pub fn established(&mut self, now: Time, agreed: &Agreed, log: &mut Log) {
        self.simple = self.cfg.tso.is_none()
            && !self.pmtud.probes()
            && self.cc.wants_sent_events() != Transmissions::All;
        self.sack = agreed.sack && self.cfg.recovery != Recovery::NewReno;
        self.uses_rack = self.sack && matches!(self.cfg.loss_detection, LossDetection::Rack { .. });
        self.timestamps = agreed.timestamps;
        let times_one = self.rules.times_one_segment && !agreed.timestamps && !self.uses_rack;
        self.segment_timer = SegmentTimer::new(times_one, 1);
        self.ecn = agreed.ecn;
        self.ect = agreed.ect && agreed.ecn != EcnMode::Off;
        self.window = PeerWindow::new(agreed.window);
        self.start_path(agreed);
        self.last_sent = now;
        self.cwnd_validation.start(now);
        self.limits.start(now);
        match agreed.rtt {
            Some(rtt) => {
                self.first_sample(now, rtt);
                self.probe.on_sample();
            }
            None if agreed.handshake_lost => self.rtt.fall_back(),
            None => {}
        }
        self.up = true;
        if agreed.syn_data > 0 {
            self.skip_syn_data(now, agreed.syn_data);
        }
        // RFC 5681 section 3.1: one segment if the SYN or SYN-ACK was lost.
        let segments = if agreed.handshake_lost { 1 } else { self.cfg.initial_window.max(1) };
        self.cc.set_control(self.bytes_mss() * u64::from(segments), self.cc.control().ssthresh);
        self.on_event(now, &Event::Established, WindowCause::Established, log);
        self.cwnd = self.target();
        self.buffer.follow_window(self.cwnd);
        self.expand_buffer();
        self.update_pacing();
        if let Some(window) = agreed.rate_window.filter(|_| self.cc.control().pacing.is_none()) {
            self.pacer.begin(self.cfg.pacing, window, self.rtt.srtt());
        }
        if agreed.syn_data_lost > 0 {
            self.resend_syn_data(now, agreed.syn_data_lost, log);
        }
    }

    /// The time on the clock with which round trips and delivery rates are measured.
    #[inline]
    pub fn clock(&self, now: Time) -> Time {
        if self.rules.clock_in_micros { micros(now) } else { now }
    }

    /// The round-trip time of the handshake.
    fn first_sample(&mut self, now: Time, rtt: Dur) {
        let rtt = if self.rules.clock_in_micros { Dur::from_micros(rtt.as_micros()) } else { rtt };
        self.rtt.sample(rtt, 1, 1);
        self.rtt.observe_min(now, rtt);
        self.rack.start(rtt);
    }

    /// The rate after an ACK. Linux computes it from the window of PRR, or from what is in flight if that is more.
    #[inline]
    fn update_pacing(&mut self) {
        let mut control = self.cc.control();
        let mut window = control.cwnd;
        if self.rules.paces_by_flight {
            control.cwnd = Bytes::new(self.cwnd);
            window = Bytes::new(self.cwnd.max(self.scoreboard.outstanding()));
        }
        let unit = Bytes::new(if self.rules.counts_packets { self.unit() } else { 1 });
        self.pacer.update(self.cfg.pacing, Basis { window, control, unit, srtt: self.rtt.srtt() });
    }

    /// The peer did not accept `n` bytes of the SYN: they are lost, which does not indicate congestion (`tcp_rcv_fastopen_synack`,
    /// `tcp_non_congestion_loss_retransmit`).
    fn resend_syn_data(&mut self, now: Time, n: u64, log: &mut Log) {
        let nagle = self.nagle;
        let mut left = n.min(self.unsent());
        while left > 0 {
            let len = left.min(self.mss);
            let _ = self.emit_new(now, len, log);
            left -= len;
        }
        // Nagle's algorithm does not count the data of a SYN.
        self.nagle.on_small_segment(nagle.small_end());
        self.lose_without_reduction(now, |_| true, (LossRule::SynData, CongestionCause::SynData), log);
    }

    /// `n` bytes of data that the SYN carried are sent and acknowledged.
    fn skip_syn_data(&mut self, now: Time, n: u64) {
        debug_assert!(n <= self.unsent(), "more data acknowledged than written");
        self.scoreboard = Scoreboard::new(1 + n, self.rules.first_mark_keeps_retransmission);
        self.nagle.on_small_segment(1 + n);
        self.deliveries.add_syn_data(n);
        self.stats.bytes_sent += n;
        self.last_sent = now;
        self.buffer.on_all_acked(now, self.scoreboard.nxt());
    }

    /// The handshake of a server that has already sent data (Fast Open) is done: round-trip times of the data in flight are measured from this time.
    pub fn confirmed(&mut self, now: Time, rtt: Option<Dur>, log: &mut Log) {
        if let Some(rtt) = rtt.filter(|_| self.rtt.srtt().is_none()) {
            self.first_sample(now, rtt);
        }
        if self.scoreboard.outstanding() > 0 {
            self.timers.set_rto(now, self.rtt.rto(), log);
            self.probe.mark_stale();
        }
    }

    fn bytes_mss(&self) -> Bytes {
        Bytes::new(self.mss)
    }

    /// The view that the controller receives.
    #[inline]
    fn view(&self, now: Time) -> View {
        let control = self.cc.control();
        View {
            now,
            mss: self.bytes_mss(),
            control,
            flight: Bytes::new(self.pipe()),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            limited: if self.rules.grows_when_unused {
                limit_by_peer_window(control, self.window.size())
            } else {
                self.cwnd_validation.limit_of_flight(control)
            },
            next_send: self.pacer.next(),
            open: self.state == CongestionState::Open,
        }
    }

    /// Passes an event to the controller.
    #[inline]
    fn on_event(&mut self, now: Time, event: &Event, why: WindowCause, log: &mut Log) {
        let view = self.view(now);
        self.cc.on_event(&view, event, why, log);
    }

    /// Bytes in flight: RFC 6675's pipe; without SACK less one segment for each duplicate ACK.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn pipe(&self) -> u64 {
        self.scoreboard.pipe().saturating_sub(self.duplicates.bytes())
    }

    /// A segment without data was sent.
    #[inline]
    pub fn on_control_sent(&mut self, now: Time) {
        self.control_sent = now;
        self.pacer.control_sent(now);
    }

    /// [`Pacer::stamp_time`](pacing::Pacer::stamp_time).
    #[inline]
    pub fn stamp_time(&self, now: Time) -> Time {
        self.pacer.stamp_time(now)
    }

    fn set_state(&mut self, now: Time, to: CongestionState, why: CongestionCause, log: &mut Log) {
        if self.state != to {
            log.put(now, || LogEvent::Congestion { from: self.state, to, why });
            self.state = to;
        }
    }

    /// The window changed by the data path's own rule. At the begin of a recovery the controller's window was logged before.
    fn set_cwnd(&mut self, now: Time, cwnd: u64, why: WindowCause, log: &mut Log) {
        let logged = why == WindowCause::Enter && self.cc.control().cwnd.get() != cwnd;
        if self.cwnd != cwnd || logged {
            self.cwnd = cwnd;
            log.put(now, || LogEvent::Window {
                cwnd: Bytes::new(cwnd),
                ssthresh: self.cc.control().ssthresh,
                flight: Bytes::new(self.pipe()),
                why,
            });
        }
    }

    /// Whether an ACK reports data as delivered that no ACK had reported before. If not, it may be older than an ACK that
    /// was processed before.
    pub fn is_news(&self, ack: u64, sacks: &[Span]) -> bool {
        let una = self.scoreboard.una();
        ack > una || ack == una && sacks.iter().any(|s| !self.scoreboard.has_sacked(s))
    }

    /// Bytes, and packets, that an ACK reports as delivered for the first time.
    pub fn newly(&self, ack: u64, sacks: &[Span]) -> (u64, u64) {
        self.scoreboard.newly(ack, sacks, self.mss)
    }

    /// Disables the fast path of sending, because the options of segments differ.
    pub fn disable_fast_path(&mut self) {
        self.simple = false;
    }

    /// Disables ECT on further data.
    pub fn stop_ect(&mut self) {
        self.ect = false;
    }

    /// Whether ECE on an ACK reports marks and CWR answers it (RFC 3168). Accurate ECN uses both bits for its counter.
    #[inline]
    fn reads_ece(&self) -> bool {
        matches!(self.ecn, EcnMode::Classic | EcnMode::Dctcp)
    }

    /// Whether the congestion state is Open: no loss and no reordering is being processed.
    pub fn is_calm(&self) -> bool {
        matches!(self.state, CongestionState::Open | CongestionState::Cwr)
    }

    /// First position not cumulatively acknowledged.
    #[inline]
    pub fn snd_una(&self) -> u64 {
        self.scoreboard.una()
    }

    /// Next new position.
    #[inline]
    pub fn snd_nxt(&self) -> u64 {
        self.scoreboard.nxt()
    }

    /// Position after the highest that was sent; [`Sender::snd_nxt`] unless a byte was sent as a probe of a
    /// closed window.
    pub fn snd_max(&self) -> u64 {
        let nxt = self.scoreboard.nxt();
        nxt + u64::from(self.persist.has_probed(nxt))
    }

    /// Fast recovery is in progress.
    pub fn in_recovery_state(&self) -> bool {
        self.state == CongestionState::Recovery
    }

    /// The FIN was sent and is not acknowledged.
    pub fn fin_out(&self) -> bool {
        let fin = self.buffer.end();
        self.buffer.has_fin() && self.scoreboard.nxt() > fin && self.scoreboard.una() <= fin
    }

    /// The FIN is acknowledged.
    #[inline]
    pub fn fin_acked(&self) -> bool {
        self.buffer.has_fin() && self.scoreboard.una() > self.buffer.end()
    }

    /// The handshake is done.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Whether no data are outstanding or unsent.
    pub fn idle(&self) -> bool {
        self.scoreboard.outstanding() == 0 && !self.has_new()
    }

    /// Smoothed round-trip time, once measured.
    pub fn srtt(&self) -> Option<Dur> {
        self.rtt.srtt()
    }

    /// The retransmission timeout in force.
    #[inline]
    pub fn rto(&self) -> Dur {
        self.rtt.rto()
    }

    /// Bytes written and never sent.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.buffer.unsent(self.scoreboard.nxt())
    }

    /// Whether new bytes or the FIN wait to be sent.
    #[inline]
    fn has_new(&self) -> bool {
        self.buffer.has_new(self.scoreboard.nxt())
    }

    /// Bytes that the peer's window still allows.
    fn peer_room(&self) -> u64 {
        self.window.room(self.scoreboard.una(), self.scoreboard.nxt())
    }

    #[inline]
    fn progress(&self) -> Progress {
        let board = &self.scoreboard;
        Progress { una: board.una(), nxt: board.nxt(), records: board.buffers() }
    }
}
