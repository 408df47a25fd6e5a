//! The next segment to send, and its header.

use super::{Burst, Connection, Outgoing, Sending};
use crate::config::EcnMode;
use crate::flavor::TimeWaitRules;
use crate::log::{LogEvent, State};
use crate::messages::{Chunk, Span, WholeRun};
use crate::recv::OldAck;
use crate::send::Flow;
use arrayvec::ArrayVec;
use tcpassay_units::{Bytes, SeqNum, Time, count};
use tcpassay_wire::{Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};

impl Connection {
    /// The next segment for the network. Call it until it returns `None`, after every input.
    ///
    /// In this order: a reset; in the handshake the SYN or SYN-ACK; an ACK of the data before a change of
    /// CE; the sender's data; a keepalive probe; and last a pure ACK, if no other segment carried it.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        let mut segment = Segment::default();
        let Sending { ecn, mss, .. } = self.transmit_into(now, &mut segment)?;
        Some(Outgoing { segment, ecn, mss })
    }

    /// [`poll_transmit`](Connection::poll_transmit), for a host that provides the memory for the segment. Without a
    /// segment to send the memory stays unchanged.
    #[inline]
    pub fn transmit_into(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        if self.is_unusual() {
            self.poll_unusual(now, out)
        } else if self.touched {
            self.poll_stream(now, out)
        } else {
            self.poll_last(now, out)
        }
    }

    fn poll_stream(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        let room = self.sack_room();
        let flow = if room > 0 { Flow::Other } else { self.send.flow() };
        match flow {
            Flow::Whole(room) => {
                let mut burst = self.make_burst(now, room, 1);
                return Some(self.next_of_burst(now, &mut burst, out));
            }
            Flow::Full => self.send.rest_full(now, &mut self.log),
            Flow::Other => {
                let chunk = if self.ecn == EcnMode::Accurate {
                    self.poll_accurate(now)
                } else {
                    self.send.poll_narrow(now, room, &mut self.log)
                };
                if let Some(chunk) = chunk {
                    return Some(self.make_data(now, &chunk, out));
                }
            }
        }
        self.rested();
        if self.recv.may_ack() || self.probe_due { self.poll_last(now, out) } else { None }
    }

    /// The sender has nothing more to send for now.
    #[inline]
    fn rested(&mut self) {
        self.touched = false;
        self.send_timer = self.send.deadline();
    }

    /// The next segments for a host whose queue has room for everything, if they are whole new segments that need no decisions: then the
    /// host takes each of them with [`next_of_burst`](Connection::next_of_burst), and calls
    /// [`end_burst`](Connection::end_burst). It is the same as if it had called [`transmit_into`](Connection::transmit_into) for each.
    #[inline]
    pub fn begin_burst(&mut self, now: Time) -> Option<Burst> {
        if !self.touched || self.is_unusual() || self.sack_room() > 0 {
            return None;
        }
        match self.send.flow() {
            Flow::Whole(room) => {
                // The counters of accurate ECN change the header of the first segment only.
                let most = if self.ecn == EcnMode::Accurate { 1 } else { WholeRun::MOST };
                Some(self.make_burst(now, room, most))
            }
            Flow::Full => {
                self.rest_full(now);
                None
            }
            Flow::Other => None,
        }
    }

    /// All segments of the burst were taken.
    #[inline]
    pub fn end_burst(&mut self, now: Time, burst: &Burst) {
        if burst.fills {
            self.rest_full(now);
        }
    }

    #[inline(never)]
    fn rest_full(&mut self, now: Time) {
        self.send.rest_full(now, &mut self.log);
        self.rested();
    }

    /// By how many bytes SACK blocks shorten segments with data.
    #[inline]
    pub(super) fn sack_room(&self) -> u32 {
        let shorten = self.rules.sacks_shorten_data
            && self.sack
            && self.ecn != EcnMode::Accurate
            && self.cfg.mtu_probing.is_none();
        if shorten && self.recv.has_blocks() { 4 + 8 * self.recv.count_blocks(self.most_blocks()) } else { 0 }
    }

    /// The number of SACK blocks for which the option has room.
    fn most_blocks(&self) -> usize {
        if self.ts.is_on() { 3 } else { 4 }
    }

    /// The next segment without data, for a host whose queue has no room for more data of this connection (Linux's
    /// TCP small queues hold back data, never ACKs). Like [`poll_transmit`](Connection::poll_transmit), it is called until it returns
    /// `None`. The next call of `poll_transmit` returns the data.
    pub fn poll_control(&mut self, now: Time) -> Option<Outgoing> {
        let mut segment = Segment::default();
        let Sending { ecn, mss, .. } = self.control_into(now, &mut segment)?;
        Some(Outgoing { segment, ecn, mss })
    }

    /// [`poll_control`](Connection::poll_control), as [`transmit_into`](Connection::transmit_into).
    pub fn control_into(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        if self.is_unusual() { self.poll_unusual(now, out) } else { self.poll_last(now, out) }
    }

    /// Whether something is sent before data, or no data may be sent.
    #[inline]
    pub(super) fn is_unusual(&self) -> bool {
        self.reset.is_some() || !self.synchronised() || self.recv.has_old_ack()
    }

    #[cold]
    fn poll_unusual(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        if self.reset.is_some() {
            return self.make_reset(now, out);
        }
        if !self.synchronised() {
            if !self.open.syn().is_due() {
                let challenge = self.open.take_challenge();
                return challenge.then(|| self.make_challenge(now, out));
            }
            let (segment, ecn) = self.make_syn(now);
            if self.open.sends_early() {
                self.streams = true;
                self.recv.offer_first();
                self.recv.ack_sent(now, false, 1, &mut self.log);
            }
            *out = segment;
            let header = out.header_len();
            let sending = self.sending(now, out, 0, ecn, header, self.open.syn().sent() > 1);
            // Data on a SYN are one packet.
            return Some(Sending { mss: out.len.max(1), ..sending });
        }
        let old = self.recv.take_old_ack()?;
        Some(self.make_old_ack(now, &old, out))
    }

    /// The position of a segment without data: the next one, but Linux stays within the peer's window (`tcp_acceptable_seq`).
    pub(super) fn acceptable_seq(&self) -> u64 {
        let nxt = self.send.snd_nxt();
        if !self.rules.acks_stay_in_window || self.state == State::TimeWait {
            return nxt;
        }
        let edge = self.send.snd_una() + self.window.size();
        let unit = if self.open.peer_scales() { 1 << self.agreed_options().our_shift } else { 0 };
        if edge >= nxt || nxt - edge < unit { nxt } else { edge }
    }

    /// Returns the segment that is sent if no other is: a keepalive probe or an ACK.
    #[inline(never)]
    fn poll_last(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        if std::mem::take(&mut self.probe_due) {
            let seq = self.send.snd_nxt() - 1;
            let sending = self.make_ack(now, seq, out);
            if self.rules.probes_acknowledge {
                self.recv.ack_sent(now, false, 1, &mut self.log);
            }
            return Some(sending);
        }
        self.acknowledge_into(now, out)
    }

    /// The ACK that is due, if there is one, where nothing else [may be sent](Connection::may_only_acknowledge).
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn acknowledge_into(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        if !self.recv.ack_due(now, self.send.srtt(), &mut self.log) {
            return None;
        }
        let seq = self.acceptable_seq();
        let challenge = self.challenge.take_due();
        let fin_again = self.cfg.fin_on_acks && self.send.fin_out() && !challenge;
        let sending = self.make_ack(now, seq - u64::from(fin_again), out);
        if fin_again {
            out.flags |= Flags::FIN;
        }
        self.recv.ack_sent(now, false, 1, &mut self.log);
        self.send.on_control_sent(now);
        Some(sending)
    }

    /// Whether nothing but a pure ACK can be due ([`acknowledge_into`](Connection::acknowledge_into)).
    #[inline]
    pub fn may_only_acknowledge(&self) -> bool {
        !self.touched && !self.probe_due && !self.is_unusual()
    }

    /// Whether [`poll_transmit`](Connection::poll_transmit) could return a segment or has to decide about an ACK. If not, it
    /// need not be called.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.touched
            || self.recv.may_ack()
            || self.probe_due
            || self.reset.is_some()
            || ((self.open.syn().is_due() || self.open.owes_challenge()) && !self.synchronised())
    }

    /// [`Connection::make_data`] of whole new segments ([`Flow::Whole`]), `most` of them at most.
    #[expect(clippy::inline_always, reason = "once for each burst")]
    #[inline(always)]
    fn make_burst(&mut self, now: Time, room: u64, most: u32) -> Burst {
        self.cached_clock = now;
        let run = self.send.emit_whole(now, room, most);
        let mut flags = Flags::ACK | self.ecn_flags();
        if run.cwr && self.ecn != EcnMode::Accurate {
            flags |= Flags::CWR;
        }
        let ecn = match self.ecn {
            EcnMode::Dctcp => Ecn::Ect0,
            EcnMode::Classic | EcnMode::Accurate if run.ect => Ecn::Ect0,
            _ => Ecn::NotEct,
        };
        Burst {
            next: run.start,
            left: run.count,
            pushes: run.pushes,
            fills: run.fills,
            flags,
            stamps: self.stamps(now),
            // SACK blocks do not fit into the segments: a separate ACK with them follows.
            acknowledges: !self.recv.has_blocks(),
            ecn,
            mss: self.send.mss32(),
        }
    }

    /// The next segment of a burst, which has one.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub fn next_of_burst(&mut self, now: Time, burst: &mut Burst, out: &mut Segment) -> Sending {
        let (ecn, mss) = (burst.ecn, burst.mss);
        let push = if burst.pushes & 1 == 0 { Flags::NONE } else { Flags::PSH };
        out.keep_stamps_only(burst.stamps);
        self.write_header(burst.next, burst.flags | push, mss, out);
        if std::mem::take(&mut burst.acknowledges) {
            self.recv.ack_sent(now, true, burst.left, &mut self.log);
            self.recv.replied(now);
        }
        let seq = burst.next;
        burst.next += u64::from(mss);
        burst.pushes >>= 1;
        burst.left -= 1;
        burst.flags = burst.flags.without(Flags::CWR);
        self.sending(now, out, seq, ecn, self.plain_header(), false)
    }

    /// Writes the header of a segment at position `seq`, whose options have been written.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn write_header(&mut self, seq: u64, flags: Flags, len: u32, out: &mut Segment) {
        out.seq = self.iss.at(seq);
        out.ack = self.irs.at(self.recv.nxt());
        out.flags = flags;
        out.window = self.recv.announce();
        out.urgent = 0;
        out.len = len;
    }

    /// Bytes of the TCP header of a segment that has no options but timestamps.
    #[inline]
    fn plain_header(&self) -> u32 {
        if self.ts.is_on() { 20 + 12 } else { 20 }
    }

    pub(super) fn make_data(&mut self, now: Time, chunk: &Chunk, out: &mut Segment) -> Sending {
        self.cached_clock = now;
        let len = u32::try_from(chunk.span.end - chunk.span.start).expect("a segment is below 4 GB");
        if len == 0 && !chunk.fin {
            // A window probe has an old position: the peer must answer it, and does not process it as an ACK.
            return self.make_ack(now, chunk.span.start, out);
        }
        let mut flags = Flags::ACK | self.ecn_flags();
        // A FIN without data has no PSH.
        if chunk.push && len > 0 {
            flags |= Flags::PSH;
        }
        if chunk.fin {
            flags |= Flags::FIN;
        }
        if chunk.cwr && self.ecn != EcnMode::Accurate {
            flags |= Flags::CWR;
        }
        let urgent = self.send.urgent_from(chunk.span.start).filter(|_| len > 0);
        if urgent.is_some() {
            flags |= Flags::URG;
        }
        let capable = chunk.ect || self.control == Ecn::Ect0;
        let mut options = self.options(now);
        let mut with_sacks = true;
        let room = self.sack_room();
        if self.recv.has_blocks() {
            // The segment carries SACK blocks if they fit; otherwise a separate ACK with them follows.
            with_sacks = room > 0 || len + 4 + 8 * 4 <= self.send.mss32();
            if with_sacks {
                self.put_sacks(&mut options);
            }
        }
        let narrow = if self.ecn == EcnMode::Accurate {
            self.put_accecn(now, &mut options, Some(chunk))
        } else {
            room
        };
        *out = Segment {
            seq: self.iss.at(chunk.span.start),
            ack: self.irs.at(self.recv.nxt()),
            flags,
            window: self.recv.announce(),
            urgent: urgent.map_or(0, |n| u16::try_from(n).unwrap_or(u16::MAX)),
            len,
            options,
        };
        if with_sacks {
            let packets = len.div_ceil((self.send.mss32() - narrow).max(1)).max(1);
            self.recv.ack_sent(now, true, packets, &mut self.log);
            if len > 0 {
                self.recv.replied(now);
            }
        }
        let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
        let sending = self.sending(now, out, chunk.span.start, ecn, out.header_len(), chunk.retransmission);
        if self.cfg.mtu_probing.is_some() && self.send.is_path_probe(chunk.span.start) {
            return Sending { mss: len, ..sending };
        }
        Sending { mss: (self.send.mss32() - narrow).max(1), ..sending }
    }

    /// A segment without payload at position `seq`.
    #[inline]
    pub(super) fn make_ack(&mut self, now: Time, seq: u64, out: &mut Segment) -> Sending {
        if !(self.rules.caches_clock && self.synchronised()) {
            self.cached_clock = now;
        }
        let stamped = self.cached_clock;
        out.keep_stamps_only(self.stamps(self.send.stamp_time(stamped)));
        if self.recv.has_blocks() && !self.is_time_wait_socket() {
            self.put_sacks(&mut out.options);
        }
        // A TIME-WAIT socket, which stores only a part of the state, does not echo marks (`tcp_twrespond` of FreeBSD,
        // `tcp_timewait_state_process` of Linux). In Linux the full socket still answers the FIN.
        let over = self.state == State::TimeWait
            && (self.rules.no_ace_in_time_wait
                || self.rules.time_wait == TimeWaitRules::Linux
                    && (self.orphan || !self.recv.has_unacknowledged_fin()))
            || self.is_time_wait_socket();
        let flags = if over { Flags::ACK } else { Flags::ACK | self.ecn_flags() };
        if self.ecn == EcnMode::Accurate && !over {
            self.put_accecn(now, &mut out.options, None);
        }
        self.write_header(seq, flags, 0, out);
        let header = if out.options.sack.is_bare() { self.plain_header() } else { out.header_len() };
        count(&mut self.stats.acks_out, 1);
        self.sending(now, out, seq, self.control_ecn(), header, false)
    }

    /// A challenge ACK in SYN-RECEIVED, with the first window scaled as after the handshake.
    fn make_challenge(&mut self, now: Time, out: &mut Segment) -> Sending {
        *out = Segment {
            seq: self.iss.at(1),
            ack: self.irs.at(self.recv.nxt()),
            flags: Flags::ACK,
            window: self.recv.first_window().0 >> self.agreed_options().our_shift,
            options: self.options(now),
            ..Segment::default()
        };
        count(&mut self.stats.acks_out, 1);
        self.sending(now, out, 1, self.control_ecn(), out.header_len(), false)
    }

    fn make_old_ack(&mut self, now: Time, old: &OldAck, out: &mut Segment) -> Sending {
        let mut options = self.options(self.send.stamp_time(now));
        if self.sack {
            options.sack = self.blocks(&old.sacks);
        }
        if self.ecn == EcnMode::Accurate {
            self.put_accecn(now, &mut options, None);
        }
        self.send.on_control_sent(now);
        let seq = self.send.snd_nxt();
        let window = old.window.unwrap_or_else(|| self.recv.announce_at(old.nxt));
        *out = Segment {
            seq: self.iss.at(seq),
            ack: self.irs.at(old.nxt),
            flags: Flags::ACK | old.echo,
            window,
            urgent: 0,
            len: 0,
            options,
        };
        count(&mut self.stats.acks_out, 1);
        self.sending(now, out, seq, self.control_ecn(), out.header_len(), false)
    }

    fn make_reset(&mut self, now: Time, out: &mut Segment) -> Option<Sending> {
        let reset = self.reset.take()?;
        *out = Segment {
            seq: reset.seq,
            ack: reset.ack.unwrap_or_default(),
            flags: if reset.ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST } | reset.echo,
            window: reset.window,
            options: Options { timestamps: reset.stamps, sack: reset.sack, ..Options::default() },
            ..Segment::default()
        };
        let pos = reset.seq.unwrap_near(self.iss, self.send.snd_nxt()).unwrap_or(0);
        Some(self.sending(now, out, pos, self.control_ecn(), out.header_len(), false))
    }

    /// DCTCP makes every packet ECN-capable, pure ACKs and resets, too (RFC 8257 section 3.6 and 4.1; `tcp_ecn_send` of Linux).
    #[inline]
    fn control_ecn(&self) -> Ecn {
        self.control
    }

    /// ECE or ACE.
    #[inline]
    fn ecn_flags(&mut self) -> Flags {
        if let Some(handshake) = self.open.take_handshake_ace() {
            return handshake;
        }
        self.recv.echo_flags()
    }

    #[inline]
    fn stamps(&self, now: Time) -> Option<Timestamps> {
        self.ts.option(now)
    }

    #[inline]
    fn options(&self, now: Time) -> Options {
        Options { timestamps: self.stamps(now), ..Options::default() }
    }

    pub(super) fn put_sacks(&mut self, options: &mut Options) {
        if self.sack {
            let room = self.most_blocks();
            if self.linux_ecn.is_some() {
                self.linux_reports(self.recv.duplicate_start());
            }
            let spans = self.recv.sacks(room);
            options.sack = self.blocks(&spans);
        }
    }

    fn blocks(&self, spans: &ArrayVec<Span, 4>) -> SackBlocks {
        let room = self.most_blocks();
        let on_wire = |s: &Span| SackBlock { start: self.irs.at(s.start), end: self.irs.at(s.end) };
        spans.iter().take(room).map(on_wire).collect()
    }

    /// Logs the SACK blocks of `segment`, which are positions of the stream that begins at `first`, near `ack`.
    pub(super) fn log_sacks(&mut self, now: Time, segment: &Segment, first: SeqNum, ack: u64) {
        for block in &segment.options.sack {
            if let (Some(start), Some(end)) =
                (block.start.unwrap_near(first, ack), block.end.unwrap_near(first, ack))
            {
                self.log.put(now, || LogEvent::Sack { start, end });
            }
        }
    }

    /// Counts and logs `segment`, which begins at position `seq` and has a TCP header of `header` bytes.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    fn sending(
        &mut self,
        now: Time,
        segment: &Segment,
        seq: u64,
        ecn: Ecn,
        header: u32,
        retransmission: bool,
    ) -> Sending {
        debug_assert_eq!(header, segment.header_len(), "the header's length");
        count(&mut self.stats.segments_out, 1);
        if self.log.is_on() {
            self.log_out(now, segment, seq, ecn, retransmission);
        }
        Sending { ecn, mss: self.send.mss32().max(1), header, len: segment.len }
    }

    #[cold]
    fn log_out(&mut self, now: Time, segment: &Segment, seq: u64, ecn: Ecn, retransmission: bool) {
        let ack = segment.ack.unwrap_near(self.irs, self.recv.nxt()).unwrap_or(0);
        let (len, flags) = (segment.len, segment.flags);
        let shift = if flags.has(Flags::SYN) { 0 } else { self.agreed_options().our_shift };
        let window = Bytes::new(u64::from(segment.window) << shift);
        let (ect, echo) = (ecn != Ecn::NotEct, segment.options.timestamps.map(|t| t.ecr));
        let out = LogEvent::SegmentOut { seq, ack, len, flags, retransmission, window, ect, echo };
        self.log.put(now, || out);
        self.log_sacks(now, segment, self.irs, ack);
    }
}
