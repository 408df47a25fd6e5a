//! What can be said of a packet without its connection: whether its capture point was chosen, its time, and its ends.

use crate::clock::{Clocks, Told};
use crate::content::{CapturedSegment, Content};
use crate::counts::PacketCounts;
use crate::flow::Way;
use crate::icmp::IcmpError;
use crate::reader::Interface;
use crate::table::Ends;
use crate::tunnel::Around;
use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Segment};

/// The steps in which the clock of the capture advances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockStep {
    /// The shortest time between two successive packets that is not zero.
    least_ns: u64,
    /// Successive packets had equal times.
    equal: bool,
}

impl Default for ClockStep {
    fn default() -> ClockStep {
        ClockStep { least_ns: u64::MAX, equal: false }
    }
}

impl ClockStep {
    #[inline]
    fn add(&mut self, step_ns: u64) {
        if step_ns == 0 {
            self.equal = true;
        } else if step_ns < self.least_ns {
            self.least_ns = step_ns;
        }
    }

    /// The shortest time between two packets, in a capture that has packets with equal times.
    pub fn step_ns(self) -> Option<u64> {
        (self.equal && self.least_ns < u64::MAX).then_some(self.least_ns)
    }
}

/// A segment as its connection takes it in.
pub(crate) struct Arrived {
    pub at: Time,
    pub segment: Segment,
    pub ends: Ends,
    pub id: u16,
    pub checksum: u16,
    pub way: Way,
    pub ecn: Ecn,
    /// The captured bytes end inside the TCP header.
    pub cut: bool,
    /// Options contradict themselves.
    pub malformed: bool,
    /// Number of the capture point.
    pub point: u32,
    pub around: Option<Box<Around>>,
}

/// What a packet carries for the analysis.
pub(crate) enum Arrival {
    Segment(Arrived),
    /// An error about a segment: when, at which capture point.
    Icmp(Time, u32, Box<IcmpError>),
}

/// The capture points and their clocks.
pub(crate) struct Intake {
    /// Only packets of the interface with this name.
    chosen: Option<String>,
    /// All interfaces are one capture point.
    merge: bool,
    clocks: Clocks,
    pub clock: ClockStep,
}

impl Intake {
    pub fn new(chosen: Option<String>, merge: bool) -> Intake {
        Intake { chosen, merge, clocks: Clocks::default(), clock: ClockStep::default() }
    }

    /// What a packet carries; `None` if that is nothing for the analysis, which is counted.
    #[inline]
    pub fn content(
        &mut self,
        content: Content,
        interfaces: &[Interface],
        counts: &mut PacketCounts,
    ) -> Option<Arrival> {
        match content {
            Content::Other => None,
            Content::Segment(segment) => self.segment(segment, interfaces, counts).map(Arrival::Segment),
            Content::Icmp(at_ns, interface, error) => {
                if !self.is_chosen(interface, interfaces, counts) {
                    return None;
                }
                let at = self.time(at_ns, interface, counts);
                Some(Arrival::Icmp(at, self.point(interface), error))
            }
        }
    }

    /// A segment; `None` if its interface was not chosen.
    #[inline]
    pub fn segment(
        &mut self,
        captured: CapturedSegment,
        interfaces: &[Interface],
        counts: &mut PacketCounts,
    ) -> Option<Arrived> {
        let CapturedSegment { at_ns, interface, vlan, device, around, headers } = captured;
        if !self.is_chosen(interface, interfaces, counts) {
            return None;
        }
        let envelope = headers.envelope;
        let shown = if device > 0 { device } else { u16::try_from(interface).unwrap_or(u16::MAX) };
        Some(Arrived {
            at: self.time(at_ns, interface, counts),
            segment: headers.segment,
            ends: Ends::of([envelope.from, envelope.to]),
            id: envelope.id,
            checksum: headers.checksum,
            way: Way { ttl: envelope.ttl, vlan, interface: shown },
            ecn: envelope.ecn,
            cut: headers.cut,
            malformed: headers.malformed,
            point: self.point(interface),
            around,
        })
    }

    fn point(&self, interface: usize) -> u32 {
        let point = if self.merge { 0 } else { interface };
        u32::try_from(point).expect("fewer than 2^32 interfaces")
    }

    /// Whether the packets of an interface are to be analysed; otherwise the packet is counted.
    #[inline]
    fn is_chosen(&self, interface: usize, interfaces: &[Interface], counts: &mut PacketCounts) -> bool {
        let chosen = self.chosen.as_ref();
        let is_other =
            chosen.is_some_and(|name| interfaces.get(interface).is_none_or(|one| one.name != *name));
        counts.other_interfaces += u64::from(is_other);
        !is_other
    }

    /// The time of a packet. One without a time, or with a time that cannot be true, has that of the packet before it.
    #[inline]
    fn time(&mut self, at: Option<u64>, interface: usize, counts: &mut PacketCounts) -> Time {
        let (time, told) = self.clocks.time(at, interface);
        match told {
            Told::Time => {}
            Told::Absent => counts.timeless += 1,
            Told::Contradictory => counts.contradictory_times += 1,
            Told::Set => counts.clocks_set += 1,
        }
        let before = self.clocks.passed(time, interface);
        let back = before.since(time);
        if back.is_zero() {
            self.clock.add(time.since(before).as_nanos());
        } else {
            counts.backwards += 1;
            counts.most_backwards_ns = counts.most_backwards_ns.max(back.as_nanos());
        }
        time
    }
}
