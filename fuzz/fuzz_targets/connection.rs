//! A connection against a peer that sends whatever it likes, near to what the connection expects: nothing panics, no
//! deadline is in the past, and the connection does not send for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcpassay_cc::{NAMES, Params, build};
use tcpassay_tcp::{Config, Connection, Profile};
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Options, SackBlock, Segment, Timestamps};

/// More than fit any window at once.
const MOST_SEGMENTS: u32 = 200_000;

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

struct Game {
    connection: Connection,
    now: Time,
    /// What the connection sent last: its next sequence number, what it expects, its clock.
    next: SeqNum,
    expected: SeqNum,
    clock: u32,
}

impl Game {
    fn drain(&mut self) {
        let mut sent = 0;
        while let Some(out) = self.connection.poll_transmit(self.now) {
            self.next = out.segment.end();
            if out.segment.flags.has(Flags::ACK) {
                self.expected = out.segment.ack;
            }
            self.clock = out.segment.options.timestamps.map_or(self.clock, |ts| ts.val);
            sent += 1;
            assert!(sent < MOST_SEGMENTS, "it sends for ever");
        }
    }

    fn segment(&mut self, choices: &mut Choices) -> Segment {
        // Most segments of most connections are plain ACKs; flags that end it come one time in four.
        let bits = choices.byte();
        let mut flags = Flags::ACK;
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
        let seq = self.expected + choices.near();
        let ack = self.next - choices.near();
        let mut options = Options::default();
        let wanted = choices.byte();
        if wanted & 1 != 0 {
            options.timestamps = Some(Timestamps { val: choices.near(), ecr: self.clock.wrapping_sub(choices.near()) });
        }
        for _ in 0..(wanted >> 1) % 4 {
            let start = ack + choices.near();
            options.sack.push(SackBlock { start, end: start + choices.near() });
        }
        if flags.has(Flags::SYN) {
            options.mss = (wanted & 32 != 0).then(|| choices.word());
            options.window_scale = (wanted & 64 != 0).then(|| choices.byte());
            options.sack_permitted = wanted & 128 != 0;
        }
        let len = if wanted & 16 == 0 { 0 } else { u32::from(choices.word()) };
        Segment { seq, ack, flags, window: choices.word(), urgent: choices.word(), len, options }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let profile = Profile::ALL[usize::from(choices.byte()) % Profile::ALL.len()];
    let cfg = Config::profile(profile);
    let controller = NAMES[usize::from(choices.byte()) % NAMES.len()];
    let cc = build(controller, &Params::default()).expect("it exists");
    let iss = SeqNum::new(u32::from(choices.word()).wrapping_mul(70_001));
    let now = Time::ZERO + Dur::from_millis(1);
    let connection = if choices.byte() & 1 == 0 {
        Connection::connect(&cfg, cc, iss, 1000, now)
    } else {
        Connection::listen(&cfg, cc, iss, 1000)
    };
    let mut game = Game { connection, now, next: iss, expected: SeqNum::new(0), clock: 0 };
    game.connection.set_log(choices.byte() & 1 == 0);
    game.drain();
    // Most games begin with a handshake that succeeds.
    if choices.byte() != 0 {
        let flags = if game.next == iss { Flags::SYN } else { Flags::SYN | Flags::ACK };
        let options = Options {
            mss: Some(1460),
            sack_permitted: choices.byte() & 1 == 0,
            window_scale: Some(7),
            timestamps: Some(Timestamps { val: 1, ecr: game.clock }),
            ..Options::default()
        };
        let first = Segment { seq: SeqNum::new(9), ack: game.next, flags, window: 65_535, options, ..Segment::default() };
        game.connection.on_segment(now, &first, Ecn::NotEct);
        game.drain();
    }
    while !choices.0.is_empty() {
        match choices.byte() % 8 {
            0 => {
                if let Some(due) = game.connection.next_timer() {
                    assert!(due >= game.now, "a deadline in the past: {due} at {}", game.now);
                    game.now = due;
                    game.connection.on_timer(due);
                }
            }
            1 => game.now += Dur::from_micros(u64::from(choices.word())),
            2 => {
                let n = Bytes::new(u64::from(choices.word()) * 16);
                match choices.byte() % 16 {
                    0 => game.connection.shutdown(game.now),
                    1 => game.connection.close(game.now),
                    2 => game.connection.abort(game.now),
                    3 => game.connection.set_nodelay(game.now, true),
                    4 => game.connection.set_cork(game.now, n > Bytes::new(4096)),
                    5 => game.connection.set_quickack(game.now, n > Bytes::new(4096)),
                    6..11 => drop(game.connection.read(game.now, n)),
                    _ => drop(game.connection.write(game.now, n)),
                }
            }
            _ => {
                let segment = game.segment(&mut choices);
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(choices.byte()) % 4];
                game.connection.on_segment(game.now, &segment, ecn);
            }
        }
        // A timer that is due runs before anything else happens.
        while let Some(due) = game.connection.next_timer().filter(|&due| due <= game.now) {
            game.connection.on_timer(due.max(game.now));
        }
        game.drain();
        drop(game.connection.info());
        game.connection.drain_log().for_each(drop);
    }
});
