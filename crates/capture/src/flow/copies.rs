//! Packets that a capture shows twice because a mirror port, the capture or the network copied them, as opposed to
//! retransmissions.

use super::seen::{Seen, Way};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

/// Number of packets of a direction with which a packet is compared.
const MOST: usize = 64;
/// No retransmission timer is shorter: the minimum of Linux (`TCP_RTO_MIN`), and `rexmit_slop` of FreeBSD.
const SHORTEST_TIMER: Dur = Dur::from_millis(200);
/// Within this time no sender retransmits without a report of loss: probes for a lost tail wait for longer (RFC 8985 section 7.2).
const WITHOUT_REPORT: Dur = Dur::from_millis(1);
/// The same if the identification is equal, too. Mirror ports delay copies by their queue.
const WITHOUT_REPORT_SAME_ID: Dur = Dur::from_millis(10);
/// Without a round-trip time and an identification.
const CLOSE: Dur = Dur::from_millis(3);
/// Copies after which a file has the packets of two points, if it has half of the data packets twice.
const ENOUGH: u64 = 8;

/// The fields by which a copy of a packet is told from a retransmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Print {
    pub at: Time,
    pub start: u64,
    pub len: u32,
    ack: u32,
    /// TSval, 0 without timestamps.
    stamp: u32,
    window: u16,
    flags: u16,
    checksum: u16,
    id: u16,
    way: Way,
    /// How long after it a copy came; [`Dur::MAX`] without one.
    copied: Dur,
    /// A timer sent it: it is no data.
    is_probe: bool,
}

/// What the connection has shown up to now.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one connection")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// The shortest round trip.
    pub round_trip: Option<Dur>,
    /// SACK blocks or three duplicate ACKs report a loss.
    pub loss: bool,
    /// The sender counts its packets: an equal identification is that of the same packet.
    pub counts: bool,
    /// The latest TSval of the sender.
    pub newest: Option<u32>,
    /// Nothing was reported missing, not even by a duplicate ACK, and no loss is being repaired.
    pub quiet: bool,
    /// In addition no timer of the sender has expired, or everything has been acknowledged.
    pub running: bool,
    /// The capture has most data packets of the sender twice.
    pub doubled: bool,
}

/// The answer of [`Copies::duplicate`] to a DSACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Twice {
    /// No copy of the data is known.
    Unknown,
    /// The second packet came sooner than a round trip: the network copied it.
    Network,
    /// The second packet came later: it was a retransmission with this payload.
    Retransmission(u32),
    /// The byte of a keepalive probe.
    Probe,
}

impl Print {
    pub fn new(start: u64, seen: &Seen<'_>) -> Print {
        let segment = seen.segment;
        // PSH and the congestion flags may be changed on the path.
        let kept = Flags::SYN | Flags::FIN | Flags::RST | Flags::ACK | Flags::URG;
        Print {
            at: seen.at,
            start,
            len: segment.len,
            ack: segment.ack.get(),
            stamp: segment.options.timestamps.map_or(0, |stamps| stamps.val),
            window: segment.window,
            flags: segment.flags.bits() & kept.bits(),
            checksum: seen.checksum,
            id: seen.id,
            way: seen.way,
            copied: Dur::MAX,
            is_probe: false,
        }
    }

    /// The segment of a timer.
    pub fn probe(self) -> Print {
        Print { is_probe: true, ..self }
    }

    /// Whether all fields that a copy keeps are equal. Behind a device that fills in the checksum (offload) it differs, so that an equal
    /// identification suffices.
    fn is_alike(&self, other: &Print) -> bool {
        let fields = |one: &Print| (one.start, one.len, one.ack, one.stamp, one.window, one.flags, one.id);
        let sums = self.checksum == other.checksum || self.checksum == 0 || other.checksum == 0;
        fields(self) == fields(other) && (sums || self.id != 0)
    }

    /// Whether this packet is a copy of an earlier one, instead of a retransmission that repeats all of its fields.
    ///
    /// A sender can retransmit one round trip after the first packet, and without a report of loss only when a timer has expired. The timer
    /// may be shorter than the round trip. A different way shows that the packet passed another place: then only a timer would explain a
    /// retransmission.
    ///
    /// A sender that sends again uses its present timestamp (RFC 7323 section 3.2): an older one than it has used since shows a copy.
    pub fn is_copy_of(&self, earlier: &Print, shown: Shown) -> bool {
        if !self.is_alike(earlier) {
            return false;
        }
        let gap = self.at.since(earlier.at);
        let ahead = |newest: u32| newest.wrapping_sub(self.stamp).cast_signed() > 0;
        // A retransmission timer is longer than the round trip (RFC 6298 section 2), the one of a tail loss probe twice as long (RFC 8985).
        let is_soon = shown.quiet && shown.round_trip.is_some_and(|whole| gap * 4 < whole * 5);
        if self.stamp != 0 && shown.newest.is_some_and(ahead) || shown.running || is_soon {
            return gap < SHORTEST_TIMER;
        }
        let same_id = self.id != 0;
        let round_trip = shown.round_trip.map(|whole| whole.mul_f64(0.9));
        if self.way != earlier.way && (same_id || !shown.loss) {
            return gap < SHORTEST_TIMER;
        }
        let quiet = match (shown.loss, same_id) {
            (true, _) => Dur::ZERO,
            (false, true) if shown.counts => SHORTEST_TIMER,
            (false, true) => WITHOUT_REPORT_SAME_ID,
            (false, false) => WITHOUT_REPORT,
        };
        let unknown = if same_id && !shown.loss { SHORTEST_TIMER } else { CLOSE };
        gap < round_trip.map_or(unknown, |whole| whole.max(quiet).min(SHORTEST_TIMER))
    }

    /// The way on which it came.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Whether a SYN is a copy of an earlier one: the timer of a SYN is never shorter than [`SHORTEST_TIMER`].
    pub fn is_copy_of_syn(&self, earlier: &Print) -> bool {
        self.is_alike(earlier) && self.at.since(earlier.at) < SHORTEST_TIMER
    }
}

/// The latest packets of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    prints: Vec<Print>,
    /// The place of the oldest one, when there are as many as possible.
    oldest: usize,
    /// The way of the packet of which the last copy was found.
    pub original: Way,
    /// How long after the original the last copy came.
    pub lag: Dur,
    /// Copies that only this time tells from retransmissions.
    pub unsure: u64,
}

impl Copies {
    pub fn remember(&mut self, print: Print) {
        if self.prints.len() < MOST {
            self.prints.push(print);
        } else {
            self.prints[self.oldest] = print;
            self.oldest = (self.oldest + 1) % MOST;
        }
    }

    /// The latest packet.
    pub fn last(&self) -> Option<&Print> {
        self.prints.get((self.oldest + MOST - 1) % MOST).or(self.prints.last())
    }

    /// Whether a packet is a copy of one of the latest.
    pub fn is_copy(&mut self, print: &Print, shown: Shown) -> bool {
        let lag = self.lag;
        let gap = |earlier: &Print| print.at.since(earlier.at);
        // The second point has seen it as long after the first one as the packets before.
        let follows = |earlier: &Print| {
            shown.doubled
                && earlier.copied == Dur::MAX
                && print.is_alike(earlier)
                && gap(earlier) * 4 >= lag * 3
                && gap(earlier) * 4 <= lag * 5
        };
        // A packet that was sent again may be nearer.
        let found = self.prints.iter().position(follows);
        let found = found.or_else(|| self.prints.iter().position(|earlier| print.is_copy_of(earlier, shown)));
        let Some(earlier) = found.and_then(|place| self.prints.get_mut(place)) else { return false };
        self.unsure += u64::from(!print.is_copy_of(earlier, shown));
        earlier.copied = gap(earlier);
        (self.original, self.lag) = (earlier.way, earlier.copied);
        true
    }

    /// Whether a file has most data packets of a sender twice, so that it mixes two points.
    pub fn is_doubled(copies: u64, packets: u64) -> bool {
        copies >= ENOUGH && 2 * copies >= packets
    }

    /// The receiver reports positions as duplicate of which no retransmission is known.
    pub fn duplicate(&mut self, start: u64, end: u64, shown: Shown) -> Twice {
        let touches = |one: &&mut Print| one.start < end && start < one.start + u64::from(one.len);
        // Receivers report the byte of a keepalive probe by DSACK.
        if self.prints.iter().any(|one| one.is_probe && one.len == 1 && one.start == start) {
            return Twice::Probe;
        }
        let copied = |one: &mut Print| {
            let gap = std::mem::replace(&mut one.copied, Dur::MAX);
            (gap < Dur::MAX).then_some((gap, one.len, shown.counts && one.id != 0))
        };
        match self.prints.iter_mut().filter(touches).find_map(copied) {
            None => Twice::Unknown,
            Some((gap, len, false)) if shown.round_trip.is_some_and(|whole| gap >= whole.mul_f64(0.9)) => {
                Twice::Retransmission(len)
            }
            Some(_) => Twice::Network,
        }
    }
}
