//! The largest segment that the path carries, and the search for it (packetization layer path MTU
//! discovery).
//!
//! Sizes are those of segments without options: the MTU less the IP and TCP headers. The component returns segment sizes
//! and windows; it changes neither.
//!
//! Sources: RFC 1191, RFC 4821; `tcp_sync_mss`, `tcp_mtu_probe`, `tcp_mtup_probe_success` and `tcp_mtu_probing` of Linux.
//!
//! Known difference from the sources: the success of a probe is noticed when something is to be sent next.

use crate::config::MtuProbing;
use tcpassay_units::{Dur, Time};

/// Window below which Linux does not probe, in segments.
const LEAST_WINDOW: u64 = 11;
/// Timeouts for at least this time mean a black hole: `tcp_retries1` = 3 doublings of 200 ms.
const BLACK_HOLE: Dur = Dur::from_millis(3000);
/// The smallest payload of a segment (`TCP_MIN_MSS`, less the options).
pub(super) const LEAST_MSS: u64 = 48;

/// A probe that was sent and whose result is not known.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u64,
    start: u64,
    end: u64,
}

/// The state of path MTU discovery.
#[derive(Clone, Debug)]
pub(super) struct Pmtud {
    /// The largest segment that both ends agreed on.
    clamp: u64,
    /// Bytes of options in every segment.
    options: u64,
    /// The largest segment (without options) that the MTU of the route permits.
    route: u64,
    probing: Option<MtuProbing>,
    /// Probes are sent.
    enabled: bool,
    /// Lower bound of the search; the upper bound follows.
    low: u64,
    high: u64,
    probe: Option<Probe>,
    probed_at: Time,
    /// True if a decision about a probe was made since the sender last stopped sending.
    checked: bool,
    first_timeout: Time,
}

/// The inputs of the decision about a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeInput {
    pub now: Time,
    /// The congestion state is Open.
    pub open: bool,
    pub cwnd: u64,
    pub mss: u64,
    pub dup_thresh: u32,
    pub unsent: u64,
    pub peer_window: u64,
    /// Bytes that the peer's window still allows.
    pub peer_room: u64,
    pub in_flight: u64,
}

/// Whether a probe may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ready {
    No,
    /// A probe may be sent after the data in flight have decreased.
    Wait,
    /// A probe with this payload may be sent.
    Yes(u64),
}

impl Pmtud {
    pub fn new(probing: Option<MtuProbing>) -> Pmtud {
        Pmtud {
            clamp: 0,
            options: 0,
            route: 0,
            probing,
            enabled: false,
            low: 0,
            high: 0,
            probe: None,
            probed_at: Time::ZERO,
            checked: false,
            first_timeout: Time::ZERO,
        }
    }

    /// The handshake is done: segments have at most `clamp` bytes and this many bytes of options; the route carries `route`.
    pub fn start(&mut self, options: u64, route: u64, clamp: u64) {
        self.clamp = clamp;
        self.options = options;
        self.route = route;
        if let Some(probing) = self.probing {
            self.enabled = probing.always;
            self.low = probing.base.get();
            self.high = clamp;
        }
    }

    /// The largest segment (without options) that the MTU of the route permits.
    pub fn route(&self) -> u64 {
        self.route
    }

    /// Whether the path is probed at all.
    #[inline]
    pub fn probes(&self) -> bool {
        self.probing.is_some()
    }

    /// Whether the chunk at `start` is a probe, which must not be segmented.
    #[inline]
    pub fn is_probe(&self, start: u64) -> bool {
        self.probe.is_some_and(|probe| probe.start == start)
    }

    /// From now on the options of every segment take `bytes`.
    pub fn set_options(&mut self, bytes: u64) {
        self.options = bytes;
    }

    /// `tcp_sync_mss`: the route carries `route`. Returns the payload of a full segment.
    pub fn sync(&mut self, route: u64) -> u64 {
        self.high = self.high.min(route);
        self.route = route;
        let mut most = route.min(self.clamp);
        if self.enabled {
            most = most.min(self.low);
        }
        most.saturating_sub(self.options).max(LEAST_MSS)
    }

    /// The retransmission timer fired. Returns true if something on the path may drop long segments silently, so that the
    /// segment size has to be computed again.
    pub fn on_timeout(&mut self, now: Time, first: bool) -> bool {
        let Some(probing) = self.probing else { return false };
        if first {
            self.first_timeout = now;
            return false;
        }
        if now.since(self.first_timeout) < BLACK_HOLE {
            return false;
        }
        if self.enabled {
            let half = self.low.saturating_sub(self.options) / 2;
            self.low = half.min(probing.base.get()).max(probing.floor.get()) + self.options;
        } else {
            self.enabled = true;
            self.probed_at = now;
        }
        true
    }

    /// Discards the probe, because its retransmission proves nothing about its length.
    #[inline]
    pub fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// A loss was found while the first unacknowledged position is `una`. If it is the probe's, the path does not carry it.
    /// Returns the probe's payload.
    pub fn on_loss(&mut self, una: u64) -> Option<u64> {
        let probe = self.probe.filter(|probe| probe.start == una)?;
        self.high = probe.size - 1;
        self.probe = None;
        Some(probe.size.saturating_sub(self.options))
    }

    /// Everything below `una` is acknowledged. If the probe is (`tcp_mtup_probe_success`), segments may be that long. Returns the window,
    /// in segments of the new size, that has as many bytes on the wire as `cwnd` had in segments of `mss`.
    pub fn on_ack(&mut self, una: u64, cwnd: u64, mss: u64) -> Option<u64> {
        let probe = self.probe.filter(|probe| probe.end <= una)?;
        let headers = self.probing.map_or(40, |p| p.headers.get());
        self.low = probe.size;
        self.probe = None;
        let scaled = (cwnd / mss) * (mss + self.options + headers) / (probe.size + headers);
        Some(scaled.max(1))
    }

    /// The sender has sent everything that it may send.
    #[inline]
    pub fn on_rest(&mut self) {
        self.checked = false;
    }

    /// Whether a decision about a probe is due; it is made once for each burst.
    pub fn take_check(&mut self) -> bool {
        !std::mem::replace(&mut self.checked, true)
    }

    /// `tcp_mtu_probe`: whether the next segment may be longer than the path is known to carry.
    pub fn ready(&mut self, input: &ProbeInput) -> Ready {
        let Some(probing) = self.probing.filter(|_| self.enabled && self.probe.is_none()) else {
            return Ready::No;
        };
        if !input.open || input.cwnd < LEAST_WINDOW * input.mss {
            return Ready::No;
        }
        let size = u64::midpoint(self.high, self.low);
        if size > self.high
            || self.high.saturating_sub(self.low) < probing.threshold.get()
            || self.high < self.low
        {
            if input.now.since(self.probed_at) >= probing.interval {
                self.high = self.clamp;
                self.low = input.mss + self.options;
                self.probed_at = input.now;
            }
            return Ready::No;
        }
        let payload = size - self.options;
        let needed = payload + u64::from(input.dup_thresh + 1) * input.mss;
        if input.unsent < needed || input.peer_window < needed {
            return Ready::No;
        }
        if needed > input.peer_room {
            return Ready::Wait;
        }
        if input.in_flight + 2 * input.mss > input.cwnd {
            return if input.in_flight == 0 { Ready::No } else { Ready::Wait };
        }
        Ready::Yes(payload)
    }

    /// A probe with this payload is sent at `start`.
    pub fn on_probe_sent(&mut self, now: Time, start: u64, payload: u64) {
        self.probe = Some(Probe { size: payload + self.options, start, end: start + payload });
        self.probed_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Bytes;

    const PROBING: MtuProbing = MtuProbing {
        always: true,
        base: Bytes::new(1024),
        floor: Bytes::new(48),
        threshold: Bytes::new(8),
        interval: Dur::from_secs(600),
        headers: Bytes::new(40),
    };

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn pmtud(probing: MtuProbing) -> Pmtud {
        let mut pmtud = Pmtud::new(Some(probing));
        pmtud.start(12, 8960, 8960);
        pmtud
    }

    const INPUT: ProbeInput = ProbeInput {
        now: Time::ZERO,
        open: true,
        cwnd: 20_000,
        mss: 1012,
        dup_thresh: 3,
        unsent: 100_000,
        peer_window: 100_000,
        peer_room: 100_000,
        in_flight: 0,
    };

    #[test]
    fn the_search_begins_at_its_base_and_halves_the_distance_to_the_route() {
        let mut pmtud = pmtud(PROBING);
        assert_eq!(pmtud.sync(8960), 1012);
        // (8960 + 1024) / 2 without the options.
        assert_eq!(pmtud.ready(&INPUT), Ready::Yes(4980));
        pmtud.on_probe_sent(at(0), 1, 4980);
        assert!(pmtud.is_probe(1));
        assert_eq!(pmtud.ready(&INPUT), Ready::No, "one probe at a time");
        assert_eq!(pmtud.on_ack(4980, 20_240, 1012), None);
        // 20 segments of 1064 bytes on the wire are 4 of 5032.
        assert_eq!(pmtud.on_ack(4981, 20_240, 1012), Some(4));
        assert_eq!(pmtud.sync(8960), 4980);
    }

    #[test]
    fn a_lost_probe_lowers_the_upper_bound() {
        let mut pmtud = pmtud(PROBING);
        pmtud.on_probe_sent(at(0), 1, 4980);
        assert_eq!(pmtud.on_loss(1001), None, "something else was lost");
        assert_eq!(pmtud.on_loss(1), Some(4980));
        // (4991 + 1024) / 2 without the options.
        assert_eq!(pmtud.ready(&INPUT), Ready::Yes(2995));
    }

    #[test]
    fn a_probe_waits_for_the_window_and_for_enough_data() {
        let mut pmtud = pmtud(PROBING);
        assert_eq!(pmtud.ready(&ProbeInput { unsent: 9027, ..INPUT }), Ready::No);
        assert_eq!(pmtud.ready(&ProbeInput { peer_room: 9027, ..INPUT }), Ready::Wait);
        assert_eq!(pmtud.ready(&ProbeInput { in_flight: 18_000, ..INPUT }), Ready::Wait);
        assert_eq!(pmtud.ready(&ProbeInput { open: false, ..INPUT }), Ready::No);
        assert_eq!(pmtud.ready(&ProbeInput { cwnd: 11_000, ..INPUT }), Ready::No);
    }

    #[test]
    fn timeouts_for_three_seconds_begin_the_search_and_then_lower_it() {
        let mut pmtud = pmtud(MtuProbing { always: false, ..PROBING });
        assert_eq!(pmtud.sync(8960), 8948);
        assert!(!pmtud.on_timeout(at(0), true));
        assert!(!pmtud.on_timeout(at(2999), false));
        assert!(pmtud.on_timeout(at(3000), false));
        assert_eq!(pmtud.sync(8960), 1012);
        assert!(pmtud.on_timeout(at(7000), false));
        assert_eq!(pmtud.sync(8960), 506);
    }

    #[test]
    fn without_probing_the_route_decides() {
        let mut pmtud = Pmtud::new(None);
        pmtud.start(12, 1460, 1460);
        assert_eq!(pmtud.sync(1400), 1388);
        assert_eq!(pmtud.sync(9000), 1448, "no more than both ends agreed on");
        assert_eq!(pmtud.ready(&INPUT), Ready::No);
        assert!(!pmtud.on_timeout(at(9999), false));
    }
}
