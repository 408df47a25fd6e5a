//! The counters of accurate ECN that both variants share, and those of the RFC's variant: the marks that the
//! peer has reported.
//!
//! Sources: RFC 9768 sections 3.2.2.5.2 and 3.2.3.

use crate::recv::ByteCounts;
use tcpassay_wire::AccEcn;

/// Bytes available for options in a header.
pub(super) const SPACE: u32 = 40;

/// The smoothed number of packets that an ACK acknowledges, in units of 1/64 (`pkts_acked_ewma` of Linux).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Stretch(u64);

impl Stretch {
    /// The largest value of Linux's 16-bit field.
    pub const MOST: Stretch = Stretch(0xffff);

    /// An ACK acknowledged this many packets.
    pub fn acked(&mut self, packets: u64) {
        if packets > 0 {
            let now = packets << 6;
            self.0 = if self.0 == 0 { now } else { (self.0 * 63 + now) >> 6 };
        }
    }

    /// Whether ACKs acknowledge more than four packets on average.
    pub fn is_long(self) -> bool {
        self.0 > 4 << 6
    }
}

/// The marks that the peer has reported (accurate ECN), and those that this end has not yet reported.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    /// s.cep: packets with CE.
    packets: u64,
    /// s.e0b, s.ceb, s.e1b, of 24 bits.
    bytes: [u32; 3],
    /// The peer's first option was zeroed on its way (section 3.2.3.2.4).
    zeroed: bool,
    stretch: Stretch,
    /// Number of further segments with which a client tests the path (section 3.2.3.2.1).
    tests: u8,
    /// True until the first report of the peer after the handshake.
    first: bool,
    /// True if the timestamp of the current segment is newer than any before.
    newer: bool,
    /// An option of the peer's was seen.
    option_seen: bool,
    /// Bytes by which the segment under construction is shorter than a full one, for the option.
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
        option_seen: false,
        narrow: 0,
    };

    /// Packets with CE that the peer has reported; the count starts at 5.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The peer's first ACK reported the ECN field of our SYN-ACK. With CE (`marked`) the count starts at 6.
    pub fn start(&mut self, marked: bool) {
        self.packets = if marked { 6 } else { 5 };
    }

    /// Bytes that the peer has reported for each field.
    pub fn bytes(&self) -> [u32; 3] {
        self.bytes
    }

    /// The next `segments` test whether the path carries the option.
    pub fn test_path(&mut self, segments: u8) {
        self.tests = segments;
    }

    /// The segment that leaves now tests the path.
    pub fn is_testing(&self) -> bool {
        self.tests > 0
    }

    /// A segment leaves now. Returns whether it tests the path.
    pub fn take_test(&mut self) -> bool {
        let tests = self.is_testing();
        self.tests = self.tests.saturating_sub(1);
        tests
    }

    /// Whether this is the first counter that the peer reports after the handshake.
    pub fn take_first(&mut self) -> bool {
        std::mem::take(&mut self.first)
    }

    /// Whether the timestamp of the segment that is being read is newer than any before.
    pub fn set_newer(&mut self, newer: bool) {
        self.newer = newer;
    }

    pub fn take_newer(&mut self) -> bool {
        std::mem::take(&mut self.newer)
    }

    /// Bytes by which the segment under construction is shorter than a full one, for the option.
    pub fn set_narrow(&mut self, bytes: u32) {
        self.narrow = bytes;
    }

    pub fn take_narrow(&mut self) -> u32 {
        std::mem::take(&mut self.narrow)
    }

    /// The peer's first option was zeroed on its way.
    pub fn is_zeroed(&self) -> bool {
        self.zeroed
    }

    /// An option of the peer was seen.
    pub fn has_seen_option(&self) -> bool {
        self.option_seen
    }

    /// The first option of the peer.
    pub fn hear_first(&mut self, option: &AccEcn) {
        self.option_seen = true;
        self.zeroed = option.order().any(|field| field != 1 && option.counts[field] == 0);
    }

    /// Bytes newly reported as CE, if the option is valid. A counter that it omits has never changed.
    pub fn read_option(&mut self, option: &AccEcn) -> Option<u64> {
        self.option_seen = true;
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

    /// Returns the number of newly marked packets, derived from the three bits of the counter, for an ACK of
    /// `packets` packets; `marked`: bytes newly reported as CE, if known. `safest`: assume the largest
    /// possible number regardless of the usual length of ACKs (`tcp_ecn_input_segment` of FreeBSD).
    pub fn read_ace(&mut self, ace: u64, packets: u64, marked: Option<u64>, mss: u64, safest: bool) -> u64 {
        let least = ace.wrapping_sub(self.packets) & 7;
        self.stretch.acked(packets);
        let news = match marked {
            // The bytes determine how often the counter wrapped.
            Some(bytes) => least + (bytes.div_ceil(mss).saturating_sub(least) & !7),
            // The safest case, unless ACKs of this length are common, so that probably no ACK is missing.
            None if packets > 7 && (safest || !self.stretch.is_long()) => packets - ((packets - least) & 7),
            None => least,
        };
        self.packets += news;
        news
    }
}

/// The data that an ACK newly acknowledges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newly {
    pub bytes: u64,
    pub packets: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(fields: u8, counts: [u32; 3]) -> AccEcn {
        AccEcn { e1b_first: false, fields, counts }
    }

    #[test]
    fn counters_of_24_bits_wrap_around() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_option(&option(2, [1001, 0xff_ff00, 0])), Some(0xff_ff00));
        assert_eq!(reported.read_option(&option(2, [1001, 0x100, 0])), Some(0x200));
    }

    #[test]
    fn an_omitted_field_has_not_changed_and_an_empty_option_reports_nothing() {
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
    fn the_bytes_determine_how_often_the_packet_counter_wrapped() {
        // 5 + 18 = 23 = 7 modulo 8: two packets, or ten, or eighteen.
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 20, Some(18_000), 1000, false), 18);
        assert_eq!(reported.packets(), 23);
    }

    #[test]
    fn without_bytes_an_ack_for_more_than_seven_packets_counts_as_many_as_there_may_be() {
        let mut reported = Reported::START;
        for _ in 0..10 {
            assert_eq!(reported.read_ace(5, 2, None, 1000, false), 0);
        }
        // Of ten packets, two or ten are marked.
        assert_eq!(reported.read_ace(7, 10, None, 1000, false), 10);
        assert_eq!(reported.packets(), 15);
    }

    #[test]
    fn with_usually_long_acks_the_smallest_number_is_assumed() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 10, None, 1000, false), 2);
    }

    #[test]
    fn freebsd_assumes_the_largest_number_regardless_of_the_length_of_acks() {
        let mut reported = Reported::START;
        assert_eq!(reported.read_ace(7, 10, None, 1000, true), 10);
    }
}
