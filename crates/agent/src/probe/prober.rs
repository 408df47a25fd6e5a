//! Sending probes, and reading them at the taps.

use crate::collect::tap::Taps;
use crate::system::Failure;
use std::fmt::Display;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_linux::sys;
use tcpassay_measure::EnvironmentProperty;
use tcpassay_units::{Bytes, Dur};
use tcpassay_wire::Ecn;
use tcpassay_wire::codec::Content;

pub(super) const DISCARD: u16 = 9;
/// IP and UDP headers.
pub(super) const HEADERS: u64 = 28;
const SECOND: u64 = 1_000_000_000;

/// The times and tolerances of the probes.
pub struct ProbeTiming {
    /// The begin by the kernel's clock, in nanoseconds.
    pub(super) from: u64,
    /// The time until probes have arrived, in addition to the delay of the path, in nanoseconds.
    pub(super) rest: u64,
    /// The tolerance of the round-trip time in nanoseconds, in addition to 2 %.
    pub(super) round_trip: u64,
    /// The relative tolerance of a rate.
    pub(super) rate: f64,
    /// The number of packet trains for a rate. The best one counts, because other processes may delay a train.
    pub(super) trains: u32,
    /// The minimum duration of a train at the rate.
    pub(super) train: Dur,
}

impl ProbeTiming {
    /// In virtual time: the tolerances are small.
    pub fn virtual_time(from: u64) -> ProbeTiming {
        ProbeTiming { from, rest: SECOND, round_trip: 2_000, rate: 0.02, trains: 1, train: Dur::ZERO }
    }

    /// In real time: other processes and late timers disturb the probes.
    pub fn real_time() -> ProbeTiming {
        let train = Dur::from_millis(5);
        ProbeTiming {
            from: sys::now(),
            rest: 20_000_000,
            round_trip: 1_000_000,
            rate: 0.05,
            trains: 20,
            train,
        }
    }
}

/// The measured path.
#[derive(Clone, Default)]
pub struct MeasuredPath {
    /// Rows of the recording.
    pub rows: Vec<EnvironmentProperty>,
    /// The first difference between the path and the case; `None` if there is none.
    pub mismatch: Option<String>,
}

/// A probe at a tap.
pub(super) struct ProbePacket {
    pub(super) at: u64,
    pub(super) tap: usize,
    pub(super) id: u16,
    pub(super) len: u64,
    pub(super) ce: bool,
}

pub(super) struct Prober<'a> {
    pub(super) pace: &'a ProbeTiming,
    /// The payload of a packet if one call sends many packets (in real time); 0 if each call sends one packet.
    pub(super) segment: u64,
    /// The size of the largest super-segment that is not segmented.
    pub(super) largest: Bytes,
    pub(super) taps: &'a mut Taps,
    pub(super) sockets: [OwnedFd; 2],
    pub(super) to: [SocketAddrV4; 2],
    pub(super) timer: OwnedFd,
}

impl Prober<'_> {
    /// Sleeps until an instant of the kernel's clock.
    pub(super) fn until(&mut self, at: u64) -> Result<(), Failure> {
        let wrong = |e: std::io::Error| format!("a timer: {e}");
        sys::set_timer(self.timer.as_fd(), at).map_err(wrong)?;
        sys::wait_readable(self.timer.as_fd(), -1).map_err(wrong).map(drop)
    }

    /// Sends a datagram of `len` bytes of IP from one end: 0 is the sender.
    pub(super) fn send(&self, end: usize, len: u64) -> std::io::Result<usize> {
        let payload = vec![0; usize::try_from(len - HEADERS).expect("a packet")];
        sys::send_to(self.sockets[end].as_fd(), &payload, self.to[end])
    }

    /// Sends `n` datagrams of `len` bytes of IP from the sender, as many as possible with each call.
    pub(super) fn send_many(&self, n: u64, len: u64) -> std::io::Result<()> {
        let payload = vec![0; usize::try_from(len - HEADERS).expect("a packet")];
        let mut left = usize::try_from(n).expect("few packets");
        while left > 0 {
            left -= sys::send_datagrams(self.sockets[0].as_fd(), &payload, left)?;
        }
        Ok(())
    }

    /// The probes that have passed the taps since the last call, after a train of packets of the path's MTU.
    pub(super) fn seen_of_train(&mut self) -> Vec<ProbePacket> {
        // An ICMP message about a packet that was too long is an error of the next call, which this one takes instead of the next probe.
        let _ = sys::get(self.sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_ERROR);
        self.seen()
    }

    /// The probes that have passed the taps since the last call.
    pub(super) fn seen(&mut self) -> Vec<ProbePacket> {
        let mut all = Vec::new();
        self.taps.drain(u64::MAX, |seen| {
            if matches!(seen.packet.content, Content::Udp { .. }) && seen.packet.envelope.to.port() == DISCARD
            {
                let e = &seen.packet.envelope;
                let len = u64::from(seen.len);
                let len = on_the_wire(len, self.segment);
                all.push(ProbePacket { at: seen.at, tap: seen.tap, id: e.id, len, ce: e.ecn == Ecn::Ce });
            }
        });
        all
    }
}

/// The bytes of all packets that a super-segment of probes contains, each with its headers.
pub(super) fn on_the_wire(len: u64, segment: u64) -> u64 {
    if segment == 0 || len <= segment + HEADERS {
        return len;
    }
    let payload = len - HEADERS;
    payload + payload.div_ceil(segment) * HEADERS
}

/// A row of the recording.
pub(super) fn row(
    entity: &str,
    property: &str,
    unit: &str,
    asked: Option<f64>,
    measured: Option<f64>,
) -> EnvironmentProperty {
    let (entity, property, unit) = (entity.to_owned(), property.to_owned(), unit.to_owned());
    EnvironmentProperty { entity, property, unit, asked, measured }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds and bits a second below 2^53")]
pub(super) fn float(n: u64) -> f64 {
    n as f64
}

/// Keeps the first difference between the path and the case.
pub(super) fn wrong(path: &mut MeasuredPath, why: impl Display) {
    path.mismatch.get_or_insert_with(|| format!("the path is not that of the case: {why}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_segment_of_probes_counts_the_headers_of_each_of_its_packets() {
        // Payloads of 1472 bytes: two full packets and one of 56 bytes, each with 28 bytes of headers.
        assert_eq!(on_the_wire(2 * 1472 + 56 + 28, 1472), 3000 + 84);
        // A single packet, and probes that are sent one by one.
        assert_eq!(on_the_wire(1500, 1472), 1500);
        assert_eq!(on_the_wire(3028, 0), 3028);
    }

    #[test]
    fn the_first_difference_of_a_path_is_kept() {
        let mut path = MeasuredPath::default();
        wrong(&mut path, "the rate is half");
        wrong(&mut path, "no probe arrived");
        assert_eq!(path.mismatch.unwrap(), "the path is not that of the case: the rate is half");
    }
}
