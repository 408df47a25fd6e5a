//! The receive window: its right edge, and the size of the buffer.
//!
//! * The right edge never moves left (RFC 9293 section 3.8.6), and moves right only by a worthwhile amount: the silly
//!   window avoidance of section 3.8.6.2.2.
//! * A buffer that tunes itself follows what the application read in a round trip (dynamic right-sizing, Fisk and
//!   Feng 2001; `tcp_rcv_space_adjust` of Linux): twice that and sixteen segments, more while it still grows.
//!
//! * Linux announces no more than a threshold of its own (`rcv_ssthresh`), which begins at the first window and grows by two
//!   segments, or twice what arrived, with each segment, while the buffer has room (`tcp_grow_window`). Until it has
//!   reached the buffer, unread data do not narrow the window.
//!
//! Known differences from Linux, where the account of `memory` is not in use: memory is the bytes of the stream, not buffers with overhead; a
//! window is not reduced to zero below a sixteenth of the buffer, but to what the rule above leaves.

use crate::{RecvBuffer, RecvTuning};
use tcpassay_units::{Dur, Time};

/// Size of the buffer and the scale of the window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Size of the buffer: the largest number of unread bytes.
    buf: u64,
    max: u64,
    tuning: RecvTuning,
    /// `rcv_ssthresh`; without Linux's rule larger than any buffer.
    threshold: u64,
    /// Our window scale, 0 unless both ends offered one.
    shift: u8,
    /// The scale that we offer. FreeBSD's buffer may become larger than it can express when the segment size is known.
    wanted: u8,
    /// All that is free is announced, however little.
    exact: bool,
    /// The log of a real stack shows the windows.
    observed: bool,
    /// The largest first window of [`RecvTuning::Linux`].
    first_most: u64,
    /// Full segment of the peer, as far as known.
    mss: u64,
    rtt: Dur,
    /// Round trip by window: a window's worth has arrived when this position has.
    round_end: u64,
    round_at: Time,
    /// The largest number of bytes that the application read in a round so far; then the begin of the
    /// current round as time and position.
    space: u64,
    read_from: u64,
    read_at: Time,
}

/// A window that a header can announce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub field: u16,
    /// Position of the right edge that it stands for.
    pub edge: u64,
}

impl Window {
    /// Linux's first window is `initial` in whole segments, at most 64 KiB; before 4.20 `initial`, or 20 segments of a fixed
    /// buffer, and an autotuned buffer began at four times that (`tcp_select_initial_window`, `tcp_fixup_rcvbuf`).
    pub(crate) fn new(buffer: RecvBuffer, mss: u64, tuning: RecvTuning) -> Window {
        let whole = |n: u64| if n > mss { n / mss * mss } else { n };
        let (initial, max) = match buffer {
            RecvBuffer::Fixed(n) => (n.get(), n.get()),
            RecvBuffer::Auto { initial, max } => (initial.get().min(max.get()), max.get()),
        };
        let auto = matches!(buffer, RecvBuffer::Auto { .. });
        let (threshold, buf) = match tuning {
            RecvTuning::Plain => (u64::MAX, initial),
            RecvTuning::Linux46 if auto => (initial, (4 * initial).min(max)),
            RecvTuning::Linux46 => ((20 * mss).min(initial), initial),
            RecvTuning::Linux => (whole(initial).min(0xffff), initial),
        };
        Window {
            buf,
            max,
            threshold,
            tuning,
            shift: 0,
            wanted: (0..14).find(|s| max >> s <= 0xffff).unwrap_or(14),
            exact: false,
            observed: false,
            first_most: 0xffff,
            mss,
            rtt: Dur::ZERO,
            round_end: 0,
            round_at: Time::ZERO,
            space: 10 * mss,
            read_from: 1,
            read_at: Time::ZERO,
        }
    }

    /// The first window may be as large as window scaling can express (`tcp_select_initial_window` since 6.10). That of a SYN is not scaled.
    pub(crate) fn open_wide(&mut self, buffer: RecvBuffer) {
        if self.tuning == RecvTuning::Linux {
            let (RecvBuffer::Fixed(n) | RecvBuffer::Auto { initial: n, .. }) = buffer;
            let n = n.get().min(self.max);
            self.first_most = u64::MAX;
            self.threshold = if n > self.mss { n / self.mss * self.mss } else { n };
        }
    }

    /// The window that a SYN stands for: more than its field can express where the first window may be larger (`tcp_select_window`).
    pub(crate) fn opening(&self) -> u64 {
        if self.first_most > 0xffff { self.buf.min(self.threshold) } else { u64::from(self.first()) }
    }

    /// The scale that lets the largest buffer be announced (RFC 7323 section 2.2, at most 14), as it was offered.
    pub(crate) fn wanted_shift(&self) -> u8 {
        self.wanted
    }

    /// The maximum number of unread bytes.
    pub(crate) fn size(&self) -> u64 {
        self.buf
    }

    /// Our window scale, 0 unless both ends offered one.
    pub(crate) fn shift(&self) -> u8 {
        self.shift
    }

    /// The handshake agreed on our window scale.
    pub(crate) fn set_shift(&mut self, shift: u8) {
        self.shift = shift;
    }

    /// Bytes of one unit of the window field.
    pub(crate) fn unit(&self) -> u64 {
        1 << self.shift
    }

    /// A server of Linux rounds its first window to segments without their `options` (`tcp_openreq_init_rwin`).
    pub(crate) fn reserve(&mut self, options: u64) {
        if self.tuning == RecvTuning::Linux && !self.observed {
            let segment = self.mss.saturating_sub(options).max(1);
            let whole = if self.buf > segment { self.buf / segment * segment } else { self.buf };
            self.threshold = whole.min(self.first_most);
        }
    }

    /// The first window, unscaled as on every SYN.
    pub(crate) fn first(&self) -> u16 {
        u16::try_from(self.buf.min(self.threshold)).unwrap_or(u16::MAX)
    }

    /// The window to announce. `read`: first unread position; `nxt`: next expected position; `edge`: right
    /// edge announced before.
    #[inline]
    pub(crate) fn offer(&self, read: u64, nxt: u64, edge: u64) -> Offer {
        let free = self.offered_edge(read, nxt);
        // The announced window is never taken back; if the scale cannot express it, it is rounded up (as in Linux).
        let mut units = (edge.saturating_sub(nxt) + self.unit() - 1) >> self.shift;
        if self.exact || self.worthwhile(free, edge) {
            units = units.max(free.saturating_sub(nxt) >> self.shift);
        }
        let field = u16::try_from(units).unwrap_or(u16::MAX);
        Offer { field, edge: nxt + (u64::from(field) << self.shift) }
    }

    /// The right edge that the buffer and Linux's threshold allow. FreeBSD accepts segments up to it, also beyond the largest
    /// window field (`tcp_input`, `rcv_wnd`).
    #[inline]
    pub(crate) fn free_edge(&self, read: u64, nxt: u64) -> u64 {
        (read + self.buf).min(nxt.saturating_add(self.threshold))
    }

    /// The part of it that a window field can express.
    #[inline]
    pub(crate) fn offered_edge(&self, read: u64, nxt: u64) -> u64 {
        let largest = u64::from(u16::MAX) << self.shift;
        self.free_edge(read, nxt).min(nxt.saturating_add(largest))
    }

    /// RFC 9293 section 3.8.6.2.2: the edge moves by at least min(half the buffer, one segment).
    #[inline]
    pub(crate) fn worthwhile(&self, free: u64, edge: u64) -> bool {
        free >= edge + (self.buf / 2).min(self.mss).max(1)
    }

    /// The round-trip time measured by the receiver; zero before the first sample.
    pub(crate) fn rtt(&self) -> Dur {
        self.rtt
    }

    /// Whether [`Window::arrived`] uses round-trip times.
    #[inline]
    pub(crate) fn tunes(&self) -> bool {
        // Linux measures in any case: how long duplicate ACKs are compressed depends on it.
        self.buf != self.max || self.tuning == RecvTuning::Linux
    }

    /// `len` bytes arrived in order; `unread` wait for the application. Returns whether Linux's threshold grew.
    #[inline]
    pub(crate) fn grow(&mut self, len: u64, unread: u64) -> bool {
        if self.threshold >= self.buf || len < 128 || self.threshold >= self.buf.saturating_sub(unread) {
            return false;
        }
        self.threshold = (self.threshold + 2 * len.max(self.mss)).min(self.buf);
        true
    }

    /// Whether a window of data has arrived up to `nxt`, or no round trip is being measured.
    #[inline]
    pub(crate) fn round_is_over(&self, nxt: u64) -> bool {
        nxt >= self.round_end
    }

    /// In-order data arrived up to `nxt`; `edge` is the right edge. `by_timestamp` is now - TSecr,
    /// when the segment has one.
    #[inline(never)]
    pub(crate) fn arrived(&mut self, now: Time, nxt: u64, edge: u64, by_timestamp: Option<Dur>) {
        if !self.tunes() {
            return;
        }
        if let Some(rtt) = by_timestamp {
            self.measured(rtt);
        }
        if self.round_is_over(nxt) {
            if self.round_end > 0 {
                // A window of data takes at least a round trip to arrive.
                let took = now.since(self.round_at);
                self.rtt = if self.rtt.is_zero() { took } else { self.rtt.min(took) };
            }
            self.round_end = edge.max(nxt + 1);
            self.round_at = now;
        }
    }

    /// A round trip by timestamp. Linux smooths only upwards: a shorter one counts at once (`tcp_rcv_rtt_update` since 6.16 and the
    /// stable series of that time).
    pub(crate) fn measured(&mut self, rtt: Dur) {
        // The clock of the option ticks in milliseconds.
        let rtt = rtt.max(Dur::from_millis(1));
        let shorter = self.tuning == RecvTuning::Linux && rtt < self.rtt;
        self.rtt = if self.rtt.is_zero() || shorter { rtt } else { (self.rtt * 7 + rtt) / 8 };
    }

    /// The application has read up to `read`.
    #[inline]
    pub(crate) fn consumed(&mut self, now: Time, read: u64) {
        if self.buf == self.max || self.rtt.is_zero() || now.since(self.read_at) < self.rtt {
            return;
        }
        let copied = read - self.read_from;
        if copied > self.space {
            let mut want = 2 * copied + 16 * self.mss;
            if self.tuning == RecvTuning::Linux {
                want += 2 * (want * (copied - self.space) / self.space);
            } else if copied >= self.space + self.space / 2 {
                // Growth by a quarter looks like slow start; by half, like doubling.
                want *= 2;
            } else if copied >= self.space + self.space / 4 {
                want += want / 2;
            }
            self.buf = self.buf.max(want.min(self.max));
            self.space = copied;
        }
        self.read_from = read;
        self.read_at = now;
    }

    /// The size, the bound of the window, and the state of the measurements.
    pub(crate) fn tuned(&self) -> [u64; 6] {
        [self.buf, self.threshold, self.space, self.read_from, self.read_at.as_nanos(), self.rtt.as_nanos()]
    }

    /// The buffer becomes a multiple of `mss`, upwards; the edge that was offered stays.
    pub(crate) fn announce_all(&mut self, mss: u64) {
        self.exact = true;
        self.buf = self.buf.next_multiple_of(mss.max(1));
        self.max = self.max.max(self.buf);
    }

    /// The windows are those of a real stack, and this scale is offered.
    pub(crate) fn observe(&mut self, shift: u8) {
        self.observed = true;
        self.wanted = shift.min(14);
        self.threshold = u64::MAX;
    }

    /// Whether the windows are those of a real stack.
    pub(crate) fn is_observed(&self) -> bool {
        self.observed
    }

    /// The buffer holds this much from now on.
    pub(crate) fn observe_size(&mut self, size: u64) {
        (self.buf, self.max) = (size, size);
    }

    /// The largest payload of a segment is known now.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.space = 10 * mss;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Bytes;

    fn fixed(n: u64) -> Window {
        Window::new(RecvBuffer::Fixed(Bytes::new(n)), 1000, RecvTuning::Plain)
    }

    #[test]
    fn the_edge_moves_only_by_a_segment_or_half_the_buffer() {
        let w = fixed(10_000);
        assert_eq!(w.offer(1, 1, 10_001), Offer { field: 10_000, edge: 10_001 });
        // 999 bytes read: not worth it.
        assert_eq!(w.offer(1000, 5001, 10_001), Offer { field: 5000, edge: 10_001 });
        assert_eq!(w.offer(1001, 5001, 10_001), Offer { field: 6000, edge: 11_001 });
    }

    #[test]
    fn a_full_buffer_gives_a_zero_window_and_a_small_one_opens_by_half() {
        let w = fixed(1000);
        assert_eq!(w.offer(1, 1001, 1001).field, 0);
        assert_eq!(w.offer(500, 1001, 1001).field, 0);
        assert_eq!(w.offer(501, 1001, 1001).field, 500);
    }

    #[test]
    fn an_announced_edge_that_the_scale_cannot_express_is_rounded_up() {
        let mut w = fixed(1 << 20);
        w.shift = 7;
        // 1000 bytes are promised; 8 * 128 = 1024 covers them.
        assert_eq!(w.offer(1, 1 + (1 << 20) - 1000, 1 + (1 << 20)).field, 8);
    }

    #[test]
    fn without_scaling_no_more_than_the_largest_window_field_is_offered_so_that_reads_open_no_window() {
        let mut w = fixed(1 << 20);
        assert_eq!(w.free_edge(1, 1), 1 + (1 << 20));
        assert_eq!(w.offered_edge(1, 1), 1 + 65_535);
        assert_eq!(
            w.offered_edge(1001, 1001),
            1001 + 65_535,
            "data that were read at once leave the window as it is"
        );
        w.shift = 7;
        assert_eq!(w.offered_edge(1, 1), 1 + (1 << 20));
    }

    #[test]
    fn the_scale_is_the_smallest_that_can_express_the_largest_buffer() {
        assert_eq!(fixed(65_535).wanted_shift(), 0);
        assert_eq!(fixed(65_536).wanted_shift(), 1);
        assert_eq!(fixed(6 << 20).wanted_shift(), 7);
        assert_eq!(fixed(u64::MAX).wanted_shift(), 14);
    }

    #[test]
    fn the_scale_that_was_offered_stays_when_the_buffer_becomes_whole_segments() {
        let mut w = fixed(65_535);
        w.announce_all(8948);
        assert_eq!((w.size(), w.wanted_shift()), (71_584, 0));
    }

    #[test]
    fn a_buffer_that_tunes_itself_grows_fourfold_while_reading_doubles_and_stops_at_its_maximum() {
        let buffer = RecvBuffer::Auto { initial: Bytes::new(29_200), max: Bytes::new(1_000_000) };
        let mut w = Window::new(buffer, 1000, RecvTuning::Plain);
        let rtt = Dur::from_millis(10);
        w.arrived(Time::ZERO, 1, 29_201, Some(rtt));
        w.consumed(Time::from_nanos(20_000_000), 15_001);
        assert_eq!(w.buf, 2 * (2 * 15_000 + 16_000));
        w.consumed(Time::from_nanos(25_000_000), 40_001);
        assert_eq!(w.buf, 92_000, "not twice in a round trip");
        w.consumed(Time::from_nanos(40_000_000), 415_001);
        assert_eq!(w.buf, 1_000_000);
    }

    #[test]
    fn linux_takes_a_shorter_round_trip_at_once_and_smooths_a_longer_one() {
        let ms = Dur::from_millis;
        for (tuning, after) in [
            (RecvTuning::Linux, [ms(80), ms(90)]),
            (RecvTuning::Linux46, [ms(150), Dur::from_micros(151_250)]),
        ] {
            let buffer = RecvBuffer::Auto { initial: Bytes::new(65_536), max: Bytes::new(1_000_000) };
            let mut w = Window::new(buffer, 1000, tuning);
            let measured = [160, 80, 160].map(|rtt| {
                w.arrived(Time::ZERO, 1, 65_001, Some(ms(rtt)));
                w.rtt()
            });
            assert_eq!((measured[0], &measured[1..]), (ms(160), &after[..]));
        }
    }

    #[test]
    fn linux_begins_with_whole_segments_of_64_kib_and_grows_in_proportion_since_4_20() {
        let buffer = RecvBuffer::Auto { initial: Bytes::new(65_536), max: Bytes::new(1_000_000) };
        let mut w = Window::new(buffer, 1000, RecvTuning::Linux);
        assert_eq!(w.first(), 65_000);
        let large = RecvBuffer::Fixed(Bytes::new(270_000));
        assert_eq!(Window::new(large, 1000, RecvTuning::Linux).first(), 65_535);
        // The threshold does not rise before the buffer grows.
        assert!(w.grow(1000, 0));
        assert!(!w.grow(1000, 0));
        w.arrived(Time::ZERO, 1, 65_001, Some(Dur::from_millis(10)));
        // 12 segments after 10: 2 * 12 + 16, and twice a fifth of it.
        w.consumed(Time::from_nanos(20_000_000), 12_001);
        assert_eq!(w.buf, 65_536, "40 + 16 is less");
        // 24 after 12: 2 * 24 + 16, threefold.
        w.consumed(Time::from_nanos(40_000_000), 36_001);
        assert_eq!(w.buf, 192_000);
        assert!(w.grow(1000, 1000));
    }

    #[test]
    fn linux_opens_the_window_by_two_segments_with_each_until_the_buffer_is_reached() {
        let mut w = Window::new(RecvBuffer::Fixed(Bytes::new(30_000)), 1000, RecvTuning::Linux46);
        assert_eq!(w.first(), 20_000);
        assert!(w.grow(1000, 1000));
        assert_eq!(w.offer(1, 1001, 20_001), Offer { field: 22_000, edge: 23_001 });
        // A merged segment counts with its length.
        assert!(w.grow(3000, 4000));
        assert_eq!(w.offer(4001, 4001, 23_001).field, 28_000);
        assert!(w.grow(1000, 0));
        assert!(!w.grow(1000, 0));
        assert_eq!(w.offer(5001, 5001, 30_000).field, 30_000);
    }
}
