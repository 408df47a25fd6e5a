//! Captures that the tests write: packets of one connection, and files around them.

use std::net::SocketAddr;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader, Round, Summary};
use tcpassay_units::SeqNum;
use tcpassay_wire::codec::{Content, Envelope, encode};
use tcpassay_wire::{Ecn, Flags, Options, SackBlock, Segment, Timestamps};

/// A packet: nanoseconds, and its bytes from the IP header on.
pub type Timed = (u64, Vec<u8>);

pub const CLIENT: &str = "192.0.2.1:40000";
pub const SERVER: &str = "192.0.2.2:80";

/// A segment in the making.
#[derive(Clone)]
pub struct Made {
    pub envelope: Envelope,
    pub segment: Segment,
}

pub fn from_to(from: &str, to: &str) -> Made {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let envelope = Envelope { from: address(from), to: address(to), ecn: Ecn::NotEct, id: 0, ttl: 64 };
    Made { envelope, segment: Segment { flags: Flags::ACK, window: 1000, ..Segment::default() } }
}

/// From the client (true) or the server.
pub fn by(client: bool) -> Made {
    if client { from_to(CLIENT, SERVER) } else { from_to(SERVER, CLIENT) }
}

impl Made {
    pub fn seq(mut self, seq: u32, len: u32) -> Made {
        (self.segment.seq, self.segment.len) = (SeqNum::new(seq), len);
        self
    }

    pub fn ack(mut self, ack: u32) -> Made {
        self.segment.ack = SeqNum::new(ack);
        self
    }

    pub fn flags(mut self, flags: Flags) -> Made {
        self.segment.flags = flags;
        self
    }

    pub fn window(mut self, window: u16) -> Made {
        self.segment.window = window;
        self
    }

    pub fn scale(mut self, shift: u8) -> Made {
        self.segment.options.window_scale = Some(shift);
        self
    }

    pub fn ecn(mut self, ecn: Ecn) -> Made {
        self.envelope.ecn = ecn;
        self
    }

    pub fn id(mut self, id: u16) -> Made {
        self.envelope.id = id;
        self
    }

    pub fn stamps(mut self, val: u32, ecr: u32) -> Made {
        self.segment.options.timestamps = Some(Timestamps { val, ecr });
        self
    }

    pub fn sack(mut self, start: u32, end: u32) -> Made {
        let block = SackBlock { start: SeqNum::new(start), end: SeqNum::new(end) };
        let blocks = self.segment.options.sack.iter().copied().chain([block]).collect();
        self.segment.options = Options { sack: blocks, ..self.segment.options };
        self
    }

    pub fn at_us(self, us: u64) -> Timed {
        let mut bytes = Vec::new();
        encode(&self.envelope, &Content::Tcp(self.segment), usize::MAX, &mut bytes).expect("a packet");
        (1_700_000_000_000_000_000 + us * 1000, bytes)
    }
}

/// A little-endian pcap file with nanoseconds.
pub fn pcap(link: u32, packets: &[Timed]) -> Vec<u8> {
    let mut file = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
    for word in [0, 0, 262_144, link] {
        file.extend(u32::to_le_bytes(word));
    }
    for (at, bytes) in packets {
        let len = u32::try_from(bytes.len()).expect("a packet");
        let (seconds, rest) = (at / 1_000_000_000, at % 1_000_000_000);
        for word in
            [u32::try_from(seconds).expect("32 bits"), u32::try_from(rest).expect("32 bits"), len, len]
        {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    file
}

/// Analyses a file.
pub fn analyse(file: &[u8]) -> (Summary, Vec<Round>) {
    analyse_as(file, AnalysisOptions::default())
}

pub fn analyse_as(file: &[u8], options: AnalysisOptions) -> (Summary, Vec<Round>) {
    let mut reader = Reader::new(file).expect("a capture");
    let mut analysis = Analysis::new(options);
    let mut rounds = Vec::new();
    while analysis.read(&mut reader, 1000) {
        rounds.extend(analysis.take_rounds());
    }
    rounds.extend(analysis.take_rounds());
    (analysis.summary(reader.interfaces()), rounds)
}

/// The handshake of a connection at its opener: SYN at 0, SYN-ACK after the round trip; both ISNs are 1000 and 5000, windows are
/// scaled by 7.
pub fn handshake(round_trip_us: u64) -> Vec<Timed> {
    vec![
        by(true).flags(Flags::SYN).seq(1000, 0).ack(0).window(64_000).scale(7).at_us(0),
        by(false)
            .flags(Flags::SYN | Flags::ACK)
            .seq(5000, 0)
            .ack(1001)
            .window(64_000)
            .scale(7)
            .at_us(round_trip_us),
        by(true).seq(1001, 0).ack(5001).window(500).at_us(round_trip_us),
    ]
}
