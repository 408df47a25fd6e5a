//! Datagrams that measure, and what the taps saw of them.

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

/// How long to wait, and what to take for the same.
pub struct ProbeTiming {
    /// When to begin, by the kernel's clock.
    pub(super) from: u64,
    /// Time after which what was sent has arrived, on top of the path's delay.
    pub(super) rest: u64,
    /// By how much a round trip may be longer than asked, on top of its fiftieth part.
    pub(super) round_trip: u64,
    /// By which share a rate may differ.
    pub(super) rate: f64,
    /// Trains for a rate, of which the best counts: in real time something may hold one up.
    pub(super) trains: u32,
    /// How long a train takes at the rate, at least.
    pub(super) train: Dur,
}

impl ProbeTiming {
    /// Exact.
    pub fn virtual_time(from: u64) -> ProbeTiming {
        ProbeTiming { from, rest: SECOND, round_trip: 2_000, rate: 0.02, trains: 1, train: Dur::ZERO }
    }

    /// Among other processes, with timers that are late.
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

/// What was measured.
#[derive(Clone, Default)]
pub struct MeasuredPath {
    /// Rows of the recording.
    pub rows: Vec<EnvironmentProperty>,
    /// In what it is not the path that was asked for.
    pub mismatch: Option<String>,
}

/// A datagram at a tap.
pub(super) struct ProbePacket {
    pub(super) at: u64,
    pub(super) tap: usize,
    pub(super) id: u16,
    pub(super) len: u64,
    pub(super) ce: bool,
}

pub(super) struct Prober<'a> {
    pub(super) pace: &'a ProbeTiming,
    /// Payload of a packet of many that one call sends, in real time; 0 where each is sent alone.
    pub(super) segment: u64,
    /// The largest super-segment that stays whole.
    pub(super) largest: Bytes,
    pub(super) taps: &'a mut Taps,
    pub(super) sockets: [OwnedFd; 2],
    pub(super) to: [SocketAddrV4; 2],
    pub(super) poll: OwnedFd,
    pub(super) timer: OwnedFd,
}

impl Prober<'_> {
    /// Sleeps until an instant of the kernel's clock.
    pub(super) fn until(&mut self, at: u64) -> Result<(), Failure> {
        let wrong = |e: std::io::Error| format!("a timer: {e}");
        sys::set_timer(self.timer.as_fd(), at).map_err(wrong)?;
        let mut events = Vec::new();
        while sys::now() < at {
            sys::wait(self.poll.as_fd(), &mut events).map_err(wrong)?;
        }
        Ok(())
    }

    /// Sends a datagram of `len` bytes of IP from one end: 0 is the sender.
    pub(super) fn send(&self, end: usize, len: u64) -> std::io::Result<usize> {
        let payload = vec![0; usize::try_from(len - HEADERS).expect("a packet")];
        sys::send_to(self.sockets[end].as_fd(), &payload, self.to[end])
    }

    /// What has passed the taps.
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
        // What the other end was sent is of no use to anybody.
        let mut waste = [0; 16_384];
        for socket in &self.sockets {
            while sys::receive(socket.as_fd(), &mut waste).is_ok() {}
        }
        all
    }
}

/// Bytes of the packets that a super-segment of probes stands for.
pub(super) fn on_the_wire(len: u64, segment: u64) -> u64 {
    if segment == 0 || len <= segment + HEADERS {
        return len;
    }
    let payload = len - HEADERS;
    payload + payload.div_ceil(segment) * HEADERS
}

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

pub(super) fn wrong(path: &mut MeasuredPath, why: impl Display) {
    path.mismatch.get_or_insert_with(|| format!("the path is not what was asked: {why}"));
}
