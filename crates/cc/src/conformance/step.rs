//! The steps of a connection's history.

use crate::Limited;

/// A step. A step that is impossible in the current state (an ACK with nothing outstanding) has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistoryStep {
    /// The application (or the peer's window, see `unless`) allows this number of segments; the congestion window may
    /// limit the sender to fewer.
    Send {
        /// Segments.
        segments: u8,
        /// The limit of the sender if the congestion window does not limit it.
        unless: Limited,
    },
    /// A cumulative ACK.
    Ack {
        /// Number of acknowledged segments, limited to the outstanding ones.
        segments: u8,
        /// Whether the ACK echoes congestion marks.
        marked: bool,
        /// Queueing delay in its round-trip time sample in milliseconds.
        queue: u8,
    },
    /// A SACK that leaves a hole and reports this number of segments above it. With `lost` the hole is marked lost.
    Sack {
        /// Segments.
        segments: u8,
        /// Whether it proves loss.
        lost: bool,
    },
    /// An ACK proves the current recovery spurious.
    Undo,
    /// The retransmission timer fires.
    Timeout,
    /// Sets the exit rule of the data path: a number of segments, or no bound.
    ExitRule {
        /// Number of segments; 0 means no bound.
        segments: u8,
    },
    /// All outstanding data is acknowledged, and the connection is idle for longer than its RTO.
    Idle,
    /// Time passes, in milliseconds.
    Wait {
        /// Milliseconds.
        ms: u8,
    },
}

impl HistoryStep {
    /// Converts a number to a step; frequent steps have more numbers. For generators such as a proptest strategy over
    /// `u64`.
    pub fn from_bits(bits: u64) -> HistoryStep {
        let [kind, a, b, c, ..] = bits.to_le_bytes();
        match kind {
            0..90 => {
                HistoryStep::Send { segments: a, unless: if b < 200 { Limited::App } else { Limited::Rwnd } }
            }
            90..190 => HistoryStep::Ack { segments: 1 + a % 16, marked: b < 20, queue: c % 32 },
            190..210 => HistoryStep::Ack { segments: a, marked: b < 60, queue: c },
            210..220 => HistoryStep::Sack { segments: 1 + a % 8, lost: false },
            220..230 => HistoryStep::Sack { segments: 1 + a % 8, lost: true },
            230..234 => HistoryStep::Undo,
            234..238 => HistoryStep::Timeout,
            238..240 => HistoryStep::ExitRule { segments: a % 8 },
            240..243 => HistoryStep::Idle,
            _ => HistoryStep::Wait { ms: a },
        }
    }
}
