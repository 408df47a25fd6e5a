//! Arriving segments.
//!
//! Order of the tests as in RFC 9293 section 3.10.7.4, with the timestamps of RFC 7323 before them and the
//! answers of RFC 5961. Segments that match header prediction are processed by a fast path, as in Linux
//! (`tcp_rcv_established`), where the choice of fast or slow path influences how a segment is acknowledged.
//!
//! Known differences: a segment with data is processed if it ends at or after the last ACK that we sent (as in Linux), so
//! that its ACK field is processed although its data are old. In Linux that holds for segments without data, too.

use super::accecn_counters::Newly;
use super::challenge::Challenge;
use super::send_window::{UpdateRule, WindowField};
use super::{ConnError, Connection, Reset};
use crate::config::EcnMode;
use crate::flavor::TimeWaitRules;
use crate::log::{LogEvent, State};
use crate::messages::{AckIn, Span};
use crate::recv::Arrival;
use arrayvec::ArrayVec;
use tcpassay_units::{Dur, Time, count};
use tcpassay_wire::{Ecn, Flags, Segment, Timestamps};

impl Connection {
    /// A segment arrived from the network, with the ECN field of its IP header.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        count(&mut self.stats.segments_in, 1);
        self.clock = now;
        self.cached_clock = now;
        self.last_in = now;
        self.probes = 0;
        if self.log.is_on() {
            self.log_in(now, segment, ecn);
        }
        if self.state == State::Established && self.predicted(now, segment, ecn) {
            return;
        }
        self.input_unpredicted(now, segment, ecn);
    }

    /// A segment arrived into which the NIC merged `packets` packets with the same ECN field, 2 or more, each but the last with `size`
    /// bytes of payload.
    #[inline(never)]
    pub fn on_merged(&mut self, now: Time, segment: &Segment, ecn: Ecn, packets: u16, size: u32) {
        self.recv.begin_merged(packets.into(), size.into());
        self.on_segment(now, segment, ecn);
        self.recv.end_merged();
    }

    #[inline(never)]
    fn input_unpredicted(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        match self.state {
            State::Closed => self.input_closed(segment),
            State::Listen => self.input_listen(now, segment, ecn),
            State::SynSent => self.input_syn_sent(now, segment, ecn),
            _ => self.input(now, segment, ecn),
        }
    }

    fn log_in(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.window.shift() };
        let ack = segment.ack.unwrap_near(self.iss, self.send.snd_nxt()).unwrap_or(0);
        // Before the handshake the peer's initial sequence number is unknown; the position of its SYN is 0.
        let peer_known = !matches!(self.state, State::Closed | State::Listen | State::SynSent);
        let seq = segment.seq.unwrap_near(self.irs, self.recv.nxt()).filter(|_| peer_known);
        let event = LogEvent::SegmentIn {
            seq: seq.unwrap_or(0),
            ack,
            len: segment.len,
            flags: segment.flags,
            ce: ecn == Ecn::Ce,
            window: tcpassay_units::Bytes::new(u64::from(segment.window) << shift),
            stamp: segment.options.timestamps.map(|t| t.val),
        };
        self.log.put(now, || event);
        self.log_sacks(now, segment, self.iss, ack);
    }

    /// Header prediction: the next segment in order, with nothing but ACK and PSH, no change of window, nothing out of
    /// order here; or an ACK without data that also has ECE or changes the window. Returns true if the segment was processed
    /// completely.
    #[inline]
    fn predicted(&mut self, now: Time, segment: &Segment, ecn: Ecn) -> bool {
        let nxt = self.recv.nxt();
        let pure = segment.len == 0;
        let ece = segment.flags == Flags::ACK | Flags::ECE;
        let moved = self.window.differs(segment.window);
        if !(segment.flags.without(Flags::PSH) == Flags::ACK || ece && pure && self.hears_ece())
            || moved && !pure
            || segment.seq != self.irs.at(nxt)
            || !segment.options.sack.is_empty()
            || !self.recv.predictable()
            || u64::from(segment.len) > self.recv.edge() - nxt
            || self.ecn == EcnMode::Accurate
            || pure && ecn == Ecn::Ce && self.rules.reads_ce_of_pure_acks
        {
            return false;
        }
        let una = self.send.snd_una();
        let ahead = i64::from(segment.ack.distance(self.iss.at(una)));
        if ahead < 0 || una.saturating_add_signed(ahead) > self.send.snd_nxt() {
            return false;
        }
        if self.ts.is_on() {
            match segment.options.timestamps {
                Some(t) if self.ts.newer_by(t.val) >= 0 => {
                    self.ts.note(now, self.rules.stamp_life, (nxt, self.recv.last_ack_sent()), t.val);
                }
                _ => return false,
            }
        }
        let ack = una.saturating_add_signed(ahead);
        // An ACK of something new may change the window in every stack.
        let Some(newer) = self.window.predict(segment.window, nxt, ack, ahead > 0) else { return false };
        if ahead > 0 || pure {
            self.touched = true;
            if !self.send.on_plain_ack(now, ack, self.window.size(), ece, &mut self.log) {
                if ece || moved || self.cfg.ack_partial && self.send.in_recovery_state() {
                    // The full processing repeats the steps above and does the rest.
                    return false;
                }
                let mut input = self.ack_in(now, segment, ack);
                input.may_update = newer && self.rules.window_update_is_no_duplicate;
                self.send.on_ack(now, &input, &mut self.log);
            }
            if pure {
                self.note_echo(segment);
                if ece || moved {
                    self.recv.check_scheduled();
                }
                return true;
            }
        }
        if !pure {
            let (len, push) = (u64::from(segment.len), segment.flags.has(Flags::PSH));
            let (rtt, rto) = (self.stamp_rtt(now, segment), self.send.rto());
            self.recv.data_next(now, len, push, ecn, ahead > 0, rtt, rto, &mut self.log);
        }
        true
    }

    /// ECE reports marks; in accurate ECN it is a part of the counter.
    #[inline]
    fn hears_ece(&self) -> bool {
        matches!(self.ecn, EcnMode::Classic | EcnMode::Dctcp)
    }

    /// CLOSED: everything but a reset is answered with a reset (RFC 9293 section 3.10.7.1).
    fn input_closed(&mut self, segment: &Segment) {
        // After a passive open the port is in LISTEN, which ignores segments without ACK (RFC 9293 section 3.10.7.2).
        if segment.flags.has(Flags::RST) || self.open.is_passive() && !segment.flags.has(Flags::ACK) {
            return;
        }
        let reset = self.reset_for(segment);
        self.reset = Some(if segment.flags.has(Flags::ACK) {
            reset
        } else {
            Reset { seq: tcpassay_units::SeqNum::new(0), ack: Some(segment.end()), ..reset }
        });
    }

    /// The synchronised states and SYN-RECEIVED.
    fn input(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        let flags = segment.flags;
        if self.state == State::TimeWait {
            match self.rules.time_wait {
                TimeWaitRules::Rfc9293 => {}
                TimeWaitRules::Linux => return self.input_linux_time_wait(now, segment),
                TimeWaitRules::FreeBsd => return self.input_time_wait(now, segment),
            }
        }
        if self.rules.drops_segments_without_ack_first && !flags.any(Flags::ACK | Flags::RST | Flags::SYN) {
            // Linux drops the segment before any other test (`tcp_rcv_established`,
            // `tcp_rcv_state_process`).
            self.refuse(now, "no ack");
            return;
        }
        let nxt = self.recv.nxt();
        let Some(seq) = segment.seq.unwrap_near(self.irs, nxt) else {
            self.refuse(now, "out of window");
            if !flags.has(Flags::RST) {
                self.recv.answer(0..0);
            }
            return;
        };
        let span = seq..seq + u64::from(segment.len);
        if flags.has(Flags::RST) && self.rules.reset_before_other_checks {
            self.input_reset(now, seq);
            return;
        }
        if flags.has(Flags::SYN) {
            self.input_syn(now, segment, seq, ecn);
            return;
        }
        let after_fin = flags.has(Flags::RST) && self.resets_after_fin(seq);
        if !self.in_time(now, segment, &span) || !after_fin && !self.acceptable(now, segment, &span) {
            return;
        }
        if flags.has(Flags::RST) {
            self.input_reset(now, seq);
            return;
        }
        if self.rules.checks_ack_before_timestamp && self.state == State::Established && flags.has(Flags::ACK)
        {
            // A segment that acknowledges data that were never sent is dropped, and its timestamp is not
            // stored (`tcp_ack`).
            let ahead = segment.ack.distance(self.iss.at(self.send.snd_max()));
            if ahead > 0 {
                self.refuse(now, "bad ack");
                if self.cfg.challenge_unsent {
                    self.challenge(now);
                }
                return;
            }
        }
        if let Some(t) = segment.options.timestamps
            && self.ts.is_on()
        {
            let before = self.ts.recent();
            if self.may_note_stamp(segment) {
                self.ts.note(now, self.rules.stamp_life, (seq, self.recv.last_ack_sent()), t.val);
            }
            self.reported.set_newer(self.ts.recent() != before);
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        let opening = self.state == State::SynReceived;
        // Linux measures round trips of the receiver in ESTABLISHED only, and not by the segment that ends the handshake
        // (`tcp_rcv_established`, not `tcp_rcv_state_process`).
        let measures = !self.rules.rtt_of_first_full_segment || self.state == State::Established;
        if opening {
            let una = self.iss.at(1);
            let sent =
                segment.ack.distance(una) >= 0 && self.iss.at(self.send.snd_max()).distance(segment.ack) >= 0;
            if !(self.acks_syn(segment) || self.streams && sent) {
                self.refuse(now, "bad ack");
                self.reset = Some(self.reset_for(segment));
                return;
            }
            self.syn_acked(now, segment);
        } else if self.open.syn().is_running() {
            // A Fast Open server that closed before its SYN-ACK was acknowledged.
            self.open.stop();
        }
        let accurate = self.ecn == EcnMode::Accurate;
        if accurate {
            self.accurate_arrived(segment, seq, ecn);
        }
        if !self.input_ack(now, segment, seq, opening) {
            return;
        }
        if !opening && segment.seq_len() == 0 {
            if measures {
                self.note_echo(segment);
            }
            self.recv.check_scheduled();
        }
        self.input_data(now, segment, span, ecn, measures);
        if accurate {
            self.linux_prompt(segment.seq_len() > 0);
        }
    }

    /// The range of an unacceptable segment that the answer reports as a duplicate. In Linux's reports a
    /// FIN occupies a position.
    fn refused_span(&self, segment: &Segment, span: &Span) -> Span {
        let fin = self.rules.fin_in_dsack && segment.flags.has(Flags::FIN);
        span.start..span.end + u64::from(fin)
    }

    /// Whether an unacceptable segment is answered. Segments without data are answered only by Linux, at most once in
    /// `tcp_invalid_ratelimit` (`tcp_oow_rate_limited`).
    fn answers_refused(&mut self, now: Time, segment: &Segment) -> bool {
        segment.seq_len() > 0 || self.rules.throttles_answers_without_data && self.may_challenge(now)
    }

    /// Whether the segment is an ACK without new information that arrives after a later one. Linux accepts its old timestamp
    /// (`tcp_disordered_ack`).
    fn is_disordered_ack(&self, segment: &Segment, span: &Span, t: Timestamps) -> bool {
        let replay = self.ts.recent().wrapping_sub(t.val);
        self.rules.accepts_disordered_acks
            && segment.seq_len() == 0
            && segment.flags.has(Flags::ACK)
            && span.start == self.recv.nxt()
            && segment.ack == self.iss.at(self.send.snd_una())
            && !self.window.may_update(segment.window, span.start, self.cfg.shut_by_duplicate)
            && u64::from(replay) <= self.send.rto().as_millis()
    }

    /// PAWS (RFC 7323 section 5). Returns whether the segment is acceptable.
    fn in_time(&mut self, now: Time, segment: &Segment, span: &Span) -> bool {
        if !self.ts.is_on() || segment.flags.has(Flags::RST) {
            return true;
        }
        let Some(t) = segment.options.timestamps else {
            if self.cfg.tolerate_missing_timestamps {
                return true;
            }
            // RFC 7323 section 3.2: silently dropped.
            self.refuse(now, "no timestamp");
            return false;
        };
        // The third segment of a handshake is not given the window (`tcp_check_req`).
        let window = if self.state == State::SynReceived { 0 } else { self.rules.paws_window };
        let fails = self.ts.fails_paws(now, self.rules.stamp_life, t.val.wrapping_add(window));
        if !fails || self.is_disordered_ack(segment, span, t) {
            return self.echoes_a_syn_ack(now, segment);
        }
        self.refuse(now, "paws");
        let late = segment.seq_len() == 0 && segment.flags.has(Flags::ACK) && span.start < self.recv.nxt();
        if !(late && self.rules.ignores_late_acks) && self.answers_refused(now, segment) {
            self.recv.answer(self.refused_span(segment, span));
        }
        false
    }

    /// Linux 7.3 answers a segment in SYN-RECEIVED that echoes a timestamp which no SYN-ACK had, and takes nothing from it
    /// (`tcp_check_req`). Returns whether the segment is acceptable.
    fn echoes_a_syn_ack(&mut self, now: Time, segment: &Segment) -> bool {
        let opens = self.state == State::SynReceived && self.open.is_passive() && !self.is_fast_open_child();
        if !opens || !self.rules.checks_echo_of_third_segment || !self.echoes_no_stamp(now, segment) {
            return true;
        }
        self.refuse(now, "echo");
        self.challenge(now);
        false
    }

    /// The acceptability test of RFC 9293 section 3.10.7.4.
    fn acceptable(&mut self, now: Time, segment: &Segment, span: &Span) -> bool {
        let end = span.start + u64::from(segment.seq_len());
        let early = if segment.seq_len() == 0 && !self.rules.accepts_from_last_ack {
            span.start < self.recv.nxt()
        } else {
            end < self.recv.last_ack_sent().max(1)
        };
        if !early && span.start <= self.recv.limit() {
            return true;
        }
        self.refuse(now, "out of window");
        let bare = segment.seq_len() == 0 && self.rules.throttles_answers_without_data;
        if !segment.flags.has(Flags::RST) && (!bare || self.answers_refused(now, segment)) {
            self.recv.answer(self.refused_span(segment, span));
        }
        false
    }

    /// Whether the connection is only a TIME-WAIT socket of Linux in the state FIN-WAIT-2: that of an orphan whose FIN is acknowledged. It
    /// has no SACK blocks (`tcp_time_wait`).
    pub(super) fn is_time_wait_socket(&self) -> bool {
        self.state == State::FinWait2 && self.orphan && self.rules.time_wait == TimeWaitRules::Linux
    }

    /// Linux checks the ACK first: the timestamp of an ACK of data that were never sent is not stored, in any state (`tcp_ack`).
    fn may_note_stamp(&self, segment: &Segment) -> bool {
        if self.is_time_wait_socket() {
            // Only the FIN's timestamp is kept (`tcp_timewait_state_process`).
            return segment.flags.has(Flags::FIN);
        }
        !self.rules.checks_ack_before_timestamp
            || !segment.flags.has(Flags::ACK)
            || self.state == State::SynReceived
            || segment.ack.distance(self.iss.at(self.send.snd_max())) <= 0
    }

    /// Largest distance of an acceptable ACK below SND.UNA: the largest window of the peer (RFC 5961 section 5). In Linux it is also at
    /// most the number of bytes that the peer has acknowledged (`bytes_acked`), which includes the SYN of a client.
    fn oldest_ack(&self) -> u64 {
        if !self.rules.bounds_old_acks_by_acked {
            return self.window.largest();
        }
        let acked = self.send.snd_una() - u64::from(self.open.is_passive());
        self.window.largest().min(acked)
    }

    /// The ACK field. Returns whether the segment's data are to be processed.
    fn input_ack(&mut self, now: Time, segment: &Segment, seq: u64, opening: bool) -> bool {
        let una = self.send.snd_una();
        let ack = segment.ack.unwrap_near(self.iss, self.send.snd_max());
        // RFC 5961 section 5: an acceptable ACK is not of unsent data and not older than a window.
        let Some(ack) = ack.filter(|&a| a <= self.send.snd_max() && a + self.oldest_ack() >= una) else {
            self.refuse(now, "bad ack");
            self.challenge(now);
            return false;
        };
        let update = WindowField { field: segment.window, seq, ack, una };
        let rule =
            UpdateRule { rule: self.rules.window_update, shut_by_duplicate: self.cfg.shut_by_duplicate };
        let updates = self.window.update(&update, rule);
        let mut input = self.ack_in(now, segment, ack);
        input.may_update = updates && self.rules.window_update_is_no_duplicate;
        if self.sack && !segment.options.sack.is_empty() {
            self.read_sacks(segment, ack, &mut input);
        }
        match self.ecn {
            EcnMode::Off => {}
            EcnMode::Accurate => {
                let newer = self.reported.take_newer() && ack >= una;
                if !opening && (newer || self.send.is_news(ack, &input.sacks)) {
                    let (bytes, packets) = self.send.newly(ack, &input.sacks);
                    input.accurate_ce = self.read_accurate(segment, Newly { bytes, packets });
                }
            }
            EcnMode::Classic | EcnMode::Dctcp => input.ece = segment.flags.has(Flags::ECE),
        }
        self.touched = true;
        let recovering = self.cfg.ack_partial && self.send.in_recovery_state();
        let out = self.send.on_ack(now, &input, &mut self.log);
        if recovering && out.acked > 0 && self.send.in_recovery_state() {
            self.recv.answer(0..0);
        }
        if out.fin_acked {
            self.fin_acked(now);
        }
        self.state != State::Closed
    }

    /// Converts the ACK fields of a segment, except for SACK blocks and ECN.
    #[inline]
    fn ack_in(&self, now: Time, segment: &Segment, ack: u64) -> AckIn {
        AckIn {
            ack,
            window: self.window.size(),
            sacks: ArrayVec::new(),
            dsack: None,
            ts_ecr: if self.ts.is_on() { segment.options.timestamps.map(|t| t.ecr) } else { None },
            ts_now: self.ts.clock(now),
            ece: false,
            accurate_ce: None,
            carries_data: segment.seq_len() > 0,
            may_update: false,
        }
    }

    /// SACK blocks as positions: the DSACK apart (RFC 2883 section 4), nothing that was never sent.
    fn read_sacks(&self, segment: &Segment, ack: u64, input: &mut AckIn) {
        let nxt = self.send.snd_nxt();
        let blocks: ArrayVec<Option<Span>, 4> = segment
            .options
            .sack
            .iter()
            .map(|b| {
                let start = b.start.unwrap_near(self.iss, ack)?;
                let end = b.end.unwrap_near(self.iss, ack)?;
                (start < end && end <= nxt && start > 0).then_some(start..end)
            })
            .collect();
        let second = blocks.get(1).cloned().flatten();
        for (i, block) in blocks.into_iter().enumerate() {
            let Some(block) = block else { continue };
            let within = |s: &Span| s.start <= block.start && block.end <= s.end;
            if i == 0 && (block.end <= ack || second.as_ref().is_some_and(within)) {
                input.dsack = Some(block);
            } else if block.end > ack {
                input.sacks.push(block.start.max(ack)..block.end);
            }
        }
    }

    /// The round trip as the receiver of `segment` sees it. Linux takes the first segment with an echo, if it is a whole one
    /// (`tcp_rcv_rtt_measure_ts`).
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn stamp_rtt(&mut self, now: Time, segment: &Segment) -> Option<Dur> {
        if !self.ts.is_on() || !self.recv.wants_rtt() {
            return None;
        }
        let ecr = segment.options.timestamps?.ecr;
        if self.rules.rtt_of_first_full_segment {
            let known = self.ts.was_measured(ecr);
            if known || !self.recv.is_full(u64::from(segment.len)) {
                return None;
            }
        }
        let ms = self.ts.clock(now).wrapping_sub(ecr);
        if ms == 0 && self.rules.echo_of_this_tick_is_no_sample {
            return None;
        }
        (ecr != 0 && ms < 1 << 20).then(|| Dur::from_millis(u64::from(ms)))
    }

    /// Records the echo of a segment without data, which gives no sample: later segments with the same echo give none either
    /// (`tcp_rcv_rtt_measure_ts`).
    #[inline]
    fn note_echo(&mut self, segment: &Segment) {
        if self.rules.rtt_of_first_full_segment
            && let Some(t) = segment.options.timestamps
        {
            self.ts.was_measured(t.ecr);
        }
    }

    /// Everything we sent, the FIN included, is acknowledged.
    fn fin_acked(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => {
                self.set_state(now, State::FinWait2);
                if self.orphan {
                    self.linger = now.saturating_add(self.cfg.fin_wait2);
                }
            }
            State::Closing => self.time_wait(now),
            State::LastAck => self.end(now, None, "closed"),
            _ => {}
        }
    }

    fn time_wait(&mut self, now: Time) {
        self.set_state(now, State::TimeWait);
        if self.rules.time_wait == TimeWaitRules::Linux {
            self.challenge = Challenge::default();
        }
        self.linger = now.saturating_add(self.cfg.time_wait);
    }

    /// Payload and FIN. `measures`: its timestamp may give a round-trip time of the receiver.
    pub(super) fn input_data(&mut self, now: Time, segment: &Segment, span: Span, ecn: Ecn, measures: bool) {
        let flags = segment.flags;
        if flags.has(Flags::URG) && !self.recv.finished() {
            // RFC 9293 section 3.8.5: the pointer is relative to the segment.
            self.recv.urgent(span.start + u64::from(segment.urgent));
        }
        if segment.seq_len() == 0 {
            if self.ecn == EcnMode::Classic {
                if self.rules.reads_cwr_of_pure_acks && flags.has(Flags::CWR) {
                    // FreeBSD also answers it (`cc_ecnpkt_handler`).
                    self.recv.heard_cwr(self.rules.reads_ce_of_pure_acks);
                }
                if self.rules.reads_ce_of_pure_acks && ecn == Ecn::Ce {
                    self.recv.latch_mark();
                }
            }
            return;
        }
        if self.state == State::TimeWait && flags.has(Flags::FIN) {
            // Our ACK of the FIN was lost: it is sent again, and 2 MSL start again.
            self.linger = now.saturating_add(self.cfg.time_wait);
        }
        if self.orphan && span.end > self.recv.nxt() && !self.recv.finished() {
            // RFC 9293 section 3.10.4, RFC 2525 section 2.17: no application will read them.
            self.reset = Some(self.reset_for(segment));
            self.end(now, None, "data after close");
            return;
        }
        let beyond = self.recv.finished() && span.start < self.recv.nxt() && span.end > self.recv.nxt();
        if beyond && self.rules.resets_on_data_after_fin {
            // Data after the FIN, some of them old: `tcp_rcv_state_process` resets.
            self.reset = Some(self.reset_for(segment));
            self.end(now, Some(ConnError::Reset), "data after the FIN");
            return;
        }
        if self.recv.finished() && span.start >= self.recv.nxt() {
            // RFC 9293 section 3.10.7.4, seventh: nothing can follow the FIN.
            self.refuse(now, "after the FIN");
            return;
        }
        let arrival = Arrival {
            span,
            fin: flags.has(Flags::FIN),
            push: flags.has(Flags::PSH),
            cwr: flags.has(Flags::CWR) && self.ecn != EcnMode::Accurate,
            ecn,
            rtt: if measures { self.stamp_rtt(now, segment) } else { None },
            rto: self.send.rto(),
            header: segment.header_len(),
            closing: matches!(self.state, State::FinWait1 | State::FinWait2),
        };
        if self.recv.data(now, &arrival, &mut self.log) {
            if matches!(self.state, State::FinWait1 | State::FinWait2) {
                // No data will be sent with which the ACK could be piggybacked.
                self.recv.answer(0..0);
            }
            match self.state {
                State::Established => self.set_state(now, State::CloseWait),
                State::FinWait1 => self.set_state(now, State::Closing),
                State::FinWait2 => self.time_wait(now),
                _ => {}
            }
        }
    }
}
