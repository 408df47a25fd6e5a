//! What is in flight, in the unit of the window: bytes, or whole packets as in Linux (`tcp_packets_in_flight`).

use super::Sender;
use super::ack::AckContext;

/// The flight at the begin of a reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// RFC 5681's flight size.
    pub size: u64,
    /// The bytes of it that were not SACKed before.
    pub undelivered: u64,
}

impl Flight {
    pub(super) fn before(a: &AckContext) -> Flight {
        Flight { size: a.prior_out, undelivered: a.prior_undelivered() }
    }
}

impl Sender {
    /// The size of `bytes` in this number of packets, in the unit of the window: Linux counts packets (`tcp_cwnd_reduction`, `tcp_cong_avoid`),
    /// however short they are.
    #[inline]
    pub(super) fn delivered_size(&self, bytes: u64, packets: u64) -> u64 {
        if self.rules.counts_packets { packets * self.unit() } else { bytes }
    }

    /// A packet in the window: the segment size without the option of the present poll.
    #[inline]
    pub(super) fn unit(&self) -> u64 {
        self.mss + self.narrowed
    }

    /// Short segments may be outstanding, each of which counts as a whole one.
    #[inline]
    pub(super) fn counts_packets(&self) -> bool {
        self.rules.counts_packets && (self.short_end > self.scoreboard.una() || self.narrowed > 0)
    }

    /// The data in flight in the unit of the window (`tcp_packets_in_flight`). The records are counted only
    /// if a short segment may be among them.
    #[expect(clippy::inline_always, reason = "once for each packet")]
    #[inline(always)]
    pub(super) fn in_flight(&self) -> u64 {
        if self.counts_packets() { self.packets_in_flight() } else { self.pipe() }
    }

    #[inline(never)]
    fn packets_in_flight(&self) -> u64 {
        let packets = self.scoreboard.packets_in_flight(self.unit()) * self.unit();
        packets.saturating_sub(self.duplicates.bytes())
    }
}
