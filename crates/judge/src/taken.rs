//! The outstanding data of an end, and what an ACK takes from them.

use tcpassay_units::{Dur, Time};

/// A range of positions that was sent and is not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    pub start: u64,
    pub end: u64,
    pub first: Time,
    pub last: Time,
    pub tries: u32,
    pub sacked: bool,
}

/// The data that an ACK newly acknowledged or SACKed.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of an ACK")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    /// Bytes by which SND.UNA advanced.
    pub acked: u64,
    /// Bytes newly SACKed, or acknowledged without having been SACKed before.
    pub delivered: u64,
    /// Like `delivered`, but each packet counts as a full segment whatever its length, because Linux's
    /// window counts packets.
    pub in_packets: u64,
    /// True if a part of the newly delivered data had been sent more than once.
    pub again: bool,
    /// True if a part of the newly delivered data had been sent once.
    pub once: bool,
    /// True if SND.UNA passed data that had been sent more than once and had not been SACKed.
    pub acked_again: bool,
    /// Like `acked_again`, without the first part of a segment whose rest is not acknowledged.
    pub acked_again_whole: bool,
    /// True if a SACK block newly reported data that had been sent once.
    pub sacked_once: bool,
    /// The reordering that this ACK shows, in bytes: the distance from an original transmission that was
    /// delivered now to the highest position known to be delivered before.
    pub late: u64,
    /// Bytes that a DSACK block reports.
    pub dsacked: u64,
    /// The round-trip time of the newest data that the ACK acknowledges; `None` if they were sent more than
    /// once.
    pub sample: Option<Dur>,
    /// The round-trip time of the oldest data that SND.UNA passed and that had not been SACKed, if nothing that it passed was sent again: the
    /// sample of Linux (`tcp_clean_rtx_queue`).
    pub oldest: Option<Dur>,
    /// The least and the largest round-trip time of newly SACKed data that were sent once.
    pub sacked: Option<(Dur, Dur)>,
    /// The shortest and the longest time since a transmission of data that the ACK acknowledges or newly SACKs.
    pub span: Option<(Dur, Dur)>,
}

impl Taken {
    /// Records the delivery of `sent` at `at`.
    pub fn spans(&mut self, sent: &Sent, at: Time) {
        let (least, most) = self.span.unwrap_or((Dur::MAX, Dur::ZERO));
        self.span = Some((least.min(at.since(sent.last)), most.max(at.since(sent.first))));
    }
}
