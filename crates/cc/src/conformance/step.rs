//! Steps of a connection's history.

use crate::Limited;

/// What happens next. A step that is impossible at its place (an ACK with nothing outstanding) does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The application, or the peer's window as `unless` says, has room for so many segments; the congestion window
    /// may stop the sender earlier.
    Send {
        /// Segments.
        segments: u8,
        /// What limits the sender when the congestion window does not.
        unless: Limited,
    },
    /// A cumulative ACK.
    Ack {
        /// Segments acknowledged, as far as so many are outstanding.
        segments: u8,
        /// Whether it echoes congestion marks.
        marked: bool,
        /// Queueing delay in its round-trip sample, milliseconds.
        queue: u8,
    },
    /// A SACK that leaves a hole and reports so many segments above it; when `lost`, the hole is now thought lost.
    Sack {
        /// Segments.
        segments: u8,
        /// Whether it proves loss.
        lost: bool,
    },
    /// An ACK proves the recovery under way false.
    Undo,
    /// The retransmission timer fires.
    Timeout,
    /// The exit rule of the data path from here on: so many segments, or none.
    ExitRule {
        /// Segments; 0 for no bound.
        segments: u8,
    },
    /// All outstanding data is acknowledged and the connection is idle for more than its RTO.
    Idle,
    /// Time passes, in milliseconds.
    Wait {
        /// Milliseconds.
        ms: u8,
    },
}

impl Step {
    /// A step for any number, the frequent ones for many. For generators, such as a proptest strategy over `u64`.
    pub fn from_bits(bits: u64) -> Step {
        let [kind, a, b, c, ..] = bits.to_le_bytes();
        match kind {
            0..90 => Step::Send { segments: a, unless: if b < 200 { Limited::App } else { Limited::Rwnd } },
            90..190 => Step::Ack { segments: 1 + a % 16, marked: b < 20, queue: c % 32 },
            190..210 => Step::Ack { segments: a, marked: b < 60, queue: c },
            210..220 => Step::Sack { segments: 1 + a % 8, lost: false },
            220..230 => Step::Sack { segments: 1 + a % 8, lost: true },
            230..234 => Step::Undo,
            234..238 => Step::Timeout,
            238..240 => Step::ExitRule { segments: a % 8 },
            240..243 => Step::Idle,
            _ => Step::Wait { ms: a },
        }
    }
}
