//! The kind of a segment: data and ACKs, copies, and segments that only a timer sends (zero-window probes and keepalive probes).

use super::copies::{Copies, Print, Shown};
use super::half::Half;
use super::path::Path;
use super::seen::Seen;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// The kind of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Data, an ACK, or both.
    Plain,
    /// A copy of an earlier packet.
    Copy,
    /// A probe of a closed window (RFC 9293 section 3.8.6.1).
    WindowProbe,
    /// A keepalive probe (RFC 9293 section 3.8.4).
    Keepalive,
}

/// A sender that repeats a segment of one byte within this time retransmits it: keepalive timers are longer.
const REPEATS: Dur = Dur::from_secs(1);

impl Half {
    /// The kind of a segment at position `start`. A probe has no data, or one byte; it lies below the acknowledged positions (Linux, BSD,
    /// Windows), or behind the closed window (BSD, Solaris, Windows, lwIP).
    #[inline]
    pub fn kind(&mut self, start: u64, seen: &Seen<'_>, path: Path<'_>) -> Kind {
        if start >= self.sequence.nxt && seen.segment.len != 1 {
            return Kind::Plain;
        }
        self.unusual(start, seen, path)
    }

    /// A segment below the highest position, or of one byte.
    fn unusual(&mut self, start: u64, seen: &Seen<'_>, path: Path<'_>) -> Kind {
        let segment = seen.segment;
        let fin = segment.flags.has(Flags::FIN);
        let timer = if segment.len <= 1 && !fin { self.timer_segment(start, seen) } else { None };
        if timer.is_none() && (segment.len == 0 || start >= self.sequence.nxt) {
            return Kind::Plain;
        }
        let print = Print::new(start, seen);
        let quiet = timer.is_none() && self.is_quiet();
        let end = start + u64::from(segment.len);
        let shown = Shown {
            newest: path.receiver().newest(),
            quiet,
            running: quiet && self.is_running(end, seen.at, path.round_trip()),
            doubled: Copies::is_doubled(self.counters.duplicates, self.counters.packets),
            ..self.shown(path)
        };
        if self.copies.is_copy(&print, shown) {
            self.counters.duplicates += u64::from(timer.is_none());
            return Kind::Copy;
        }
        let Some(kind) = timer else { return Kind::Plain };
        self.probe(kind, &print);
        self.copies.remember(print.probe());
        kind
    }

    /// Whether nothing makes the sender send again but a timer.
    fn is_quiet(&self) -> bool {
        self.sacked.is_empty() && self.duplicate_acks == 0 && !self.waits.is_repairing()
    }

    /// Whether no timer of the sender can have expired for data up to `end`: an ACK of new data has set it again less than a round trip ago,
    /// and these are not the last data, which a tail loss probe would repeat. Or the sender knows that everything has arrived.
    fn is_running(&self, end: u64, now: Time, round_trip: Option<Dur>) -> bool {
        self.advanced.zip(round_trip).is_some_and(|(at, whole)| {
            let passed = now.since(at);
            let is_set_again = end < self.sequence.nxt && passed * 4 < whole * 5;
            is_set_again || (self.una >= self.sequence.nxt && passed >= whole)
        })
    }

    /// The kind of a segment with at most one byte that a timer sent; `None` for any other.
    fn timer_segment(&self, start: u64, seen: &Seen<'_>) -> Option<Kind> {
        let (nxt, len) = (self.sequence.nxt, seen.segment.len);
        let shut = self.is_shut();
        if len == 1 && self.una <= start && start <= nxt && self.window == Some(0) {
            return Some(Kind::WindowProbe);
        }
        let is_below = start + 1 == nxt && (self.una == 0 || self.una >= nxt);
        if !is_below {
            return None;
        }
        // The repetition of a segment that had one byte.
        let repeats = |last: &Print| last.start == start && last.len == 1 && seen.at.since(last.at) < REPEATS;
        if len == 1 && !shut && self.copies.last().is_some_and(repeats) {
            return None;
        }
        // Before an ACK a byte that is sent again may be lost, unless more than it had been sent at once.
        let whole = |last: &Print| last.start == start && last.len == 1;
        if self.una == 0 && (len == 1 && self.copies.last().is_none_or(whole) || self.counters.packets == 0) {
            return None;
        }
        Some(if shut { Kind::WindowProbe } else { Kind::Keepalive })
    }

    /// Whether the receiver's window has no space for another segment.
    pub fn is_shut(&self) -> bool {
        let least = u64::from(self.largest.max(1));
        self.edge.is_some_and(|edge| edge.saturating_sub(self.sequence.nxt) < least)
    }

    /// Counts a probe.
    fn probe(&mut self, kind: Kind, print: &Print) {
        // The first byte of a capture that begins between probes was taken for data.
        let is_second = print.len == 1
            && (self.counters.packets, self.counters.bytes) == (1, 1)
            && self.copies.last().is_some_and(|last| last.start == print.start);
        if is_second {
            self.forget_data();
            if self.una <= print.start {
                self.sequence.nxt = print.start;
            }
        }
        let count = 1 + u64::from(is_second);
        match kind {
            Kind::WindowProbe => self.counters.window_probes += count,
            _ => self.counters.keepalives += count,
        }
        let end = print.start + u64::from(print.len);
        if end > self.sequence.nxt {
            self.probed = end;
        }
    }
}
