//! What is in memory of a connection during its life: its first packet, then its state, then its summary.

use crate::flow::{Connection, HalfCounters, Place, Seen, Way};
use crate::summary::FlowSummary;
use std::net::SocketAddr;
use tcpassay_units::{Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Options, Segment, Timestamps};

/// A connection of the table.
pub(crate) enum Life {
    /// One packet was seen. A capture of a scan or a flood of SYNs has millions of them.
    First(First),
    /// Several packets were seen.
    Open(Box<Connection>),
    /// It ended, or was silent for long, and its state gave room to others.
    Ended(Box<Ended>),
    /// The same, without data, or beyond the number of summaries that are kept.
    Forgotten,
}

/// Properties of a connection, for a second pass over the packets of the capture.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionFacts {
    /// The end that opened it, and the other.
    pub ends: [SocketAddr; 2],
    /// Both SYNs are in the capture, with their options.
    pub has_handshake: bool,
    /// The place at which the capture was taken, for the data of the end that opened the connection.
    pub place: Place,
    /// The largest payload of a segment, by the end that sends it.
    pub mss: [u64; 2],
    /// Counters, by the end that sends.
    pub counters: [HalfCounters; 2],
    /// All its packets; 0 if nothing of it is in memory any more.
    pub packets: u64,
    /// The shortest time in which each end answered, as it passed the capture point; `None` if no answer was seen.
    pub answers_in: [Option<Dur>; 2],
    /// The TTL of packets of each end that have passed routers before the capture point; `None` if it is one with which packets begin.
    pub routed: [Option<u8>; 2],
}

/// The summary of a connection.
pub(crate) struct Ended {
    pub facts: ConnectionFacts,
    pub flows: Vec<FlowSummary>,
}

impl Ended {
    /// Its first packet.
    pub fn start(&self) -> Time {
        self.flows.first().map_or(Time::ZERO, |flow| Time::from_nanos(flow.start_ns))
    }
}

/// The first packet of a connection, from which its state can be computed.
#[derive(Clone, Copy)]
pub(crate) struct First {
    at: Time,
    seq: SeqNum,
    ack: SeqNum,
    len: u32,
    /// The number of its flow; 0 without data.
    pub number: u32,
    stamps: Option<Timestamps>,
    flags: Flags,
    window: u16,
    urgent: u16,
    id: u16,
    checksum: u16,
    way: Way,
    mss: Option<u16>,
    scale: Option<u8>,
    ecn: Ecn,
    sack_permitted: bool,
    cut: bool,
    /// The end that sent it.
    pub from: u8,
}

impl First {
    /// `None` for a packet with options that are not kept.
    pub fn of(seen: &Seen<'_>, from: usize, number: u32) -> Option<First> {
        let segment = seen.segment;
        let options = &segment.options;
        let first = First {
            at: seen.at,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.len,
            number,
            stamps: options.timestamps,
            flags: segment.flags,
            window: segment.window,
            urgent: segment.urgent,
            id: seen.id,
            checksum: seen.checksum,
            way: seen.way,
            mss: options.mss,
            scale: options.window_scale,
            ecn: seen.ecn,
            sack_permitted: options.sack_permitted,
            cut: seen.cut,
            from: u8::from(from == 1),
        };
        (first.segment() == *segment).then_some(first)
    }

    fn segment(&self) -> Segment {
        Segment {
            seq: self.seq,
            ack: self.ack,
            len: self.len,
            flags: self.flags,
            window: self.window,
            urgent: self.urgent,
            options: Options {
                timestamps: self.stamps,
                mss: self.mss,
                window_scale: self.scale,
                sack_permitted: self.sack_permitted,
                ..Options::default()
            },
        }
    }

    /// It is a SYN, without data, of the end that opens the connection.
    pub fn is_syn(&self) -> bool {
        self.flags.has(Flags::SYN) && !self.flags.has(Flags::RST) && self.from == 0 && self.len == 0
    }

    /// The state of the connection after this packet.
    pub fn connection(&self, point: usize, ends: [SocketAddr; 2]) -> Connection {
        let segment = self.segment();
        let seen = Seen {
            at: self.at,
            ecn: self.ecn,
            id: self.id,
            checksum: self.checksum,
            way: self.way,
            segment: &segment,
            cut: self.cut,
        };
        begun(point, ends, usize::from(self.from), &seen, self.number)
    }
}

/// The state of a connection after its first packet. No round ends with it.
pub(crate) fn begun(
    point: usize,
    ends: [SocketAddr; 2],
    from: usize,
    seen: &Seen<'_>,
    number: u32,
) -> Connection {
    let mut connection = Connection::new(point, ends, seen.at);
    connection.packet(from, seen, &mut Vec::new());
    connection.halves[from].number = (number > 0).then_some(number);
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_one_packet_takes_little_memory() {
        assert!(size_of::<First>() <= 64, "{}", size_of::<First>());
        assert!(size_of::<Life>() <= 72, "{}", size_of::<Life>());
    }
}
