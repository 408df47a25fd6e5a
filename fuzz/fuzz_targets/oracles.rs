//! Captures of one connection that the bytes choose, whole or damaged, through all oracles: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_capture::{Analysis, AnalysisOptions, Reader};
use tcpassay_judge::{ORACLES, capture, judge};
use tcpassay_units::SeqNum;
use tcpassay_wire::codec::{Content, Envelope, encode};
use tcpassay_wire::{Ecn, Flags, Options, SackBlock, Segment, Timestamps};

/// Bytes as choices; zeros when they are used up.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }
    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
    /// Mostly near zero, either way.
    fn near(&mut self) -> u32 {
        let (kind, word) = (self.byte() % 4, u32::from(self.word()));
        match kind {
            0 => 0,
            1 => word,
            2 => 0u32.wrapping_sub(word),
            _ => word.wrapping_mul(1448),
        }
    }
}

/// A pcap file with nanoseconds and raw IP.
struct File {
    bytes: Vec<u8>,
    /// Nanoseconds since 1970.
    now: u64,
}

impl File {
    fn new() -> File {
        let mut bytes = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
        for word in [0, 0, 262_144_u32, 101] {
            bytes.extend(word.to_le_bytes());
        }
        File { bytes, now: 1_700_000_000_000_000_000 }
    }

    fn put(&mut self, from: usize, segment: Segment, ecn: Ecn) {
        let ends = ["192.0.2.1:40000", "192.0.2.2:80"].map(|end| end.parse().expect("an address"));
        let envelope = Envelope { from: ends[from], to: ends[1 - from], ecn, id: 0, ttl: 64 };
        let mut packet = Vec::new();
        if encode(&envelope, &Content::Tcp(segment), usize::MAX, &mut packet).is_err() {
            return;
        }
        // The headers suffice.
        let len = u32::try_from(packet.len()).expect("a packet");
        packet.truncate(80);
        let kept = u32::try_from(packet.len()).expect("80");
        let seconds = u32::try_from(self.now / 1_000_000_000).unwrap_or(u32::MAX);
        let rest = u32::try_from(self.now % 1_000_000_000).expect("below 10^9");
        for word in [seconds, rest, kept, len] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(packet);
    }
}

/// A connection at one of its ends.
fn connection(choices: &mut Choices) -> Vec<u8> {
    let mut file = File::new();
    let stamps = choices.byte() & 1 == 0;
    let end = usize::from(choices.byte() & 1);
    let waits: [u64; 2] = if end == 0 { [1_000_000, 1_000] } else { [1_000, 1_000_000] };
    let mut next = [1000_u32, 5000].map(SeqNum::new);
    let mut clock = [7_u32, 9];
    for (from, flags, wait) in [(0, Flags::SYN, 0), (1, Flags::SYN | Flags::ACK, waits[0]), (0, Flags::ACK, waits[1])] {
        file.now += wait;
        let options = Options {
            mss: flags.has(Flags::SYN).then_some(1460),
            window_scale: flags.has(Flags::SYN).then_some(7),
            sack_permitted: flags.has(Flags::SYN),
            timestamps: stamps.then(|| Timestamps { val: clock[from], ecr: clock[1 - from] }),
            ..Options::default()
        };
        let ack = if flags == Flags::SYN { SeqNum::new(0) } else { next[1 - from] };
        file.put(from, Segment { seq: next[from], ack, flags, window: 64_000, options, ..Segment::default() }, Ecn::NotEct);
        next[from] = if flags.has(Flags::SYN) { next[from] + 1 } else { next[from] };
    }
    while !choices.0.is_empty() {
        let kind = choices.byte();
        let from = usize::from(kind & 1);
        file.now = match kind >> 1 & 7 {
            0 => file.now.saturating_add(u64::from(choices.word()) << (choices.byte() % 48)),
            1 => file.now.saturating_sub(u64::from(choices.word()) << (choices.byte() % 48)),
            2 => file.now.saturating_add(200_000_000),
            _ => file.now + u64::from(choices.word()) * 100,
        };
        clock[from] = clock[from].wrapping_add(u32::from(choices.byte()));
        let mut flags = Flags::ACK;
        let bits = choices.byte();
        for (bit, flag) in [(1, Flags::PSH), (2, Flags::ECE), (4, Flags::CWR), (8, Flags::URG)] {
            if bits & bit != 0 {
                flags |= flag;
            }
        }
        match bits >> 4 {
            0 => flags |= Flags::FIN,
            1 => flags |= Flags::RST,
            2 => flags |= Flags::SYN,
            3 => flags = Flags::SYN,
            _ => {}
        }
        let seq = next[from] + choices.near();
        let len = match kind >> 4 & 3 {
            0 => 0,
            1 => u32::from(choices.word()),
            2 => 1448,
            _ => 1,
        };
        let ack = next[1 - from] - choices.near();
        let mut options = Options {
            timestamps: stamps.then(|| Timestamps { val: clock[from], ecr: clock[1 - from].wrapping_sub(choices.near()) }),
            ..Options::default()
        };
        for _ in 0..kind >> 6 {
            let start = ack + choices.near();
            options.sack.push(SackBlock { start, end: start + choices.near() });
        }
        if seq == next[from] {
            next[from] = next[from] + len;
        }
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(bits >> 2 & 3)];
        file.put(from, Segment { seq, ack, flags, window: choices.word(), len, options, ..Segment::default() }, ecn);
    }
    file.bytes
}

fn judged(file: &[u8], merge_interfaces: bool) {
    let options = AnalysisOptions { merge_interfaces, ..AnalysisOptions::default() };
    let mut known = Analysis::new(options.clone());
    let Ok(mut reader) = Reader::new(file) else { return };
    while known.read(&mut reader, 1000) {}
    known.summary(reader.interfaces());
    let Ok(mut reader) = Reader::new(file) else { return };
    let (recording, _) = capture::recording(&known, &options, &mut reader, "0", 1_000_000);
    let names: Vec<&str> = ORACLES.iter().map(|oracle| oracle.name).collect();
    judge(&recording, &names);
}

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let damage = choices.byte();
    let mut file = connection(&mut choices);
    if damage & 1 == 1 {
        for place in bytes.chunks_exact(4).take(usize::from(damage >> 4)) {
            let at = usize::from(u16::from_be_bytes([place[0], place[1]])) % file.len();
            file[at] ^= place[2];
        }
    }
    judged(&file, damage & 2 != 0);
});
