//! The byte counters of accurate ECN, and what the sender makes of them and of the ACE field.
//!
//! Sources: RFC 9768 sections 3.2.2.5.2 and 3.2.3; `tcp_accecn_process_option` and `__tcp_accecn_process` of Linux 6.18.
//!
//! Known differences: an option goes beside data only where the segment has room, the one of the handshake, too; what ACE cannot
//! tell without an option is decided as Linux does it, by how many packets an ACK acknowledges on average.

use super::Connection;
use crate::config::EcnMode;
use crate::recv::{ByteCounts, ace_of};
use tcpassay_wire::{AccEcn, Options, Segment};

/// What the peer has reported of accurate ECN, and what we still owe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    /// s.cep: packets with CE.
    pub packets: u64,
    /// s.e0b, s.ceb, s.e1b, of 24 bits.
    bytes: [u32; 3],
    /// The peer's first option was zeroed on its way (section 3.2.3.2.4).
    zeroed: bool,
    /// Packets that an ACK acknowledges, smoothed, in 64ths (`pkts_acked_ewma`).
    stretch: u64,
    /// A client's segments that still test the path (section 3.2.3.2.1).
    pub tests: u8,
}

impl Reported {
    pub(super) const START: Reported =
        Reported { packets: 5, bytes: ByteCounts::START, zeroed: false, stretch: 0, tests: 0 };

    /// The first option of the peer.
    fn hear_first(&mut self, option: &AccEcn) {
        self.zeroed = option.order().any(|field| field != 1 && option.counts[field] == 0);
    }

    /// Bytes newly reported as CE, where the option tells: what it leaves out has never moved.
    fn read_option(&mut self, option: &AccEcn) -> Option<u64> {
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
    fn read_ace(&mut self, ace: u64, packets: u64, marked: Option<u64>, mss: u64) -> u64 {
        let least = ace.wrapping_sub(self.packets) & 7;
        if packets > 0 {
            let now = packets << 6;
            self.stretch = if self.stretch == 0 { now } else { (self.stretch * 63 + now) >> 6 };
        }
        let news = match marked {
            // The counter has turned as often as the bytes say.
            Some(bytes) => least + (bytes.div_ceil(mss).saturating_sub(least) & !7),
            // The safest case, unless so long ACKs are the rule, in which nothing is missing.
            None if packets > 7 && self.stretch <= 4 << 6 => packets - ((packets - least) & 7),
            None => least,
        };
        self.packets += news;
        news
    }
}

impl Connection {
    /// The first segment in which the peer may tell of bytes: a SYN-ACK, or the ACK of ours.
    pub(super) fn first_accecn(&mut self, segment: &Segment) {
        if let Some(option) = segment.options.accecn() {
            self.reported.hear_first(&option);
        }
    }

    /// Bytes newly reported as CE by an ACK that acknowledges `acked` bytes.
    pub(super) fn read_accurate(&mut self, segment: &Segment, acked: u64) -> u64 {
        let mss = u64::from(self.send.mss32()).max(1);
        let marked = segment.options.accecn().and_then(|option| self.reported.read_option(&option));
        let packets = self.reported.read_ace(ace_of(segment.flags), acked.div_ceil(mss), marked, mss);
        marked.unwrap_or(packets * mss)
    }

    /// Puts the option on a segment of `len` bytes of payload, where there is something to tell and room for it: at most two SACK
    /// blocks stay beside it, and two are not given up for it (section 3.2.3.3).
    #[inline]
    pub(super) fn put_accecn(&mut self, options: &mut Options, len: u32) {
        if self.ecn == EcnMode::Accurate && self.cfg.ecn_option {
            self.put_option(options, len);
        }
    }

    #[cold]
    fn put_option(&mut self, options: &mut Options, len: u32) {
        const SPACE: u32 = 40;
        let tests = self.reported.tests > 0;
        self.reported.tests = self.reported.tests.saturating_sub(1);
        let Some(option) = self.recv.accecn(tests) else { return };
        let mut with = *options;
        if with.sack.len() > 2 {
            with.sack = with.sack.iter().take(2).copied().collect();
        }
        with.set_accecn(&option);
        let usual = if self.ts.on { 12 } else { 0 };
        if with.wire_len() <= SPACE && (len == 0 || with.wire_len() - usual + len <= self.send.mss32()) {
            *options = with;
        }
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
        assert_eq!(reported.read_ace(7, 20, Some(18_000), 1000), 18);
        assert_eq!(reported.packets, 23);
    }

    #[test]
    fn without_bytes_an_ack_for_more_than_seven_packets_counts_as_many_as_there_may_be() {
        let mut reported = Reported::START;
        for _ in 0..10 {
            assert_eq!(reported.read_ace(5, 2, None, 1000), 0);
        }
        // Of ten two or ten are marked.
        assert_eq!(reported.read_ace(7, 10, None, 1000), 10);
        assert_eq!(reported.packets, 15);
    }

    #[test]
    fn where_long_acks_are_the_rule_the_least_is_believed() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 10, None, 1000), 2);
    }
}
