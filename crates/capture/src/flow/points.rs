//! The capture points whose packets one file mixes: captures of both ends that were merged, all interfaces of a router, or mirror ports of several
//! places. Each packet is then in it once for each point. Measures need the packets of one.

use super::seen::Way;
use tcpassay_units::{Dur, Time};

/// Copies that came on the same two ways after which there are two points.
const ENOUGH: u8 = 2;
/// Packets of an end that may be left out above twice those that are used: the used point may not see all of them.
const SPARE: i64 = 8;

/// The values of TTL or hop limit with which packets begin: 64 (RFC 1700), 128 (Windows), 255 (Solaris, routers), 32 (older systems).
const INITIAL: [u8; 4] = [32, 64, 128, 255];

/// What tells two points apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    /// The interface; the one that is used.
    Interface(u16),
    /// The VLAN; the one that is used.
    Vlan(u16),
    /// The TTL: routers are between the points. Packets of the near end have more than this there.
    Ttl(u8),
}

/// Two points, by the packets of one end: near this end is the first one.
#[derive(Clone, Copy, Debug)]
struct Two {
    first: Way,
    second: Way,
    copies: u8,
}

/// The packets that open a connection: SYN and SYN-ACK as they came first, their copies, and the ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    pub syns: [Option<Time>; 2],
    pub copies: [Option<Time>; 2],
    pub ack: Option<Time>,
}

impl Opening {
    /// The response times of both ends as the point near an end has seen them. The ACK came to the point near the opener first.
    pub fn answers(&self, near: usize) -> [Option<Dur>; 2] {
        let between = |asked: Option<Time>, answered: Option<Time>| Some(answered?.since(asked?));
        match near {
            0 => [between(self.copies[1], self.ack), between(self.syns[0], self.copies[1])],
            _ => [None, between(self.copies[0], self.syns[1])],
        }
    }
}

/// The ways on which the packets of a connection reached the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Points {
    /// Smallest and largest TTL of the packets of each end.
    ttls: [Option<(u8, u8)>; 2],
    /// By the end whose packets came twice.
    twice: [Option<Two>; 2],
    pub opening: Opening,
    /// Packets of both ends were seen at both points: those of one are left out.
    pub is_split: bool,
    /// One point does not see the packets of an end: both are used.
    is_one: bool,
    /// Since then: twice the packets of each end that were used, less those that were left out.
    balance: [i64; 2],
}

impl Points {
    /// A packet of end `from` comes on a way. Whether it is of a point that is left out.
    #[inline]
    pub fn leaves_out(&mut self, from: usize, way: Way) -> bool {
        let (least, most) = self.ttls[from].get_or_insert((way.ttl, way.ttl));
        (*least, *most) = (way.ttl.min(*least), way.ttl.max(*most));
        self.is_split && self.leaves(from, way)
    }

    fn leaves(&mut self, from: usize, way: Way) -> bool {
        let is_used = self.is_used(from, way);
        let balance = &mut self.balance[from];
        *balance += if is_used { 2 } else { -1 };
        if *balance < -SPARE {
            (self.is_split, self.is_one) = (false, true);
        }
        !is_used && self.is_split
    }

    /// Whether this packet of end `from` is the first one that shows that packets of both ends are in the capture twice.
    pub fn splits(&mut self, from: usize, way: Way) -> bool {
        let begins = !self.is_split
            && !self.is_one
            && self.near().is_some_and(|near| near != from)
            && self.is_used(from, way);
        self.is_split |= begins;
        begins
    }

    /// A packet of end `from` came on way `first`, and its copy on `second`.
    pub fn copied(&mut self, from: usize, first: Way, second: Way) {
        if first == second || self.is_split {
            return;
        }
        if self.near().is_some() {
            return;
        }
        match &mut self.twice[from] {
            Some(two) if (two.first, two.second) == (first, second) => two.copies += 1,
            two => *two = Some(Two { first, second, copies: 1 }),
        }
    }

    /// The end to which the point is near whose packets are used, if there are two points.
    pub fn near(&self) -> Option<usize> {
        self.twice.iter().position(|two| two.is_some_and(|two| two.copies >= ENOUGH))
    }

    fn mark(&self) -> Option<(usize, Mark)> {
        let near = self.near()?;
        let Two { first, second, .. } = self.twice[near]?;
        let mark = if first.interface != second.interface {
            Mark::Interface(first.interface)
        } else if first.vlan != second.vlan {
            Mark::Vlan(first.vlan)
        } else {
            Mark::Ttl(second.ttl)
        };
        Some((near, mark))
    }

    /// Whether a packet is of the point that is used. A packet of the far end has passed the other point before, and has a smaller TTL.
    fn is_used(&self, from: usize, way: Way) -> bool {
        match self.mark() {
            None => true,
            Some((_, Mark::Interface(used))) => way.interface == used,
            Some((_, Mark::Vlan(used))) => way.vlan == used,
            Some((near, Mark::Ttl(far))) if near == from => way.ttl > far,
            Some((_, Mark::Ttl(_))) => self.ttls[from].is_some_and(|(_, most)| way.ttl < most),
        }
    }

    /// What tells the points apart, and the end to which the used one is near; `None` for one point.
    pub fn words(&self) -> Option<(usize, String)> {
        let (near, mark) = self.mark().filter(|_| self.is_split)?;
        let Two { first, second, .. } = self.twice[near]?;
        let words = match mark {
            Mark::Interface(_) => format!("interfaces {} and {}", first.interface, second.interface),
            Mark::Vlan(_) => format!("VLAN {} and {}", first.vlan, second.vlan),
            Mark::Ttl(_) => format!("TTL {} and {}", first.ttl, second.ttl),
        };
        Some((near, words))
    }

    /// The TTL of packets of an end that have passed routers before the capture; `None` if it is one with which packets begin.
    pub fn routed(&self, end: usize) -> Option<u8> {
        let (least, most) = self.ttls[end]?;
        // Where two points are mixed, the packets of the nearer one are used.
        let is_near = self.is_split && self.near() == Some(end);
        let ttl = if is_near { most } else { least };
        (!INITIAL.contains(&ttl)).then_some(ttl)
    }
}
