//! The window that a receiver of the model announces, from what has arrived and what was read: RFC 9293 section 3.8.6, or Linux's threshold
//! (`tcp_grow_window`) in a buffer that counts bytes of the stream.

use tcpassay_tcp::{Config, RecvBuffer, RecvTuning};
use tcpassay_units::{Dur, Time};

/// Number of segments that the application must have read in a round trip before the buffer grows.
const FIRST_ROUND: u64 = 10;
/// Largest value of the field.
const MOST: u64 = 0xffff;
/// Segments in order that are shorter do not raise the threshold.
const RAISES: u64 = 128;

/// Where the stream of a receiver stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// RCV.NXT, its value when the last ACK left, and the right edge announced.
    pub nxt: u64,
    pub acked: u64,
    pub edge: u64,
    /// First position that is not read.
    pub read: u64,
    /// Estimate of the peer's segments.
    pub rcv_mss: u64,
}

/// A window that may be announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    /// Bytes that the field stands for, and the right edge that the receiver notes.
    pub bytes: u64,
    pub edge: u64,
    /// Less than half of the buffer is free (Linux).
    pub tight: bool,
}

/// A buffer of stream bytes.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    size: u64,
    max: u64,
    threshold: u64,
    tuning: RecvTuning,
    shift: u32,
    /// Everything that is free is announced (FreeBSD).
    all: bool,
    mss: u64,
    /// Bytes read in the best round trip so far; begin of the present one.
    best: u64,
    from: u64,
    since: Time,
}

/// Size at the start and at most.
fn sizes(stack: &Config) -> (u64, u64, bool) {
    match stack.recv_buffer {
        RecvBuffer::Fixed(size) => (size.get(), size.get(), false),
        RecvBuffer::Auto { initial, max } => (initial.get().min(max.get()), max.get(), true),
    }
}

/// The window scale of a stack: the smallest that expresses its largest buffer (RFC 7323 section 2.2).
pub(super) fn scale(stack: &Config) -> u32 {
    let (_, most, _) = sizes(stack);
    (0..14).find(|shift| most >> shift <= MOST).unwrap_or(14)
}

/// The first window, as a SYN or SYN-ACK announces it. `options`: bytes of options of each segment, if the host answers a SYN.
pub(super) fn first(stack: &Config, options: Option<u64>) -> u64 {
    let (initial, _, auto) = sizes(stack);
    let mss = stack.mss.get();
    let whole = |bytes: u64, segment: u64| if bytes > segment { bytes / segment * segment } else { bytes };
    let first = match stack.recv_tuning {
        RecvTuning::Plain => initial,
        RecvTuning::Linux46 if auto => initial,
        RecvTuning::Linux46 => initial.min(20 * mss),
        RecvTuning::Linux => whole(initial, mss - options.unwrap_or(0)),
    };
    first.min(MOST)
}

impl Buffer {
    /// After the handshake. `first`: the window of the SYN; `mss`: payload of the peer's full segments; `largest`: the smaller of both MSS
    /// options.
    pub fn new(stack: &Config, first: u64, shift: u32, mss: u64, largest: u64) -> Buffer {
        let (initial, mut max, auto) = sizes(stack);
        let mut size =
            if stack.recv_tuning == RecvTuning::Linux46 && auto { (4 * initial).min(max) } else { initial };
        if stack.bsd_window {
            size = size.next_multiple_of(largest.max(1));
            max = max.max(size);
        }
        let threshold = match stack.recv_tuning {
            RecvTuning::Plain => u64::MAX,
            RecvTuning::Linux46 if auto => initial,
            RecvTuning::Linux46 => initial.min(20 * stack.mss.get()),
            RecvTuning::Linux => first,
        };
        Buffer {
            size,
            max,
            threshold,
            tuning: stack.recv_tuning,
            shift,
            all: stack.bsd_window,
            mss,
            best: FIRST_ROUND * mss,
            from: 1,
            since: Time::ZERO,
        }
    }

    /// Whether the buffer is not as large as it may become.
    pub fn grows(&self) -> bool {
        self.size < self.max
    }

    /// Whether the buffer may have grown when `read` was reached.
    pub fn may_grow(&self, read: u64) -> bool {
        self.grows() && read > self.from + self.best
    }

    fn free_edge(&self, place: &Place) -> u64 {
        (place.read + self.size).min(place.nxt.saturating_add(self.threshold))
    }

    /// RFC 9293 section 3.8.6.2.2: the edge moves by half of the buffer or a segment, at least.
    fn is_worth(&self, free: u64, edge: u64) -> bool {
        free >= edge + (self.size / 2).min(self.mss).max(1)
    }

    pub fn offer(&self, place: &Place) -> Offer {
        let unit = 1_u64 << self.shift;
        let free = self.free_edge(place);
        let promised = place.edge.saturating_sub(place.nxt).div_ceil(unit);
        let opens = self.all || self.is_worth(free, place.edge);
        let units = if opens { promised.max(free.saturating_sub(place.nxt) / unit) } else { promised };
        let bytes = units.min(MOST) * unit;
        Offer { bytes, edge: place.nxt + bytes, tight: false }
    }

    /// Whether an ACK would announce no less than the last one, up to the unit of the field (`__tcp_ack_snd_check`).
    pub fn keeps(&self, place: &Place) -> bool {
        self.offer(place).edge - place.nxt + (1 << self.shift) > place.edge.saturating_sub(place.acked)
    }

    /// `len` new bytes in order arrived. Returns whether the threshold rose.
    pub fn arrived(&mut self, len: u64, place: &Place) -> bool {
        let unread = place.nxt - place.read;
        let room = self.size.saturating_sub(unread);
        let raises = len >= RAISES && self.threshold < self.size && self.threshold < room;
        if raises {
            self.threshold = (self.threshold + 2 * len.max(self.mss)).min(self.size);
        }
        raises
    }

    /// The application has read up to `read`: once in a round trip the buffer follows what was read in it (`tcp_rcv_space_adjust`).
    pub fn read(&mut self, at: Time, read: u64, rtt: Dur) {
        if !self.grows() || rtt.is_zero() || at.since(self.since) < rtt {
            return;
        }
        let taken = read - self.from;
        (self.from, self.since) = (read, at);
        if taken <= self.best {
            return;
        }
        let base = 2 * taken + 16 * self.mss;
        let wanted = if self.tuning == RecvTuning::Linux {
            base + 2 * (base * (taken - self.best) / self.best)
        } else if taken >= self.best + self.best / 2 {
            2 * base
        } else if taken >= self.best + self.best / 4 {
            base + base / 2
        } else {
            base
        };
        self.size = self.size.max(wanted.min(self.max));
        self.best = taken;
    }

    /// Whether the window opened by so much that an ACK announces it at once: to twice its size (Linux); by half of the buffer, or by two
    /// segments and a quarter of it (BSD).
    pub fn updates(&self, place: &Place, doubles: bool) -> bool {
        let present = place.edge.saturating_sub(place.nxt);
        let free = self.free_edge(place);
        if doubles && 2 * present > self.size || !self.is_worth(free, place.edge) {
            return false;
        }
        if doubles {
            return free - place.nxt >= 2 * present;
        }
        let gain = free - place.edge;
        2 * gain >= self.size
            || gain >= 2 * place.rcv_mss && (gain >= self.size / 4 || present <= self.size / 8)
    }
}
