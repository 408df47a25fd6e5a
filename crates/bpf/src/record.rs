//! The records in which the BPF program reports the events of a connection: 128 bytes each, `struct record` in `src/bpf/shim.bpf.c`.
//!
//! Windows and counts are in packets, times in the units of the kernel. [`ControlledConnection`](crate::ControlledConnection) translates records into
//! events of `cc`.

use tcpassay_cc::Limited;
use tcpassay_states::CongestionState;

/// Bytes of a record in the ring.
pub const SIZE: usize = 128;

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The connection uses this controller from now on.
    Established,
    /// An ACK that acknowledged data or changed the scoreboard.
    Ack {
        /// The rate sample was limited by the application.
        app_limited: bool,
    },
    /// A reduction begins.
    Congestion {
        /// The cause is a CE mark. Otherwise it is a loss, or a drop by the sender's own queue, after which the kernel does not enter
        /// recovery.
        marked: bool,
    },
    /// A reduction or recovery ends.
    RecoveryExit {
        /// The reduction was spurious and is undone.
        spurious: bool,
    },
    /// The retransmission timer expired.
    Timeout {
        /// The same data have timed out before.
        again: bool,
    },
    /// Sending resumes after an idle time of more than an RTO.
    Resume,
    /// The socket closed or took another controller.
    Closed,
}

/// One event of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The time of the event in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// The number of the event in this connection, from 1. Numbers are missing if the ring was full.
    pub number: u64,
    /// The number of the event that the control in force answers; 0 without one.
    pub answered: u64,
    /// Payload bytes sent so far, with retransmissions.
    pub sent: u64,
    /// The number of the connection in this shim.
    pub connection: u32,
    /// The kind of the event.
    pub kind: RecordKind,
    /// The congestion state after the event.
    pub state: CongestionState,
    /// The limit of the sender.
    pub limited: Limited,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The window in force, in packets.
    pub cwnd: u32,
    /// The slow-start threshold in force, in packets; [`INFINITE`] before the first reduction.
    pub ssthresh: u32,
    /// Packets in flight.
    pub flight: u32,
    /// Smoothed round-trip time in microseconds; 0 when none.
    pub srtt: u32,
    /// Smallest round-trip time in microseconds, if any.
    pub min_rtt: Option<u32>,
    /// The number of round trips.
    pub round: u32,
    /// Ack: bytes newly acknowledged cumulatively.
    pub acked: u32,
    /// Ack: packets newly delivered.
    pub delivered: u32,
    /// Ack: packets newly marked lost.
    pub lost: u32,
    /// Ack: of those delivered, packets reported as marked.
    pub marked: u32,
    /// Ack: round-trip sample in microseconds.
    pub rtt: Option<u32>,
    /// Ack: rate sample, packets over microseconds.
    pub rate: Option<(u32, u32)>,
    /// Resume: the idle time in ticks of the kernel.
    pub idle: u32,
    /// Resume: the RTO in ticks.
    pub rto: u32,
    /// The initial window, in packets.
    pub initial: u32,
    /// Established and Closed: local and remote port.
    pub ports: (u16, u16),
}

/// `TCP_INFINITE_SSTHRESH` of the kernel.
pub const INFINITE: u32 = 0x7fff_ffff;

impl Record {
    /// Parses a record; `None` if the bytes are not one.
    pub fn read(bytes: &[u8]) -> Option<Record> {
        if bytes.len() != SIZE {
            return None;
        }
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let signed =
            |at: usize| u32::try_from(i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes")));
        let flag = |bit: u8| bytes[39] & bit != 0;
        let kind = match bytes[36] {
            1 => RecordKind::Established,
            2 => RecordKind::Ack { app_limited: flag(8) },
            3 => RecordKind::Congestion { marked: flag(1) },
            4 => RecordKind::RecoveryExit { spurious: flag(2) },
            5 => RecordKind::Timeout { again: flag(4) },
            6 => RecordKind::Resume,
            7 => RecordKind::Closed,
            _ => return None,
        };
        let state = match bytes[37] {
            0 => CongestionState::Open,
            1 => CongestionState::Disorder,
            2 => CongestionState::Cwr,
            3 => CongestionState::Recovery,
            4 => CongestionState::Loss,
            _ => return None,
        };
        let limited = match bytes[38] {
            0 => Limited::Cwnd,
            1 => Limited::App,
            2 => Limited::Rwnd,
            _ => return None,
        };
        let ports = word(112);
        Some(Record {
            at: long(0),
            number: long(8),
            answered: long(16),
            sent: long(24),
            connection: word(32),
            kind,
            state,
            limited,
            mss: word(40),
            cwnd: word(44),
            ssthresh: word(48),
            flight: word(52),
            srtt: word(60),
            min_rtt: Some(word(64)).filter(|&rtt| rtt != u32::MAX),
            round: word(68),
            acked: word(72),
            delivered: word(76),
            lost: word(80),
            marked: word(84),
            rtt: signed(88).ok(),
            rate: signed(96).ok().filter(|&us| us > 0).map(|us| (word(92), us)),
            idle: word(100),
            rto: word(104),
            initial: word(108),
            ports: ((ports >> 16) as u16, (ports & 0xffff) as u16),
        })
    }
}
