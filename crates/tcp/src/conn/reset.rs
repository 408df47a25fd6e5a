//! Resets and SYNs within a connection, and TIME-WAIT.
//!
//! Sources: RFC 9293 section 3.10.7, RFC 5961, RFC 6191; `tcp_validate_incoming`, `tcp_send_challenge_ack` and
//! `tcp_timewait_state_process` of Linux; `tcp_do_segment`, `syncache_chkrst` and `tcp_twcheck` of FreeBSD.

use super::{ConnError, Connection, Reset};
use crate::config::EcnMode;
use crate::log::State;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Ecn, Flags, Options, SackBlocks, Segment, Timestamps};

impl Connection {
    /// Whether `segment` begins a new connection: a SYN in TIME-WAIT above everything that this one received (RFC 9293
    /// section 3.6.1, RFC 6191), or one for a connection that is over. The host then hands it to its listening socket.
    pub fn yields_to(&self, segment: &Segment) -> bool {
        let flags = segment.flags;
        if !flags.has(Flags::SYN) || flags.any(Flags::ACK | Flags::RST) || self.drops_synfin(flags) {
            return false;
        }
        match self.state {
            State::Closed => true,
            State::TimeWait => {
                let later = segment.seq.distance(self.irs.at(self.recv.nxt())) > 0;
                let stamped = segment.options.timestamps.filter(|_| self.ts.is_on());
                let newer = stamped.map(|t| self.ts.newer_by(t.val));
                match newer {
                    Some(newer) if !self.rules.reuse_by_sequence_only => newer > 0 || (later && newer >= 0),
                    _ => later,
                }
            }
            _ => false,
        }
    }

    /// FreeBSD may ignore segments with SYN and FIN in LISTEN and in TIME-WAIT.
    pub(super) fn drops_synfin(&self, flags: Flags) -> bool {
        self.cfg.drop_synfin && flags.has(Flags::SYN) && flags.has(Flags::FIN)
    }

    /// Drops a connection request of a peer silently.
    pub fn forget_request(&mut self, now: Time) {
        if self.state == State::SynReceived && self.open.is_passive() && !self.streams {
            self.back_to_listen(now);
        }
    }

    /// Whether one more challenge ACK may be sent (RFC 5961 section 7; Linux `__tcp_oow_rate_limited`).
    pub(super) fn may_challenge(&mut self, now: Time) -> bool {
        let rule = self.cfg.invalid_ratelimit.map_or(self.rules.challenge_acks, |period| (1, period));
        self.challenge.allowed(now, rule)
    }

    /// A challenge ACK (RFC 5961), unless there were too many.
    pub(super) fn challenge(&mut self, now: Time) -> bool {
        let allowed = self.may_challenge(now);
        if !allowed {
            return false;
        }
        if self.synchronised() {
            self.challenge.set_due();
            self.recv.answer(0..0);
        } else {
            self.open.set_challenge(self.state == State::SynReceived);
        }
        true
    }

    /// A SYN in a synchronised state, or again while we wait for the ACK of ours.
    pub(super) fn input_syn(&mut self, now: Time, segment: &Segment, seq: u64, ecn: Ecn) {
        if self.state == State::SynReceived && (seq == 0 || self.rules.any_syn_is_retransmission) {
            if segment.flags.has(Flags::ACK) && self.acks_syn(segment) {
                // Simultaneous open: the peer's SYN-ACK acknowledges our SYN. Linux before 6.12 answers it with an ACK if our SYN had no
                // data; since 6.12 it sends only data that are waiting.
                let plain = segment.ack == self.iss.at(1);
                self.syn_acked(now, segment);
                if let Some(t) = segment.options.timestamps.filter(|_| self.ts.is_on()) {
                    // RFC 7323 section 4.3; `tcp_ack` with FLAG_UPDATE_TS_RECENT.
                    self.ts.note(now, self.rules.stamp_life, (seq, self.recv.last_ack_sent()), t.val);
                }
                if plain {
                    // Linux reports the sequence number of the SYN as a duplicate.
                    self.recv.answer(0..u64::from(self.rules.challenges_crossed_syn));
                }
            } else if !self.open.is_passive() && self.rules.challenges_crossed_syn {
                // After crossing SYNs Linux has a full socket instead of a request socket. It answers SYNs with challenge ACKs
                // (`tcp_validate_incoming`).
                self.refuse(now, "syn in connection");
                self.challenge(now);
            } else {
                self.streams = false;
                self.syn_again(now, segment.flags, ecn);
            }
            return;
        }
        let returns = self.rules.syn_returns_to_listen;
        if returns && self.state == State::SynReceived && self.open.is_passive() && self.in_reset_window(seq)
        {
            // RFC 9293 section 3.10.7.4, fourth.
            self.back_to_listen(now);
            return;
        }
        if self.cfg.weak_syns && self.in_reset_window(seq) {
            // RFC 793: an error of the peer.
            self.reset = Some(self.own_reset(now));
            self.end(now, Some(ConnError::Reset), "syn in window");
            return;
        }
        // RFC 5961 section 4.
        self.refuse(now, "syn in connection");
        if self.challenge(now) && self.ecn == EcnMode::Accurate {
            self.accurate_syn_again(segment, ecn);
        }
    }

    /// Whether a reset at `seq` is in the window: from the last ACK on (FreeBSD, Linux) or RCV.NXT, up to its right edge.
    fn in_reset_window(&self, seq: u64) -> bool {
        if self.rules.resets_count_from_last_ack {
            let from = self.recv.last_ack_sent().max(1);
            return seq >= from && seq - from < self.bsd_window();
        }
        if self.rules.accepts_from_last_ack {
            // Linux accepts every position that `tcp_sequence` accepts.
            return (self.recv.last_ack_sent().max(1)..=self.recv.limit()).contains(&seq);
        }
        (self.recv.nxt()..self.recv.edge()).contains(&seq)
    }

    /// RCV.WND of FreeBSD. While the connection is in the SYN cache, it is the window that the SYN-ACK offered; after crossing SYNs, it
    /// is the buffer in whole segments.
    fn bsd_window(&self) -> u64 {
        match (self.state == State::SynReceived && !self.streams, self.open.is_passive()) {
            (true, true) => u64::from(self.recv.first_window().0),
            (true, false) => self.recv.free().next_multiple_of(self.segment_size().get().max(1)),
            // A FIN occupies no space in the window.
            (false, _) => self.recv.free() + u64::from(self.recv.finished()),
        }
    }

    /// Whether `seq` is the position of a FIN that has arrived, at which a reset is accepted (`tcp_reset_check`).
    pub(super) fn resets_after_fin(&self, seq: u64) -> bool {
        self.cfg.reset_by_reports
            && matches!(self.state, State::CloseWait | State::LastAck | State::Closing)
            && seq + 1 == self.recv.nxt()
    }

    /// A reset (RFC 5961 section 3): one at RCV.NXT is accepted, with weak resets any one in the window. Other resets
    /// in the window are answered with a challenge ACK. Linux also accepts what ACKs have reported: the position of a FIN, and the end of
    /// the highest SACK block.
    pub(super) fn input_reset(&mut self, now: Time, seq: u64) {
        // A reset outside the window is not answered. Its timestamp is not used (RFC 7323 section 5.2).
        let from_last_ack = self.rules.resets_count_from_last_ack;
        let exact = seq == if from_last_ack { self.recv.last_ack_sent().max(1) } else { self.recv.nxt() };
        let reported = self.cfg.reset_by_reports && self.sack && self.recv.highest_report() == Some(seq);
        let weak = self.cfg.weak_resets && self.in_reset_window(seq);
        if !(exact || reported || weak || self.resets_after_fin(seq)) {
            self.refuse(now, "inexact reset");
            if self.in_reset_window(seq) {
                self.challenge(now);
            }
            return;
        }
        match self.state {
            State::SynReceived if self.open.is_passive() && !self.streams => self.back_to_listen(now),
            State::SynReceived if !self.streams => self.end(now, Some(ConnError::Refused), "refused by peer"),
            // Both sides are finished, and no data is lost. FreeBSD reports the reset nevertheless.
            State::Closing | State::LastAck if self.rules.reset_while_closing_is_error => {
                self.end(now, Some(ConnError::Reset), "reset by peer");
            }
            State::CloseWait if self.rules.reset_in_close_wait_breaks_pipe => {
                self.end(now, Some(ConnError::BrokenPipe), "reset by peer");
            }
            State::Closing | State::LastAck | State::TimeWait => self.end(now, None, "reset by peer"),
            _ => self.end(now, Some(ConnError::Reset), "reset by peer"),
        }
    }

    /// Returns to LISTEN after a reset or SYN in SYN-RECEIVED of a passive open.
    fn back_to_listen(&mut self, now: Time) {
        self.open.restart(&self.cfg);
        self.set_state(now, State::Listen);
    }

    /// TIME-WAIT of Linux (`tcp_timewait_state_process`), except for the SYN of a new connection. All segments except a bare ACK and a
    /// reset at the expected position are acknowledged, without SACK blocks. Segments without data are acknowledged at the rate of
    /// challenge ACKs.
    pub(super) fn input_linux_time_wait(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        let reset = flags.has(Flags::RST);
        let stamp = segment.options.timestamps.filter(|_| self.ts.is_on());
        let old = stamp.is_some_and(|t| self.ts.newer_by(t.val) < 0)
            && !(reset && self.ts.is_older_than(now, Dur::from_secs(60)));
        let bare = segment.seq_len() == 0;
        if !old && segment.seq == self.irs.at(self.recv.nxt()) && (bare || reset) {
            if reset {
                self.end(now, None, "reset by peer");
                return;
            }
            self.linger = now.saturating_add(self.cfg.time_wait);
            if let Some(t) = stamp {
                self.ts.set_recent(now, t.val);
            }
            return;
        }
        self.refuse(now, "time-wait");
        if reset {
            return;
        }
        if old || flags.has(Flags::ACK) {
            self.linger = now.saturating_add(self.cfg.time_wait);
        }
        let throttled = bare || flags.has(Flags::SYN);
        if !throttled || self.may_challenge(now) {
            self.recv.answer(0..0);
        }
    }

    /// TIME-WAIT of FreeBSD (`tcp_twcheck`). Resets and segments without ACK are dropped. Segments that occupy sequence space, or are not
    /// the expected duplicate, are acknowledged.
    pub(super) fn input_time_wait(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        if flags.has(Flags::RST) || !flags.has(Flags::ACK) || self.drops_synfin(flags) {
            self.refuse(now, "time-wait");
            return;
        }
        let nxt = self.irs.at(self.recv.nxt());
        if flags.has(Flags::FIN) && segment.end() == nxt {
            self.linger = now.saturating_add(self.cfg.time_wait);
        }
        let expected = segment.seq == nxt && segment.ack == self.iss.at(self.send.snd_nxt());
        // Marks are not answered: both ends in TIME-WAIT would answer each other endlessly.
        let bare = flags.without(Flags::ECE | Flags::CWR | Flags::AE) == Flags::ACK;
        if !bare || segment.len > 0 || !expected {
            self.recv.answer(0..0);
        }
    }

    /// Our reset of an open connection. It carries timestamps where they were agreed on (RFC 7323 section 5.2).
    pub(super) fn own_reset(&mut self, now: Time) -> Reset {
        let stamps = self.ts.option(now);
        // Linux sends it like every packet of the connection (`tcp_send_active_reset`).
        let window = if self.rules.reset_has_window_and_sack { self.recv.announce() } else { 0 };
        let ack = Some(self.irs.at(self.recv.nxt()));
        let mut options = Options::default();
        if self.rules.reset_has_window_and_sack && self.recv.has_blocks() {
            self.put_sacks(&mut options);
        }
        let echo =
            if self.rules.reset_has_window_and_sack { self.recv.echo_flags() } else { Flags::default() };
        Reset { seq: self.iss.at(self.acceptable_seq()), ack, window, stamps, sack: options.sack, echo }
    }

    /// The reset that answers `segment`, which has an ACK field.
    pub(super) fn reset_for(&self, segment: &Segment) -> Reset {
        let echo = |t: Timestamps| Timestamps { val: 0, ecr: t.val };
        let stamps = segment.options.timestamps.filter(|_| self.cfg.stamp_resets).map(echo);
        let (sack, echo) = (SackBlocks::default(), Flags::default());
        Reset { seq: segment.ack, ack: None, window: 0, stamps, sack, echo }
    }
}
