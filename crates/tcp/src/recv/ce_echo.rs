//! The echo of ECN marks: the state and the flags by which the receiver reports marks to the sender.
//!
//! Sources: RFC 3168 section 6.1.3 (classic), RFC 8257 section 3.2 (DCTCP), RFC 9768 section 3.2 (accurate);
//! `__tcp_ecn_check_ce` and `tcp_dctcp.c` of Linux 4.6 for the state machine as it was built.

use tcpassay_wire::{AccEcn, Ecn, Flags};

/// State of the echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Echo {
    /// ECN is not in force.
    #[default]
    Off,
    /// ECE is latched by CE and released by CWR.
    Classic {
        /// True while ECE is set.
        ece: bool,
    },
    /// ECE is the mark of the acknowledged segments.
    Dctcp {
        /// The last segment carried CE.
        ce: bool,
    },
    /// Packets with CE are counted; the low three bits go into every ACK.
    Accurate {
        /// r.cep: packets with CE, from 5 on.
        packets: u64,
        /// r.cep when the last ACK left.
        reported: u64,
        /// The last segment carried CE.
        ce: bool,
        /// Bytes with each field.
        bytes: ByteCounts,
    },
    /// Accurate ECN as in Linux, where the connection contains the counters.
    Counted {
        /// Packets with CE.
        packets: u64,
        /// The value of `packets` at the last ACK.
        reported: u64,
    },
}

/// The byte counters of accurate ECN (RFC 9768 section 3.2.1), of which the option holds 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ByteCounts {
    /// r.e0b, r.ceb, r.e1b.
    counts: [u32; 3],
    /// The counters that have ever changed.
    moved: [bool; 3],
    /// True if a counter changed since the last ACK.
    news: bool,
}

impl ByteCounts {
    /// The initial values at both ends.
    pub(crate) const START: [u32; 3] = [1, 0, 1];

    /// The option of a SYN-ACK, with this number of fields.
    pub(crate) fn first(e1b_first: bool, fields: u8) -> AccEcn {
        AccEcn::of(e1b_first, fields, ByteCounts::START)
    }

    /// r.e0b, r.ceb and r.e1b as the option has them.
    pub(crate) fn counts(&self) -> [u32; 3] {
        self.counts
    }

    #[inline(never)]
    fn add(&mut self, field: Ecn, bytes: u32) {
        let counter = match field {
            Ecn::NotEct => return,
            Ecn::Ect0 => 0,
            Ecn::Ce => 1,
            Ecn::Ect1 => 2,
        };
        self.counts[counter] = self.counts[counter].wrapping_add(bytes) & 0xff_ffff;
        self.moved[counter] = true;
        self.news = true;
    }

    /// Section 3.2.3.3, the recommended scheme: if a counter changed since the last ACK, the option has every counter that ever changed.
    /// In the handshake it has all counters (section 3.2.3.2.1).
    fn option(&self, handshake: bool) -> Option<AccEcn> {
        let [e0b, ceb, e1b] = self.moved.map(|moved| moved || handshake);
        let e1b_first = e1b && !e0b;
        let fields = if e0b && e1b { 3 } else { 1 + u8::from(ceb) };
        (self.news || handshake).then(|| AccEcn::of(e1b_first, fields, self.counts))
    }
}

/// The effect of the mark of a data segment on acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    /// Nothing.
    Nothing,
    /// The sender's window may be small: acknowledge quickly (Linux enters quick-ack mode).
    Quick,
    /// DCTCP: the mark changed; the state before was this.
    Changed {
        /// ECE of the ACK of the segments before.
        was: bool,
    },
    /// Accurate ECN: the first mark, or enough new marks, are reported at once (RFC 9768 section 3.2.2.5.1).
    ReportNow,
}

impl Echo {
    /// ECE (or ACE) bits of a segment sent now.
    #[inline]
    pub(crate) fn flags(&self) -> Flags {
        match *self {
            Echo::Off | Echo::Classic { ece: false } | Echo::Dctcp { ce: false } => Flags::NONE,
            Echo::Classic { ece: true } | Echo::Dctcp { ce: true } => Flags::ECE,
            Echo::Accurate { packets, .. } => ace(packets),
            Echo::Counted { packets, .. } => ace(5 + packets),
        }
    }

    /// A segment with CWR arrived: the sender has reduced its window (RFC 3168 section 6.1.3). With DCTCP the next mark decides.
    pub(crate) fn cwr(&mut self) {
        if let Echo::Classic { ece } = self {
            *ece = false;
        }
    }

    /// A mark is echoed until CWR arrives (classic ECN).
    pub(crate) fn latch(&mut self) {
        if let Echo::Classic { ece } = self {
            *ece = true;
        }
    }

    /// Accurate ECN, with `marked` packets in the handshake.
    pub(crate) fn accurate(marked: u64) -> Echo {
        let bytes = ByteCounts { counts: ByteCounts::START, moved: [false; 3], news: false };
        Echo::Accurate { packets: 5 + marked, reported: 5 + marked, ce: false, bytes }
    }

    /// The option that an ACK which leaves now should carry.
    pub(crate) fn option(&self, handshake: bool) -> Option<AccEcn> {
        match self {
            Echo::Accurate { bytes, .. } => bytes.option(handshake),
            _ => None,
        }
    }

    /// A data segment of `packets` wire packets, with `len` bytes, arrived with this field.
    #[inline]
    pub(crate) fn data(&mut self, field: Ecn, packets: u64, len: u64) -> Response {
        match self {
            Echo::Classic { ece } => match field {
                Ecn::Ce if !*ece => {
                    *ece = true;
                    Response::Quick
                }
                // Probably a retransmission: its sender waits.
                Ecn::NotEct => Response::Quick,
                _ => Response::Nothing,
            },
            Echo::Dctcp { ce } => {
                // In Linux a Not-ECT segment (a retransmission) does not change the state of the echo.
                if field == Ecn::NotEct {
                    return Response::Quick;
                }
                let was = *ce;
                *ce = field == Ecn::Ce;
                if was == *ce { Response::Nothing } else { Response::Changed { was } }
            }
            // Probably a retransmission, as in classic ECN.
            Echo::Counted { .. } if field == Ecn::NotEct => Response::Quick,
            Echo::Off | Echo::Counted { .. } => Response::Nothing,
            Echo::Accurate { packets: n, reported, ce, bytes } => {
                bytes.add(field, u32::try_from(len).expect("a segment is below 4 GB"));
                let changed = std::mem::replace(ce, field == Ecn::Ce) != *ce;
                if field != Ecn::Ce {
                    return Response::Nothing;
                }
                *n += packets;
                // "Change-Triggered ACKs" and "Increment-Triggered ACKs", with n = 2.
                if changed || *n - *reported >= 2 { Response::ReportNow } else { Response::Nothing }
            }
        }
    }

    /// A packet without payload arrived. Returns whether it has to be answered: the third with CE that no ACK has reported
    /// (RFC 9768 section 3.2.2.5.1).
    pub(crate) fn control(&mut self, field: Ecn) -> bool {
        let Echo::Accurate { packets, reported, ce, .. } = self else { return false };
        *ce = field == Ecn::Ce;
        *packets += u64::from(*ce);
        *ce && *packets - *reported >= 3
    }

    /// An ACK left.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self) {
        match self {
            Echo::Accurate { packets, reported, bytes, .. } => {
                *reported = *packets;
                bytes.news = false;
            }
            Echo::Counted { packets, reported } => *reported = *packets,
            _ => {}
        }
    }
}

/// The ACE field of a counter (RFC 9768 section 3.2.2: AE is its highest bit).
fn ace(counter: u64) -> Flags {
    let mut flags = Flags::NONE;
    for (bit, flag) in [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)] {
        if counter & bit != 0 {
            flags |= flag;
        }
    }
    flags
}

/// The counter modulo 8 in the ACE field of `flags`.
pub(crate) fn ace_of(flags: Flags) -> u64 {
    u64::from(flags.has(Flags::AE)) << 2
        | u64::from(flags.has(Flags::CWR)) << 1
        | u64::from(flags.has(Flags::ECE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_ece_stays_until_cwr_however_many_unmarked_segments_come() {
        let mut echo = Echo::Classic { ece: false };
        assert_eq!(echo.data(Ecn::Ce, 1, 1000), Response::Quick);
        assert_eq!(echo.data(Ecn::Ect0, 1, 1000), Response::Nothing);
        assert_eq!(echo.flags(), Flags::ECE);
        echo.cwr();
        assert_eq!(echo.flags(), Flags::NONE);
    }

    #[test]
    fn dctcp_ece_is_the_mark_of_the_last_segment() {
        let mut echo = Echo::Dctcp { ce: false };
        assert_eq!(echo.data(Ecn::Ce, 1, 1000), Response::Changed { was: false });
        assert_eq!(echo.data(Ecn::Ce, 1, 1000), Response::Nothing);
        assert_eq!(echo.flags(), Flags::ECE);
        assert_eq!(echo.data(Ecn::Ect0, 1, 1000), Response::Changed { was: true });
        assert_eq!(echo.flags(), Flags::NONE);
    }

    #[test]
    fn accurate_ace_counts_marked_packets_from_5_modulo_8() {
        let mut echo = Echo::accurate(0);
        assert_eq!(ace_of(echo.flags()), 5);
        echo.data(Ecn::Ce, 2, 2 * 1000);
        assert_eq!(ace_of(echo.flags()), 7);
        echo.data(Ecn::Ce, 4, 4 * 1000);
        assert_eq!(ace_of(echo.flags()), 3);
        assert_eq!(echo.flags(), Flags::CWR | Flags::ECE);
    }

    #[test]
    fn accurate_ecn_reports_a_first_mark_at_once_and_then_every_second_one() {
        // RFC 9768 section 3.2.2.5.1.
        let mut echo = Echo::accurate(0);
        for response in [
            Response::ReportNow,
            Response::Nothing,
            Response::ReportNow,
            Response::Nothing,
            Response::ReportNow,
        ] {
            assert_eq!(echo.data(Ecn::Ce, 1, 1000), response);
            if response == Response::ReportNow {
                echo.on_ack_sent();
            }
        }
        assert_eq!(echo.data(Ecn::Ect0, 1, 1000), Response::Nothing, "the change back is not reported");
        assert_eq!(echo.data(Ecn::Ce, 1, 1000), Response::ReportNow);
    }

    #[test]
    fn the_option_has_every_counter_that_ever_moved_in_the_order_that_takes_least() {
        // RFC 9768 section 3.2.3.3; counters start at 1, 0 and 1 (section 3.2.1).
        let seen = |fields: &[Ecn]| {
            let mut echo = Echo::accurate(0);
            for &field in fields {
                echo.data(field, 1, 1000);
            }
            echo.option(false).map(|o| (o.e1b_first, o.order().map(|i| o.counts[i]).collect::<Vec<_>>()))
        };
        assert_eq!(seen(&[]), None);
        assert_eq!(seen(&[Ecn::NotEct]), None);
        assert_eq!(seen(&[Ecn::Ect0, Ecn::Ect0]), Some((false, vec![2001])));
        assert_eq!(seen(&[Ecn::Ect0, Ecn::Ce]), Some((false, vec![1001, 1000])));
        assert_eq!(seen(&[Ecn::Ce]), Some((false, vec![1, 1000])));
        assert_eq!(seen(&[Ecn::Ect1]), Some((true, vec![1001])));
        assert_eq!(seen(&[Ecn::Ect1, Ecn::Ce]), Some((true, vec![1001, 1000])));
        assert_eq!(seen(&[Ecn::Ect0, Ecn::Ect1]), Some((false, vec![1001, 0, 1001])));
    }

    #[test]
    fn the_option_goes_when_a_counter_has_moved_since_the_last_ack() {
        let mut echo = Echo::accurate(0);
        assert_eq!(
            echo.option(true).map(|o| (o.fields, o.counts)),
            Some((3, [1, 0, 1])),
            "in the handshake all"
        );
        echo.data(Ecn::Ect0, 1, 1000);
        assert!(echo.option(false).is_some());
        echo.on_ack_sent();
        assert_eq!(echo.option(false), None);
    }
}
