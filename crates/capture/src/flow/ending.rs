//! How a connection ended, as far as the capture shows it.

use serde::Serialize;
use std::net::SocketAddr;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_units::Time;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EndingKind {
    /// Neither a FIN nor a reset is in the capture.
    Open,
    /// One end sent a FIN, the other one did not.
    HalfClosed,
    /// Both ends sent a FIN.
    Closed,
    /// An end sent a reset before both had sent a FIN.
    Reset,
}

/// How a connection ended, for one of its flows. Times count from the first packet of the connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Ending {
    /// The kind.
    pub how: EndingKind,
    /// The end that sent the reset, or the first FIN.
    pub by: Option<String>,
    /// When it did.
    pub at_ns: Option<u64>,
    /// When the other end sent its FIN.
    pub other_at_ns: Option<u64>,
    /// Bytes of the flow that were not acknowledged at the reset, or at the end of the capture.
    pub outstanding: u64,
    /// The end of the reset went on sending: the reset was not its own, or had no effect.
    pub went_on: bool,
}

/// The first reset of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    from: usize,
    at: Time,
    outstanding: [u64; 2],
    went_on: bool,
}

/// The packets that end a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    fins: [Option<Time>; 2],
    reset: Option<Reset>,
}

impl Ends {
    /// An end sends a FIN.
    pub fn fin(&mut self, from: usize, at: Time) {
        self.fins[from] = self.fins[from].or(Some(at));
    }

    /// An end sends a reset.
    pub fn reset(&mut self, from: usize, at: Time, outstanding: [u64; 2]) {
        self.reset = self.reset.or(Some(Reset { from, at, outstanding, went_on: false }));
    }

    /// An end sends something else.
    pub fn other(&mut self, from: usize) {
        if let Some(reset) = &mut self.reset {
            reset.went_on |= reset.from == from;
        }
    }

    /// How a connection between `ends` that began at `first` ended, for the data of `sender`, of which `outstanding` bytes, or positions, are
    /// not acknowledged.
    pub fn ending(&self, ends: [SocketAddr; 2], first: Time, sender: usize, outstanding: u64) -> Ending {
        let Ends { fins, reset } = *self;
        let since = |at: Time| at.since(first).as_nanos();
        let name = |end: usize| Some(ends[end].to_string());
        // A FIN has a position.
        let outstanding = outstanding.saturating_sub(u64::from(fins[sender].is_some()));
        let none = Ending {
            how: EndingKind::Open,
            by: None,
            at_ns: None,
            other_at_ns: None,
            outstanding,
            went_on: false,
        };
        let closed = fins.iter().flatten().max().filter(|_| fins.iter().all(Option::is_some));
        if let Some(reset) = reset.filter(|reset| closed.is_none_or(|closed| reset.at < *closed)) {
            return Ending {
                how: EndingKind::Reset,
                by: name(reset.from),
                at_ns: Some(since(reset.at)),
                outstanding: reset.outstanding[sender],
                went_on: reset.went_on,
                ..none
            };
        }
        let earlier = match fins {
            [None, None] => return none,
            [Some(one), Some(other)] => usize::from(other < one),
            [one, _] => usize::from(one.is_none()),
        };
        Ending {
            how: if closed.is_some() { EndingKind::Closed } else { EndingKind::HalfClosed },
            by: name(earlier),
            at_ns: fins[earlier].map(since),
            other_at_ns: fins[1 - earlier].map(since),
            ..none
        }
    }
}
