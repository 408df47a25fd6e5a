//! The handshake: offered options, negotiated options, and retransmission.
//!
//! Known differences: data on a SYN is not kept without Fast Open (it is not acknowledged and will be retransmitted); no SYN cookies.

use super::ecn_negotiation::{self, handshake_ace};
use super::opening::Offer;
use super::syn_timer::doubled_for;
use super::{ConnError, Connection};
use crate::config::{ControlEcn, EcnMode};
use crate::flavor::SynData;
use crate::log::{LogEvent, State, Timer, TimerChange};
use crate::messages::Agreed;
use crate::recv::Echo;
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Options, Segment, Timestamps};

impl Connection {
    /// LISTEN (RFC 9293 section 3.10.7.2).
    pub(super) fn input_listen(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        let flags = segment.flags;
        if flags.has(Flags::ACK) {
            if !(flags.has(Flags::SYN) && self.rules.listen_ignores_syn_ack) {
                self.reset = Some(self.reset_for(segment));
            }
            return;
        }
        let drops_fin = self.rules.listen_drops_syn_fin && flags.has(Flags::FIN);
        if !flags.has(Flags::SYN) || drops_fin || self.drops_synfin(flags) {
            return;
        }
        self.peer_syn(now, segment);
        if self.ts.is_on() && self.rules.server_window_without_options {
            self.recv.reserve_options(12);
        }
        self.answer_ecn(flags, ecn);
        self.open.set_passive();
        self.set_state(now, State::SynReceived);
        if self.fast_open_syn(now, segment, ecn) {
            // Once the SYN-ACK has left.
            self.streams = false;
        }
        self.open.begin(now);
    }

    /// The mode that a SYN leads to, and the flags of its answer. `ecn` is the SYN's field.
    fn answer_ecn(&mut self, syn: Flags, ecn: Ecn) {
        self.ecn = ecn_negotiation::accept(self.cfg.ecn, syn);
        self.start_linux_ecn(ecn);
        self.open.set_ecn_flags(ecn_negotiation::answer(self.ecn, ecn));
        self.mark_control();
    }

    /// Sets the ECN field of packets without new data, by the negotiated mode.
    pub(super) fn mark_control(&mut self) {
        let all = match self.ecn {
            EcnMode::Off => false,
            EcnMode::Classic => self.cfg.control_ecn == ControlEcn::All,
            EcnMode::Dctcp => true,
            EcnMode::Accurate => {
                let form = self.linux_ecn.is_some() || self.cfg.control_ecn == ControlEcn::All;
                form && !self.open.forbids_ect()
            }
        };
        self.control = if all { Ecn::Ect0 } else { Ecn::NotEct };
    }

    /// Whether our SYN, or the SYN-ACK that answers one, is ECN-capable: in Linux every packet of a DCTCP connection is.
    pub(super) fn syn_is_capable(&self, answer: bool) -> bool {
        let kind = self.cfg.control_ecn;
        if answer {
            self.ecn == EcnMode::Dctcp || self.ecn != EcnMode::Off && kind != ControlEcn::Off
        } else {
            let asks = self.open.ecn_flags() != Flags::NONE;
            asks && (self.cfg.ecn == EcnMode::Dctcp || kind == ControlEcn::All)
        }
    }

    /// The SYN arrived again, perhaps with other flags: the mode of ECN stays or ends, but does not change to another one (RFC 3168 section 6.1.1
    /// and 6.1.1.1, RFC 9768 section 3.1.5).
    pub(super) fn syn_again(&mut self, now: Time, syn: Flags, ecn: Ecn) {
        let offered = ecn_negotiation::accept(self.cfg.ecn, syn);
        match (self.ecn, offered) {
            (EcnMode::Accurate, EcnMode::Classic) | (EcnMode::Classic, EcnMode::Accurate)
                if !self.cfg.ecn_form.is_linux() =>
            {
                self.reset = Some(self.own_reset(now));
                self.end(now, Some(ConnError::Reset), "two kinds of ECN in one handshake");
                return;
            }
            (EcnMode::Accurate, _) => {
                self.open.set_ecn_flags(handshake_ace(ecn));
                self.open.forbid_ect(offered == EcnMode::Off);
                self.start_linux_ecn(ecn);
            }
            (EcnMode::Classic | EcnMode::Dctcp, EcnMode::Off) => {
                self.ecn = EcnMode::Off;
                self.open.set_ecn_flags(Flags::NONE);
            }
            (EcnMode::Off | EcnMode::Classic | EcnMode::Dctcp, _) => {}
        }
        self.open.repeat_syn();
    }

    /// Whether `segment` acknowledges our SYN, which crossed the peer's, and perhaps the data that it carried.
    pub(super) fn acks_syn(&self, segment: &Segment) -> bool {
        let carried = self.open.carried();
        segment.ack == self.iss.at(1) || segment.ack == self.iss.at(1 + carried)
    }

    /// SYN-SENT (RFC 9293 section 3.10.7.3).
    pub(super) fn input_syn_sent(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        let flags = segment.flags;
        let acked = flags.has(Flags::ACK);
        let carried = self.open.carried();
        let data = segment.ack.unwrap_near(self.iss, 1).and_then(|ack| ack.checked_sub(1));
        if acked && (data.is_none_or(|n| n > carried) || self.open.syn().sent() == 0) {
            self.refuse(now, "bad ack");
            if self.rules.bad_ack_repeats_syn
                && self.open.syn().timeouts() == 0
                && self.open.syn().is_running()
            {
                // The segment may belong to an earlier connection, so the SYN is retransmitted at once
                // (`TCP_TIMEOUT_MIN`).
                self.open.hasten_syn(now.saturating_add(self.cfg.timer_floor));
            }
            if !flags.has(Flags::RST) {
                self.reset = Some(self.reset_for(segment));
            }
            return;
        }
        if acked
            && !flags.has(Flags::RST)
            && self.rules.checks_echo_of_syn_ack
            && self.echoes_no_stamp(now, segment)
        {
            self.refuse(now, "bad timestamp");
            self.reset = Some(self.reset_for(segment));
            return;
        }
        if flags.has(Flags::RST) {
            if acked {
                self.end(now, Some(ConnError::Refused), "refused by peer");
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.peer_syn(now, segment);
        let offered = self.open.ecn_flags();
        if !acked {
            // Simultaneous open: both SYNs crossed. The answer repeats our SYN with an ACK.
            self.answer_ecn(if offered == Flags::NONE { Flags::NONE } else { flags }, ecn);
            self.set_state(now, State::SynReceived);
            self.open.send_syn();
            if self.rules.keeps_data_of_crossing_syn {
                self.open.set_early(segment.len);
            }
            return;
        }
        let reserved_is_none = self.rules.reserved_ace_is_no_ecn;
        self.ecn = ecn_negotiation::grant(self.cfg.ecn, offered != Flags::NONE, flags, reserved_is_none);
        if self.ecn == EcnMode::Accurate {
            self.open.set_handshake_ace(handshake_ace(ecn));
            self.start_linux_ecn(Ecn::NotEct);
            self.accurate_syn_ack(segment, ecn);
        }
        let data = data.unwrap_or(0);
        self.fast_open_answered(data);
        self.established(now, segment, ecn, data);
        self.syn_ack_data(now, segment, ecn);
        // The third segment of the handshake, unless data that the peer did not accept are retransmitted at once.
        if self.open.holds_ack() {
            self.recv.hold_ack(now);
        } else {
            self.recv.answer(0..0);
        }
    }

    /// Whether a segment of the handshake echoes a timestamp that none of our SYNs had. Linux refuses such a SYN-ACK
    /// (`tcp_rcv_synsent_state_process`).
    pub(super) fn echoes_no_stamp(&self, now: Time, segment: &Segment) -> bool {
        let Some(t) = segment.options.timestamps.filter(|t| self.cfg.timestamps && t.ecr != 0) else {
            return false;
        };
        let (first, last) = (self.ts.clock(self.open.syn().first_at()), self.ts.clock(now));
        t.ecr.wrapping_sub(first) > last.wrapping_sub(first)
    }

    /// Data and FIN of a SYN-ACK.
    fn syn_ack_data(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        let takes = match self.rules.syn_data {
            SynData::AsOthers => true,
            SynData::FastOpenOnly => self
                .fast_open_answer()
                .is_some_and(|a| a.acked == a.sent && (a.sent > 0 || a.option.is_some())),
        };
        let fin = segment.flags.has(Flags::FIN);
        if takes && segment.len > 0 && !fin && self.rules.syn_data == SynData::FastOpenOnly {
            self.recv.data_of_syn(u64::from(segment.len), u64::from(segment.header_len()));
        } else if takes && (segment.len > 0 || fin) {
            let measures = !self.rules.rtt_of_first_full_segment;
            self.input_data(now, segment, 1..1 + u64::from(segment.len), ecn, measures);
        }
    }

    /// SYN-RECEIVED: `segment` passed the acceptability tests and its ACK covers our SYN, or it is the peer's SYN-ACK
    /// of a simultaneous open.
    pub(super) fn syn_acked(&mut self, now: Time, segment: &Segment) {
        if self.ecn == EcnMode::Accurate {
            self.accurate_third_ack(segment);
        }
        if self.is_fast_open_child() {
            let rtt = self.handshake_rtt(now, segment);
            self.open.stop();
            self.touched = true;
            self.set_state(now, State::Established);
            self.send.confirmed(now, rtt, &mut self.log);
        } else {
            if self.open.is_passive() && self.rules.largest_window_of_third_ack {
                self.open.set_third_window(segment.window);
            }
            let carried = self.open.carried();
            let data =
                segment.ack.unwrap_near(self.iss, 1).map_or(0, |ack| ack.saturating_sub(1).min(carried));
            self.established(now, segment, Ecn::NotEct, data);
            let len = self.open.take_early();
            if len > 0 {
                let early = Segment { len, flags: Flags::ACK, ..*segment };
                let measures = !self.rules.rtt_of_first_full_segment;
                self.input_data(now, &early, 1..1 + u64::from(len), Ecn::NotEct, measures);
            }
        }
    }

    /// Stores the options that the peer's SYN offers.
    fn peer_syn(&mut self, now: Time, segment: &Segment) {
        self.irs = segment.seq;
        let o = &segment.options;
        self.open.set_peer(Offer {
            mss: o.mss.unwrap_or(536).max(64),
            shift: o.window_scale,
            sack: o.sack_permitted,
            timestamps: o.timestamps,
            window: segment.window,
        });
        self.ts.start(now, self.cfg.timestamps, o.timestamps);
    }

    /// The round trip of our SYN, which `segment` acknowledges. If the SYN was repeated, Linux measures by timestamp, at least one tick
    /// (`tcp_ack_update_rtt`).
    fn handshake_rtt(&self, now: Time, segment: &Segment) -> Option<Dur> {
        let by_stamp = || {
            let stamps =
                segment.options.timestamps.filter(|_| self.rules.measures_repeated_syn && self.ts.is_on())?;
            let ticks = self.ts.clock(now).wrapping_sub(stamps.ecr);
            (ticks < 1 << 31).then(|| Dur::from_millis(u64::from(ticks.max(1))))
        };
        self.open.syn().rtt(now, |at| self.send.clock(at)).or_else(by_stamp)
    }

    /// `segment` acknowledges our SYN, and `syn_data` bytes of ours with it; both SYNs are acknowledged.
    fn established(&mut self, now: Time, segment: &Segment, ecn_of_syn_ack: Ecn, syn_data: u64) {
        let rtt = self.handshake_rtt(now, segment);
        self.open.stop();
        let handshake = Timer::Handshake;
        self.log.put(now, || LogEvent::Timer { timer: handshake, change: TimerChange::Cancelled });
        self.set_state(now, State::Established);
        self.agree(now, ecn_of_syn_ack, rtt, syn_data);
        if self.open.take_finish() {
            self.send.finish();
            self.set_state(now, State::FinWait1);
        }
    }

    /// Passes the result of the handshake to sender and receiver, which may then transfer data.
    pub(super) fn agree(&mut self, now: Time, ecn_of_syn_ack: Ecn, rtt: Option<Dur>, syn_data: u64) {
        let peer = self.open.peer().expect("established without a SYN of the peer");
        let scaled = self.cfg.window_scale && peer.shift.is_some();
        // RFC 7323 section 2.3: a shift above 14 is read as 14.
        let peer_shift = if scaled { peer.shift.unwrap_or(0).min(14) } else { 0 };
        let our_shift = if scaled { self.recv.first_window().1 } else { 0 };
        self.sack = self.cfg.sack && peer.sack;
        let options = u64::from(self.option_bytes());
        let ours = self.cfg.mss.get();
        let path = self.cfg.path_mss.map_or(ours, Bytes::get);
        let clamp = u64::from(peer.mss);
        let mss = path.min(clamp) - options;
        // In FreeBSD a CE mark on the peer's SYN counts, too (`tcp_ecn_syncache_socket`).
        let of_syn = self.rules.counts_ce_of_syn && self.open.ecn_flags() == handshake_ace(Ecn::Ce);
        let marked = u64::from(ecn_of_syn_ack == Ecn::Ce && self.open.mark_counts() || of_syn);
        let echo = match self.ecn {
            EcnMode::Off => Echo::Off,
            EcnMode::Classic => Echo::Classic { ece: false },
            EcnMode::Dctcp => Echo::Dctcp { ce: false },
            EcnMode::Accurate if self.linux_ecn.is_some() => Connection::linux_echo(marked),
            EcnMode::Accurate => Echo::accurate(marked),
        };
        self.mark_control();
        self.recv.agreed(our_shift, ours - options, self.cfg.dsack && self.sack, echo);
        if !self.sack {
            self.recv.compress_nothing();
        }
        if let Some(memory) = self.cfg.recv_memory {
            self.recv.count_memory(now, memory, ours - options, scaled, self.sack);
        }
        if self.cfg.bsd_window {
            self.recv.announce_all(ours.min(u64::from(peer.mss)));
        }
        self.window.start(peer_shift, peer.window);
        if let Some(field) = self.open.third_window() {
            self.window.start_again(field);
        }
        let lost = self.open.syn().is_repeated();
        let carried = self.open.fast().filter(|fast| fast.ask.is_some()).map_or(0, |fast| fast.carried);
        // A client computes its first pacing rate when it processes the SYN-ACK (`tcp_ack` from `tcp_rcv_synsent_state_process`). Its
        // window is then still that of a new socket, 10 segments. According to a packet trace of Linux 6.1, the size of these segments is
        // the MSS less the options.
        let client = self.rules.client_paces_from_syn_ack && !self.open.is_passive();
        let rate_window = client.then(|| Bytes::new(10 * mss));
        let agreed = Agreed {
            rate_window,
            mss: Bytes::new(mss),
            options: Bytes::new(options),
            path: Bytes::new(path),
            clamp: Bytes::new(clamp),
            sack: self.sack,
            timestamps: self.ts.is_on(),
            ecn: self.ecn,
            ect: !self.open.forbids_ect(),
            window: self.window.size(),
            rtt,
            syn_data,
            syn_data_lost: if self.rules.refused_syn_data_is_lost { carried - syn_data } else { 0 },
            handshake_lost: lost,
        };
        self.touched = true;
        self.streams = true;
        self.send.established(now, &agreed, &mut self.log);
        if self.ecn == EcnMode::Accurate && self.cfg.ecn_option {
            self.send.disable_fast_path();
            self.reserve_option();
        }
    }

    /// The SYN or SYN-ACK that is due.
    pub(super) fn make_syn(&mut self, now: Time) -> (Segment, Ecn) {
        self.open.on_syn_sent(now);
        let at = self.start_syn_timer(now);
        self.log.put(now, || LogEvent::Timer { timer: Timer::Handshake, change: TimerChange::Set(at) });
        // A connection that is closed early repeats its SYN-ACK in FIN-WAIT-1.
        let answer = self.state != State::SynSent;
        let peer = self.open.peer();
        // An option is answered only where it was offered; but Linux repeats its own SYN when SYNs have crossed.
        let repeats = !self.open.is_passive() && self.rules.repeats_own_syn_options;
        let offered = |by_peer: fn(&Offer) -> bool| !answer || repeats || peer.as_ref().is_some_and(by_peer);
        let (window, shift) = self.recv.first_window();
        let stamps = Timestamps { val: self.ts.clock(now), ecr: if answer { self.ts.recent() } else { 0 } };
        let len = self.fast_open_of_syn(answer);
        let rich = !(self.cfg.plain_syns && self.open.syn().sent() > 3);
        let mut options = Options {
            mss: Some(u16::try_from(self.cfg.mss.get()).expect("an MSS fits 16 bits")),
            window_scale: (rich && self.cfg.window_scale && offered(|p| p.shift.is_some())).then_some(shift),
            sack_permitted: rich && self.cfg.sack && offered(|p| p.sack),
            timestamps: (rich && self.cfg.timestamps && offered(|p| p.timestamps.is_some()))
                .then_some(stamps),
            ..Options::default()
        };
        // RFC 3168 section 6.1.1.1: a middlebox may drop SYNs that offer ECN. Accurate ECN is offered a second time (RFC 9768
        // section 3.1.4.1).
        let asked = self.cfg.ecn_syns.max(if self.cfg.ecn == EcnMode::Accurate { 2 } else { 1 });
        if self.open.syn().is_repeated() && self.open.syn().sent() > asked && !answer {
            self.open.set_ecn_flags(Flags::NONE);
        }
        let mut ecn_flags = self.open.ecn_flags();
        if answer && self.ecn == EcnMode::Accurate {
            // RFC 9768 section 3.2.3.2: only the first SYN-ACK has the option. After two timeouts the SYN-ACK has no ECN flags either.
            if self.open.syn().sent() == 1 && self.cfg.ecn_option {
                self.put_first_accecn(&mut options);
            }
            if self.open.syn().timeouts() >= 2 {
                ecn_flags = Flags::NONE;
                self.open.forbid_ect(true);
            }
        }
        let flags = Flags::SYN | if answer { Flags::ACK } else { Flags::NONE } | ecn_flags;
        let ack = if answer { self.irs.at(self.recv.nxt()) } else { SeqNum::new(0) };
        let len = u32::try_from(len).expect("the payload of a SYN is below an MSS");
        let segment = Segment { seq: self.iss, ack, flags, window, urgent: 0, len, options };
        (segment, if self.syn_is_capable(answer) { Ecn::Ect0 } else { Ecn::NotEct })
    }

    /// The handshake's timer is due.
    pub(super) fn on_handshake_timer(&mut self, now: Time) {
        self.log.put(now, || LogEvent::Timer { timer: Timer::Handshake, change: TimerChange::Fired });
        self.open.on_syn_timer();
        let limit = if self.open.is_passive() { None } else { self.cfg.connect_timeout };
        let spent = now.since(self.open.syn().first_at());
        let over = |limit: Option<Dur>| limit.is_some_and(|t| spent >= t);
        // A Fast Open server of Linux has one retry more (`tcp_fastopen_synack_timer`).
        let most = match (self.open.is_passive(), self.is_fast_open_child()) {
            (true, child) => self.cfg.synack_retries + u32::from(child),
            (false, _) => self.cfg.syn_retries + self.cfg.syn_linear,
        };
        // `retransmits_timed_out` of Linux: the time that doubling timeouts would take, independently of the actual ones.
        let bound = (!self.open.is_passive()
            && self.rules.bounds_syn_timeouts_by_time
            && self.cfg.user_timeout.is_none())
        .then(|| doubled_for(self.cfg.rto.initial, self.cfg.syn_retries, self.cfg.rto.max))
        .filter(|_| self.open.syn().sent() > 1);
        if self.open.syn().sent() > most || over(self.cfg.user_timeout) || over(limit) || over(bound) {
            self.end(now, Some(ConnError::TimedOut), "handshake");
            return;
        }
        let linear = if self.open.is_passive() { self.cfg.synack_linear } else { self.cfg.syn_linear };
        self.open.back_off_syn(linear, self.cfg.rto.max);
        self.streams = false;
        self.open.repeat_syn();
    }

    /// The timer of the SYN or SYN-ACK that leaves now starts. Returns when it fires.
    fn start_syn_timer(&mut self, now: Time) -> Time {
        let first = self.open.syn().sent() == 1;
        // FreeBSD's slop is in every timeout but the first, and not in the SYN cache's.
        let slop = if self.open.is_passive() || first { Dur::ZERO } else { self.cfg.rto.slop };
        // Linux clamps every timeout but the first.
        let clamps = self.rules.clamps_syn_timer && !first;
        let limit = self.cfg.connect_timeout.or(self.cfg.user_timeout.filter(|_| clamps));
        self.open.start_syn_timer(now, slop, self.cfg.rto.max, limit.filter(|_| !self.open.is_passive()))
    }
}
