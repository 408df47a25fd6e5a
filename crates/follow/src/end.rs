//! One end of a connection, as its log tells it.

use crate::inside::Told;
use std::sync::Arc;
use tcpassay_cc::Params;
use tcpassay_tcp::Config;
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// What happened at an end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Row {
    /// A segment arrived; several packets that the NIC merged are one.
    In {
        /// The segment.
        segment: Segment,
        /// Its ECN field.
        ecn: Ecn,
        /// The number of packets.
        packets: u16,
        /// Payload of each packet but the last.
        size: u32,
    },
    /// A segment left.
    Out {
        /// The segment.
        segment: Segment,
        /// Its ECN field.
        ecn: Ecn,
    },
    /// The application wrote.
    Write {
        /// Bytes that the connection took in this row.
        taken: Bytes,
        /// Bytes of the whole call; `None` in a further row of the same call.
        asked: Option<Bytes>,
    },
    /// The application read so many bytes.
    Read(Bytes),
    /// The application closed its sending direction.
    Shutdown,
    /// The application closed the connection.
    Close,
}

impl Row {
    /// Whether the application made a call.
    pub(crate) fn is_call(&self) -> bool {
        !matches!(self, Row::In { .. } | Row::Out { .. })
    }
}

/// The system that wrote the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Substrate {
    /// The model: rows are in the order in which things happened.
    Model,
    /// A Linux kernel: if its log does not tell the order within an instant, arrivals come first, then calls, then departures.
    Kernel,
}

/// The settings of an end.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the log and the application")]
pub struct Setup {
    /// The system that wrote the log.
    pub substrate: Substrate,
    /// The settings of the stack.
    pub config: Arc<Config>,
    /// The controller.
    pub cc: String,
    /// The parameters of the controller.
    pub params: Params,
    /// It opened the connection.
    pub active: bool,
    /// `app.linger`.
    pub linger: Option<Dur>,
    /// The log has the reads of the application; otherwise it reads at once what arrives.
    pub reads_are_logged: bool,
    /// An application that reads everything that is there whenever it reads.
    pub reads_everything: bool,
    /// The NIC merges packets that arrive.
    pub merges: bool,
    /// The log has packets, not the segments that the stack hands to the NIC.
    pub in_packets: bool,
    /// The rows are in the order in which things happened, also those of one instant.
    pub in_order: bool,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct End {
    /// The flow that it sends, an index of the recording.
    pub flow: u32,
    /// Its host, an index of the recording.
    pub host: u32,
    /// Its settings.
    pub setup: Setup,
    /// What happened, in order.
    pub rows: Vec<(Time, Row)>,
    /// What a kernel told of its congestion control, in order of time; empty if the log lacks it.
    pub inside: Vec<(Time, Told)>,
    /// Until when the log is complete.
    pub until: Time,
}

impl End {
    /// The first SYN that left, and when.
    pub(crate) fn syn(&self) -> Option<(Time, Segment)> {
        self.rows.iter().find_map(|(at, row)| match row {
            Row::Out { segment, .. } if segment.flags.has(Flags::SYN) => Some((*at, *segment)),
            _ => None,
        })
    }

    /// Initial sequence numbers of this end and its peer.
    pub(crate) fn initial(&self) -> (SeqNum, SeqNum) {
        let peer = self.rows.iter().find_map(|(_, row)| match row {
            Row::In { segment, .. } if segment.flags.has(Flags::SYN) => Some(segment.seq),
            _ => None,
        });
        (self.syn().map(|(_, syn)| syn.seq).unwrap_or_default(), peer.unwrap_or_default())
    }
}
