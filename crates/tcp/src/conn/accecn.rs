//! Accurate ECN in a connection: the byte counters, and the evaluation of the counters and of the ACE field
//! by the sender.
//!
//! Sources: RFC 9768 sections 3.2.2.5.2 and 3.2.3; `tcp_accecn_process_option` and `__tcp_accecn_process` of Linux 6.18.
//!
//! Functions that apply to both forms call `accecn_linux` for the form of Linux.
//!
//! Known differences: an ambiguous ACE field without an option is interpreted as in Linux, by the average number of packets that an ACK
//! acknowledges; whether only CE is reported is not checked (section 3.2.2.3).

use super::Connection;
use super::accecn_counters::{Newly, SPACE};
use super::ecn_negotiation::handshake_ace;
use crate::AccurateInfo;
use crate::config::EcnMode;
use crate::messages::Chunk;
use crate::recv::{ByteCounts, ace_of};
use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Flags, Options, Segment};

impl Connection {
    /// Processes the SYN-ACK that confirms accurate ECN at a client.
    pub(super) fn accurate_syn_ack(&mut self, segment: &Segment, ecn: Ecn) {
        if self.linux_ecn.is_some() {
            let counts = self.linux_syn_ack(segment, ecn);
            self.open.set_mark_counts(counts);
            return;
        }
        // The ACK of the SYN-ACK and the first data carry the option, to test whether the path drops it.
        self.reported.test_path(2);
        self.first_accecn(segment);
        self.open.forbid_ect(self.is_mangled(ace_of(segment.flags)));
    }

    /// Adds the option of a SYN-ACK, with as many fields as fit beside a Fast Open cookie.
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

    /// Processes the answer to a server's SYN-ACK (RFC 9768 table 4, for pure ACKs without SACK blocks).
    pub(super) fn accurate_third_ack(&mut self, segment: &Segment) {
        if self.linux_ecn.is_some() {
            self.linux_third_ack(segment);
            return;
        }
        self.first_accecn(segment);
        let ace = ace_of(segment.flags);
        if self.rules.trusts_ace {
            self.reported.start(ace == 0b110);
            return;
        }
        if segment.seq_len() > 0 || !segment.options.sack.is_empty() {
            return;
        }
        // If our SYN-ACK was marked, the count starts at 6 instead of 5.
        self.reported.start(ace == 0b110);
        self.open.ignore_ace(ace == 0);
        self.open.forbid_ect(self.open.ignores_ace() || self.is_mangled(ace));
    }

    /// The handshake's encoding reports our SYN or SYN-ACK with an ECN field that the network must not have
    /// set (section 3.2.2.3): the network must not change Not-ECT, nor ECT to Not-ECT.
    pub(super) fn is_mangled(&self, ace: u64) -> bool {
        if self.rules.trusts_ace {
            return false;
        }
        if self.syn_is_capable(self.open.is_passive()) {
            ace == 0b010
        } else {
            matches!(ace, 0b011 | 0b100 | 0b110)
        }
    }

    /// Disables ECT on all further packets.
    fn stop_ect(&mut self) {
        self.open.forbid_ect(true);
        self.send.stop_ect();
        self.mark_control();
    }

    /// Processes the option of the first segment in which the peer may report bytes: a SYN-ACK, or the ACK
    /// of our SYN-ACK.
    fn first_accecn(&mut self, segment: &Segment) {
        if let Some(option) = segment.options.accecn() {
            self.reported.hear_first(&option);
        }
    }

    /// A SYN or SYN-ACK arrived again in an established connection. The next ACK of a client reports the ECN field of a repeated SYN-ACK
    /// (section 3.2.2.1); in Linux, the next ACK of either end reports that of any repeated SYN or SYN-ACK.
    pub(super) fn accurate_syn_again(&mut self, segment: &Segment, ecn: Ecn) {
        let confirms = segment.flags.has(Flags::ACK) && !matches!(ace_of(segment.flags), 0 | 1 | 7);
        if self.cfg.ecn_form.is_linux() || confirms && !self.open.is_passive() {
            self.open.set_handshake_ace(handshake_ace(ecn));
        }
        if let Some(option) = segment.options.accecn() {
            self.linux_late_option(&option);
        }
    }

    /// Processes the ECN field of an acceptable segment, before its ACK and its data.
    pub(super) fn accurate_arrived(&mut self, segment: &Segment, start: u64, ecn: Ecn) {
        if self.linux_ecn.is_some() {
            self.linux_received(segment, start, ecn);
        } else if segment.seq_len() == 0 {
            self.recv.control_mark(ecn);
        }
    }

    /// Returns the bytes newly reported as CE by an ACK that is newer than the previous one; `None` if its
    /// counters are not valid.
    pub(super) fn read_accurate(&mut self, segment: &Segment, newly: Newly) -> Option<u64> {
        if self.linux_ecn.is_some() {
            return Some(self.read_linux(segment, newly));
        }
        let ace = ace_of(segment.flags);
        let trusts = self.rules.trusts_ace;
        if self.reported.take_first() && ace == 0 && !trusts {
            // Section 3.2.2.4: no counter starts at zero.
            self.open.ignore_ace(true);
            self.stop_ect();
        }
        if self.open.ignores_ace() {
            return None;
        }
        let mss = u64::from(self.send.mss32()).max(1);
        let marked = segment.options.accecn().and_then(|option| self.reported.read_option(&option));
        let packets = self.reported.read_ace(ace, newly.packets, marked, mss, trusts);
        // Section 3.2.3.2.5: the option reports bytes but ACE no packet, and ACE cannot have wrapped.
        if packets == 0 && newly.packets <= 7 && marked.is_some_and(|n| n > 0) {
            self.stop_ect();
        }
        Some(marked.unwrap_or(packets * mss))
    }

    /// Returns the next data to send. If the segment has an option, its data leave room for it.
    pub(super) fn poll_accurate(&mut self, now: Time) -> Option<Chunk> {
        let tests = self.reported.is_testing();
        let narrow = if !self.cfg.ecn_option {
            0
        } else if self.linux_ecn.is_some() {
            self.linux_room(now)
        } else {
            self.recv.accecn(tests).map_or(0, |option| option.wire_len().next_multiple_of(4))
        };
        self.reported.set_narrow(narrow);
        let chunk = self.send.poll_narrow(now, narrow, &mut self.log);
        if chunk.as_ref().is_none_or(|chunk| chunk.span.is_empty()) {
            self.reported.set_narrow(0);
        }
        chunk
    }

    /// Puts the option on a segment if a counter changed and there is room. At most two SACK blocks stay beside it,
    /// and the first two are not removed in its favour (section 3.2.3.3). Returns by how many bytes the packets are shorter than full ones.
    #[cold]
    pub(super) fn put_accecn(&mut self, now: Time, options: &mut Options, chunk: Option<&Chunk>) -> u32 {
        let narrow = self.reported.take_narrow();
        if self.linux_ecn.is_some() {
            self.put_linux_option(now, options);
            return narrow;
        }
        if !self.cfg.ecn_option {
            return 0;
        }
        let tests = self.reported.take_test();
        // Section 3.2.3.2.2: a client's first data are retransmitted without it.
        if chunk.is_some_and(|c| c.retransmission && c.span.start == 1) && !self.open.is_passive() {
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

    /// The part of [`Info`](crate::Info) about accurate ECN.
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
            delivered_ce: self.reported.packets() - 5,
            delivered_bytes: from_start(self.reported.bytes()),
            received_ce: self.recv.marked().0,
            received_bytes: self.recv.counted_bytes().map_or([0; 3], from_start),
            option_seen: if self.reported.is_zeroed() {
                3
            } else {
                2 * u8::from(self.reported.has_seen_option())
            },
            fail_mode: u8::from(self.open.forbids_ect()) << 1 | u8::from(self.reported.is_zeroed()) << 3,
        })
    }
}
