//! The byte counters of accurate ECN, and what the sender makes of them and of the ACE field.
//!
//! Sources: RFC 9768 sections 3.2.2.5.2 and 3.2.3; `tcp_accecn_process_option` and `__tcp_accecn_process` of Linux 6.18.
//!
//! What is here of both forms asks `accecn_linux` where that is Linux's.
//!
//! Known differences: what ACE cannot tell without an option is decided as Linux does it, by how many packets an ACK acknowledges
//! on average; nobody looks whether the feedback is of marks only (section 3.2.2.3).

use super::Connection;
use super::accecn_linux::Newly;
use super::handshake::handshake_ace;
use crate::AccurateInfo;
use crate::config::EcnMode;
use crate::messages::Chunk;
use crate::recv::{ByteCounts, ace_of};
use tcpassay_units::Time;
use tcpassay_wire::{AccEcn, Ecn, Flags, Options, Segment};

/// What the options of a header may take.
pub(super) const SPACE: u32 = 40;

/// Packets that an ACK acknowledges, smoothed, in 64ths (`pkts_acked_ewma` of Linux).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Stretch(u64);

impl Stretch {
    /// What Linux's 16 bits hold.
    pub const MOST: Stretch = Stretch(0xffff);

    /// An ACK acknowledged so many.
    pub fn acked(&mut self, packets: u64) {
        if packets > 0 {
            let now = packets << 6;
            self.0 = if self.0 == 0 { now } else { (self.0 * 63 + now) >> 6 };
        }
    }

    /// ACKs of more than four packets are the rule.
    pub fn is_long(self) -> bool {
        self.0 > 4 << 6
    }
}

/// What the peer has reported of accurate ECN, and what we still owe it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    /// s.cep: packets with CE.
    pub packets: u64,
    /// s.e0b, s.ceb, s.e1b, of 24 bits.
    bytes: [u32; 3],
    /// The peer's first option was zeroed on its way (section 3.2.3.2.4).
    zeroed: bool,
    stretch: Stretch,
    /// A client's segments that still test the path (section 3.2.3.2.1).
    pub tests: u8,
    /// The peer has not told anything after the handshake.
    first: bool,
    /// The timestamp of the segment that is being read is newer than any before.
    pub newer: bool,
    /// An option of the peer's was seen.
    heard: bool,
    /// Bytes by which the segment that is being made is shorter than a full one, for the option.
    narrow: u32,
}

impl Reported {
    pub(super) const START: Reported = Reported {
        packets: 5,
        bytes: ByteCounts::START,
        zeroed: false,
        stretch: Stretch(0),
        tests: 0,
        first: true,
        newer: false,
        heard: false,
        narrow: 0,
    };

    /// The first option of the peer.
    fn hear_first(&mut self, option: &AccEcn) {
        self.heard = true;
        self.zeroed = option.order().any(|field| field != 1 && option.counts[field] == 0);
    }

    /// Bytes newly reported as CE, where the option tells: what it leaves out has never moved.
    fn read_option(&mut self, option: &AccEcn) -> Option<u64> {
        self.heard = true;
        if self.zeroed || option.fields == 0 {
            return None;
        }
        let mut ce = 0;
        for field in option.order() {
            let more = option.counts[field].wrapping_sub(self.bytes[field]) & 0xff_ffff;
            self.bytes[field] = option.counts[field];
            if field == 1 {
                ce = u64::from(more);
            }
        }
        Some(ce)
    }

    /// Marked packets that the counter's three bits stand for, on an ACK for `packets` packets; `marked` bytes if that is known.
    /// `safest`: as many as there may be, however long the ACKs are (`tcp_ecn_input_segment` of FreeBSD).
    fn read_ace(&mut self, ace: u64, packets: u64, marked: Option<u64>, mss: u64, safest: bool) -> u64 {
        let least = ace.wrapping_sub(self.packets) & 7;
        self.stretch.acked(packets);
        let news = match marked {
            // The counter has turned as often as the bytes say.
            Some(bytes) => least + (bytes.div_ceil(mss).saturating_sub(least) & !7),
            // The safest case, unless so long ACKs are the rule, in which nothing is missing.
            None if packets > 7 && (safest || !self.stretch.is_long()) => packets - ((packets - least) & 7),
            None => least,
        };
        self.packets += news;
        news
    }
}

impl Connection {
    /// A client's SYN-ACK confirms accurate ECN.
    pub(super) fn accurate_syn_ack(&mut self, segment: &Segment, ecn: Ecn) {
        if self.linux_ecn.is_some() {
            self.open.mark_counts = self.linux_syn_ack(segment, ecn);
            return;
        }
        // The ACK of the SYN-ACK, and the first data.
        self.reported.tests = 2;
        self.first_accecn(segment);
        self.open.no_ect |= self.is_mangled(ace_of(segment.flags));
    }

    /// The option of a SYN-ACK: as many fields as have room beside a cookie of Fast Open.
    pub(super) fn put_first_accecn(&self, options: &mut Options) {
        let cookie = self.sent_fast_open().map_or(0, |option| {
            let len = 2 + if option.experimental { 2 } else { 0 } + option.cookie.len();
            u32::try_from(len.next_multiple_of(4)).expect("a cookie has 16 bytes at most")
        });
        for fields in (0..=3).rev() {
            let mut with = *options;
            with.set_accecn(&ByteCounts::first(self.cfg.ecn_form.is_linux(), fields));
            if with.wire_len() + cookie <= SPACE {
                *options = with;
                return;
            }
        }
    }

    /// A server's SYN-ACK is answered (RFC 9768 table 4, for pure ACKs without SACK blocks).
    pub(super) fn accurate_third_ack(&mut self, segment: &Segment) {
        if self.linux_ecn.is_some() {
            self.linux_third_ack(segment);
            return;
        }
        self.first_accecn(segment);
        let ace = ace_of(segment.flags);
        if self.rules.trusts_ace {
            self.reported.packets = if ace == 0b110 { 6 } else { 5 };
            return;
        }
        if segment.seq_len() > 0 || !segment.options.sack.is_empty() {
            return;
        }
        // Whether our SYN-ACK was marked: the count starts at 6 instead of 5.
        self.reported.packets = if ace == 0b110 { 6 } else { 5 };
        self.open.deaf = ace == 0;
        self.open.no_ect |= self.open.deaf || self.is_mangled(ace);
    }

    /// The handshake's encoding says that our SYN or SYN-ACK arrived with a field that it cannot have got on its way (section 3.2.2.3):
    /// Not-ECT does not change, and ECT does not become that.
    pub(super) fn is_mangled(&self, ace: u64) -> bool {
        if self.rules.trusts_ace {
            return false;
        }
        if self.syn_is_capable(self.open.passive) {
            ace == 0b010
        } else {
            matches!(ace, 0b011 | 0b100 | 0b110)
        }
    }

    /// Nothing is sent ECN-capable from now on.
    fn stop_ect(&mut self) {
        self.open.no_ect = true;
        self.send.stop_ect();
        self.mark_control();
    }

    /// The first segment in which the peer may tell of bytes: a SYN-ACK, or the ACK of ours.
    fn first_accecn(&mut self, segment: &Segment) {
        if let Some(option) = segment.options.accecn() {
            self.reported.hear_first(&option);
        }
    }

    /// A SYN or SYN-ACK arrived again in a connection that stands. The ACK of a SYN-ACK tells how that arrived (section 3.2.2.1);
    /// Linux's does for every SYN.
    pub(super) fn accurate_syn_again(&mut self, segment: &Segment, ecn: Ecn) {
        let confirms = segment.flags.has(Flags::ACK) && !matches!(ace_of(segment.flags), 0 | 1 | 7);
        if self.cfg.ecn_form.is_linux() || confirms && !self.open.passive {
            self.open.tell_handshake = Some(handshake_ace(ecn));
        }
        if let Some(option) = segment.options.accecn() {
            self.linux_late_option(&option);
        }
    }

    /// An acceptable segment, before anything is made of it.
    pub(super) fn accurate_arrived(&mut self, segment: &Segment, start: u64, ecn: Ecn) {
        if self.linux_ecn.is_some() {
            self.linux_received(segment, start, ecn);
        } else if segment.seq_len() == 0 {
            self.recv.control_mark(ecn);
        }
    }

    /// Bytes newly reported as CE by an ACK that tells something newer than the one before; `None` where what it says means nothing.
    pub(super) fn read_accurate(&mut self, segment: &Segment, newly: Newly) -> Option<u64> {
        if self.linux_ecn.is_some() {
            return Some(self.read_linux(segment, newly));
        }
        let ace = ace_of(segment.flags);
        let trusts = self.rules.trusts_ace;
        if std::mem::take(&mut self.reported.first) && ace == 0 && !trusts {
            // Section 3.2.2.4: no counter starts at zero.
            self.open.deaf = true;
            self.stop_ect();
        }
        if self.open.deaf {
            return None;
        }
        let mss = u64::from(self.send.mss32()).max(1);
        let marked = segment.options.accecn().and_then(|option| self.reported.read_option(&option));
        let packets = self.reported.read_ace(ace, newly.packets, marked, mss, trusts);
        // Section 3.2.3.2.5: bytes without a packet, where the counter cannot have turned.
        if packets == 0 && newly.packets <= 7 && marked.is_some_and(|n| n > 0) {
            self.stop_ect();
        }
        Some(marked.unwrap_or(packets * mss))
    }

    /// What to send next, with room for the option where it has one and not every segment leaves that.
    pub(super) fn poll_accurate(&mut self, now: Time) -> Option<Chunk> {
        let tests = self.reported.tests > 0;
        self.reported.narrow = if !self.cfg.ecn_option {
            0
        } else if self.linux_ecn.is_some() {
            self.linux_room(now)
        } else {
            self.recv.accecn(tests).map_or(0, |option| option.wire_len().next_multiple_of(4))
        };
        let chunk = self.send.poll_narrow(now, self.reported.narrow, &mut self.log);
        if chunk.as_ref().is_none_or(|chunk| chunk.span.is_empty()) {
            self.reported.narrow = 0;
        }
        chunk
    }

    /// Puts the option on a segment, where there is something to tell and room for it: at most two SACK blocks stay beside it, and
    /// two are not given up for it (section 3.2.3.3). Gives by how much its packets are shorter than full ones.
    #[cold]
    pub(super) fn put_accecn(&mut self, now: Time, options: &mut Options, chunk: Option<&Chunk>) -> u32 {
        let narrow = std::mem::take(&mut self.reported.narrow);
        if self.linux_ecn.is_some() {
            self.put_linux_option(now, options);
            return narrow;
        }
        if !self.cfg.ecn_option {
            return 0;
        }
        let tests = self.reported.tests > 0;
        self.reported.tests = self.reported.tests.saturating_sub(1);
        // Section 3.2.3.2.2: a client's first data go again without it.
        if chunk.is_some_and(|c| c.retransmission && c.span.start == 1) && !self.open.passive {
            return narrow;
        }
        let Some(option) = self.recv.accecn(tests) else { return narrow };
        let mut with = *options;
        if with.sack.len() > 2 {
            with.sack = with.sack.iter().take(2).copied().collect();
        }
        with.set_accecn(&option);
        let usual = self.option_bytes();
        let len =
            chunk.map_or(0, |c| u32::try_from(c.span.end - c.span.start).expect("a segment is below 4 GB"));
        let packet = len.min(self.send.mss32() - narrow);
        if with.wire_len() <= SPACE && (len == 0 || with.wire_len() - usual + packet <= self.send.mss32()) {
            *options = with;
        }
        narrow
    }

    /// What [`Info`](crate::Info) tells of accurate ECN.
    pub(super) fn accurate_info(&self) -> Option<AccurateInfo> {
        if self.ecn != EcnMode::Accurate || !self.streams {
            return None;
        }
        if self.linux_ecn.is_some() {
            return self.linux_info();
        }
        let from_start = |counts: [u32; 3]| {
            std::array::from_fn(|at| u64::from(counts[at].wrapping_sub(ByteCounts::START[at]) & 0xff_ffff))
        };
        Some(AccurateInfo {
            delivered_ce: self.reported.packets - 5,
            delivered_bytes: from_start(self.reported.bytes),
            received_ce: self.recv.marked().0,
            received_bytes: self.recv.counted_bytes().map_or([0; 3], from_start),
            option_seen: if self.reported.zeroed { 3 } else { 2 * u8::from(self.reported.heard) },
            fail_mode: u8::from(self.open.no_ect) << 1 | u8::from(self.reported.zeroed) << 3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(fields: u8, counts: [u32; 3]) -> AccEcn {
        AccEcn { e1b_first: false, fields, counts }
    }

    #[test]
    fn counters_of_24_bits_go_on_when_they_turn() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_option(&option(2, [1001, 0xff_ff00, 0])), Some(0xff_ff00));
        assert_eq!(reported.read_option(&option(2, [1001, 0x100, 0])), Some(0x200));
    }

    #[test]
    fn a_field_that_is_left_out_has_not_moved_and_an_empty_option_tells_nothing() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_option(&option(1, [1001, 0, 0])), Some(0));
        assert_eq!(reported.read_option(&option(0, [0, 0, 0])), None);
    }

    #[test]
    fn options_are_ignored_when_the_first_was_zeroed() {
        let mut reported = Reported::START;
        reported.hear_first(&option(3, [0, 0, 1]));
        assert_eq!(reported.read_option(&option(2, [1001, 1000, 0])), None);
    }

    #[test]
    fn the_bytes_say_how_often_the_packet_counter_has_turned() {
        // 5 + 18 = 23 = 7 modulo 8: two packets, or ten, or eighteen.
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 20, Some(18_000), 1000, false), 18);
        assert_eq!(reported.packets, 23);
    }

    #[test]
    fn without_bytes_an_ack_for_more_than_seven_packets_counts_as_many_as_there_may_be() {
        let mut reported = Reported::START;
        for _ in 0..10 {
            assert_eq!(reported.read_ace(5, 2, None, 1000, false), 0);
        }
        // Of ten two or ten are marked.
        assert_eq!(reported.read_ace(7, 10, None, 1000, false), 10);
        assert_eq!(reported.packets, 15);
    }

    #[test]
    fn where_long_acks_are_the_rule_the_least_is_believed() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 10, None, 1000, false), 2);
    }

    #[test]
    fn freebsd_believes_the_most_however_long_the_acks_are() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 10, None, 1000, true), 10);
    }
}
