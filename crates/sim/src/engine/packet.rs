//! Packets, the arena that stores them, and lists of packets.
//!
//! A packet stays at one place of the [`Arena`] for its whole life; elements pass its [`PacketId`]. Queues and
//! packets in flight are lists linked through the packets, so that no element allocates memory per packet.

use super::ids::HostId;
use tcpassay_units::{Bytes, Time, count};
use tcpassay_wire::{Ecn, Flags, Segment};

/// The flow of a packet: the same number in both directions of a connection. Classifiers, fair queues and equal-cost
/// routing use only this number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowLabel(pub u32);

/// Index of a packet in the arena.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketId(u32);

impl PacketId {
    const NONE: PacketId = PacketId(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The id of a packet in transit together with the fields that links and switches read, so that these elements need
/// not access the packet itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketHandle {
    pub id: PacketId,
    /// [`Packet::size`].
    pub size: u32,
    pub flow: FlowLabel,
    pub dst: HostId,
    pub segs: u16,
}

/// Transport protocol of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// A TCP segment.
    #[default]
    Tcp,
    /// A UDP datagram of `segment.len` bytes (background traffic). The other fields of `segment` are not used.
    Udp,
    /// ICMP `fragmentation needed` (RFC 1191 section 4) about the segment that begins at `segment.seq`; [`Packet::mss`] is the MTU of the next
    /// link. `segment.len` is what it quotes.
    Icmp,
}

/// A packet, or a super-segment between a stack and the wire (TSO, GRO).
///
/// 128 bytes, two cache lines. The first line contains the fields that links, switches and header prediction read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// Bytes of all IP packets that this packet represents: headers and payload.
    size: u32,
    /// The flow it belongs to.
    pub flow: FlowLabel,
    /// The next packet of the list that contains this packet.
    next: PacketId,
    /// The host that sent it.
    pub src: HostId,
    /// The host it goes to.
    pub dst: HostId,
    /// Payload bytes of each wire packet except the last; used when `segs` is above 1.
    pub mss: u16,
    /// Number of wire packets: 1, or more for a super-segment.
    pub segs: u16,
    /// Bytes of the IP header: 20 (IPv4) or 40 (IPv6).
    pub ip_header: u8,
    /// The ECN field.
    pub ecn: Ecn,
    /// TCP or UDP.
    pub kind: Protocol,
    /// The packet was damaged on the path. The checksum of the receiving host detects this, and the host drops the
    /// packet.
    pub corrupt: bool,
    /// Notify the sender when the packet has left the queues of its host ([`Hosts::sent`](super::Hosts::sent)). Only
    /// a [`Port`](crate::element::PortSpec) does so.
    pub notify: bool,
    /// The TCP flags AE, CWR and ECE are a counter (accurate ECN, RFC 9768). Segmentation copies them unchanged, and
    /// merging requires them to be equal.
    pub accecn: bool,
    /// Index of the output buffer of a switch port in which the packet waits; set by
    /// [`IngressTagSpec`](crate::element::IngressTagSpec).
    pub band: u8,
    /// The TCP header, options, and the length of the payload.
    pub segment: Segment,
    /// Time at which the element that holds the packet releases it.
    pub(crate) due: Time,
    /// Time at which the packet entered its current queue.
    pub(crate) stamp: Time,
    /// Time at which the stack passed the packet to the network; valid only when send times are recorded
    /// ([`Core::record_send_times`](super::Core::record_send_times)).
    pub created: Time,
}

impl Default for Packet {
    /// An empty segment from host 0 to itself.
    fn default() -> Packet {
        Packet {
            due: Time::ZERO,
            stamp: Time::ZERO,
            created: Time::ZERO,
            next: PacketId::NONE,
            size: 40,
            flow: FlowLabel(0),
            src: HostId(0),
            dst: HostId(0),
            mss: 0,
            segs: 1,
            ip_header: 20,
            ecn: Ecn::NotEct,
            kind: Protocol::Tcp,
            corrupt: false,
            notify: false,
            accecn: false,
            band: 0,
            segment: Segment::default(),
        }
    }
}

/// Source, destination and flow of the packets of a connection, and the flags that each of them carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub src: HostId,
    pub dst: HostId,
    pub flow: FlowLabel,
    /// See [`Packet::notify`] and [`Packet::accecn`].
    pub notify: bool,
    pub accecn: bool,
}

/// The largest IP packet on Ethernet.
pub const MTU: u32 = 1500;

impl Packet {
    /// A TCP segment from `src` to `dst`, sent as wire packets of at most `mss` payload bytes each.
    ///
    /// Panics when a segment longer than `mss` carries SYN or RST, or when `mss` is zero: no stack sends such a
    /// segment.
    pub fn tcp(src: HostId, dst: HostId, flow: FlowLabel, segment: Segment, ecn: Ecn, mss: u32) -> Packet {
        let mut p = Packet { flow, src, dst, ..Packet::default() };
        p.segment = segment;
        p.set_tcp(ecn, mss);
        p.measure();
        p
    }

    /// Completes the packet whose segment was written in place, for `route`; the TCP header has `header` bytes. See
    /// [`Packet::tcp`]. Returns the handle of the packet, which has the id `id`.
    #[expect(clippy::inline_always, reason = "once for each packet that a stack sends")]
    #[inline(always)]
    pub(crate) fn address(
        &mut self,
        id: PacketId,
        route: &Route,
        ecn: Ecn,
        mss: u32,
        header: u32,
    ) -> PacketHandle {
        (self.src, self.dst, self.flow) = (route.src, route.dst, route.flow);
        (self.notify, self.accecn) = (route.notify, route.accecn);
        (self.ip_header, self.corrupt, self.band) = (20, false, 0);
        self.set_tcp(ecn, mss);
        self.size = self.segment.len + u32::from(self.segs) * (20 + header);
        debug_assert_eq!(self.headers(), 20 + header, "the header's length");
        PacketHandle { id, size: self.size, flow: route.flow, dst: route.dst, segs: self.segs }
    }

    /// Sets the fields that follow from the segment and `mss`; see [`Packet::tcp`]. The caller sets the size.
    #[expect(clippy::inline_always, reason = "once for each packet that a stack sends")]
    #[inline(always)]
    fn set_tcp(&mut self, ecn: Ecn, mss: u32) {
        self.kind = Protocol::Tcp;
        self.ecn = ecn;
        self.mss = u16::try_from(mss).unwrap_or(u16::MAX);
        self.segs = if self.segment.len <= mss { 1 } else { self.count_segs(mss) };
    }

    #[inline(never)]
    fn count_segs(&self, mss: u32) -> u16 {
        assert!(!self.segment.flags.any(Flags::SYN | Flags::RST), "a super-segment with SYN or RST");
        u16::try_from(self.segment.len.div_ceil(mss)).expect("at most 65535 wire packets in a super-segment")
    }

    /// A UDP datagram of `payload` bytes.
    pub fn udp(src: HostId, dst: HostId, flow: FlowLabel, payload: u32, ecn: Ecn) -> Packet {
        let segment = Segment { len: payload, ..Segment::default() };
        let mut p = Packet::tcp(src, dst, flow, segment, ecn, payload.max(1));
        p.kind = Protocol::Udp;
        p.measure();
        p
    }

    /// The message of a router about this packet, which is too long for a link with an MTU of `mtu`. It has the flow of the packet, and as
    /// much of it as RFC 1812 section 4.3.2.3 allows: 576 bytes in all.
    pub(crate) fn too_long(&self, mtu: u16) -> Packet {
        let quoted = self.size.min(576 - 28);
        let segment = Segment { len: quoted, seq: self.segment.seq, ..Segment::default() };
        let mut p = Packet {
            flow: self.flow,
            src: self.dst,
            dst: self.src,
            kind: Protocol::Icmp,
            mss: mtu,
            ..Packet::default()
        };
        p.segment = segment;
        p.measure();
        p
    }

    /// Converts the packet to IPv6.
    #[must_use]
    pub fn over_ipv6(mut self) -> Packet {
        self.ip_header = 40;
        self.measure();
        self
    }

    /// Bytes of the IP packet. For a super-segment this is the sum over its wire packets, as Linux's queueing
    /// disciplines count it (`qdisc_pkt_len_init`).
    pub fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }

    /// As [`Packet::size`], as a plain number for code that runs for each packet.
    #[inline]
    pub(crate) fn size_u32(&self) -> u32 {
        self.size
    }

    /// The handle of the packet, whose id is `id`.
    #[inline]
    pub(crate) fn handle(&self, id: PacketId) -> PacketHandle {
        PacketHandle { id, size: self.size, flow: self.flow, dst: self.dst, segs: self.segs }
    }

    /// Header bytes of one wire packet: IP and transport.
    #[inline]
    pub fn headers(&self) -> u32 {
        let transport = match self.kind {
            Protocol::Tcp => self.segment.header_len(),
            Protocol::Udp | Protocol::Icmp => 8,
        };
        u32::from(self.ip_header) + transport
    }

    /// Recomputes the size after the payload, the options or `segs` changed.
    #[inline]
    pub fn measure(&mut self) {
        self.size = self.segment.len + u32::from(self.segs) * self.headers();
    }

    /// Whether the packet is a TCP segment without payload, SYN, FIN or RST (a pure ACK).
    pub fn is_pure_ack(&self) -> bool {
        self.kind == Protocol::Tcp
            && self.segment.len == 0
            && !self.segment.flags.any(Flags::SYN | Flags::FIN | Flags::RST)
    }
}

/// The packets of a run. Freed places are reused, last freed first.
#[derive(Clone, Debug)]
pub struct Arena {
    slots: Vec<Packet>,
    free: PacketId,
    created: u64,
    freed: u64,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena { slots: Vec::new(), free: PacketId::NONE, created: 0, freed: 0 }
    }
}

impl Arena {
    /// Stores `packet`.
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let draft = self.draft();
        let next = draft.next;
        *draft = packet;
        draft.next = next;
        self.take().0
    }

    /// The place that the next packet will occupy, with the contents of an earlier packet, to be overwritten.
    /// [`Arena::take`] then allocates it.
    #[inline]
    pub(crate) fn draft(&mut self) -> &mut Packet {
        if self.free == PacketId::NONE {
            self.extend();
        }
        &mut self.slots[self.free.index()]
    }

    /// Allocates the place that [`Arena::draft`] returned.
    #[inline]
    pub(crate) fn take(&mut self) -> (PacketId, &mut Packet) {
        count(&mut self.created, 1);
        let id = self.free;
        let slot = &mut self.slots[id.index()];
        self.free = std::mem::replace(&mut slot.next, PacketId::NONE);
        (id, slot)
    }

    #[cold]
    #[inline(never)]
    fn extend(&mut self) {
        self.free = PacketId(u32::try_from(self.slots.len()).expect("fewer than 2^32 packets at once"));
        self.slots.push(Packet::default());
    }

    /// Prefetches the memory of a packet that will be read soon: in a deep queue the packet is no longer in the cache
    /// when its transmission begins. Has no other effect.
    #[inline]
    pub(crate) fn prefetch(&self, id: PacketId) {
        if let Some(packet) = self.slots.get(id.index()) {
            super::prefetch(packet, 0..1);
        }
    }

    /// Frees the place of a packet.
    #[inline]
    pub fn free(&mut self, id: PacketId) {
        count(&mut self.freed, 1);
        self.slots[id.index()].next = self.free;
        self.free = id;
    }

    /// Number of packets in the arena.
    pub fn live(&self) -> usize {
        usize::try_from(self.created - self.freed).expect("fewer than 2^32 packets at once")
    }

    /// Number of packets stored so far, including copies and the results of segmentation.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// Number of places: the largest number of packets that existed at the same time.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

impl std::ops::Index<PacketId> for Arena {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.slots[id.index()]
    }
}

impl std::ops::IndexMut<PacketId> for Arena {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.index()]
    }
}

/// A first-in-first-out list linked through the packets. A packet is a member of at most one list.
#[derive(Clone, Debug)]
pub struct PacketList {
    head: PacketId,
    tail: PacketId,
    len: u32,
    bytes: u64,
}

impl Default for PacketList {
    fn default() -> PacketList {
        PacketList { head: PacketId::NONE, tail: PacketId::NONE, len: 0, bytes: 0 }
    }
}

impl PacketList {
    /// Appends a packet.
    #[inline]
    pub fn push_back(&mut self, arena: &mut Arena, id: PacketId) {
        self.bytes += u64::from(arena[id].size);
        if self.len == 0 {
            self.head = id;
        } else {
            arena[self.tail].next = id;
        }
        self.tail = id;
        self.len += 1;
    }

    /// Inserts a packet at the front.
    pub fn push_front(&mut self, arena: &mut Arena, id: PacketId) {
        let p = &mut arena[id];
        p.next = self.head;
        self.bytes += u64::from(p.size);
        if self.len == 0 {
            self.tail = id;
        }
        self.head = id;
        self.len += 1;
    }

    /// Removes and returns the first packet.
    #[inline]
    pub fn pop_front(&mut self, arena: &Arena) -> Option<PacketId> {
        let id = self.front()?;
        let p = &arena[id];
        self.head = p.next;
        self.bytes -= u64::from(p.size);
        self.len -= 1;
        Some(id)
    }

    /// The first.
    #[inline]
    pub fn front(&self) -> Option<PacketId> {
        (self.len > 0).then_some(self.head)
    }

    /// The last.
    pub fn back(&self) -> Option<PacketId> {
        (self.len > 0).then_some(self.tail)
    }

    /// Number of packets.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the IP bytes of the packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: u32, mss: u32) -> Packet {
        let segment = Segment { len: payload, flags: Flags::ACK, ..Segment::default() };
        Packet::tcp(HostId(0), HostId(1), FlowLabel(0), segment, Ecn::NotEct, mss)
    }

    #[test]
    fn a_full_segment_of_an_mtu_of_1500_counts_1500_bytes() {
        assert_eq!(packet(1460, 1460).size(), Bytes::new(1500));
        assert_eq!(packet(1440, 1440).over_ipv6().size(), Bytes::new(1500));
    }

    #[test]
    fn a_super_segment_counts_the_headers_of_every_packet_it_will_be() {
        let p = packet(2921, 1460);
        assert_eq!((p.segs, p.size()), (3, Bytes::new(2921 + 3 * 40)));
    }

    #[test]
    fn a_datagram_has_28_bytes_of_headers() {
        assert_eq!(
            Packet::udp(HostId(0), HostId(1), FlowLabel(0), 1000, Ecn::NotEct).size(),
            Bytes::new(1028)
        );
    }

    #[test]
    fn a_packet_takes_two_cache_lines_the_first_with_what_every_packet_needs() {
        assert_eq!(size_of::<Packet>(), 128);
        assert_eq!(std::mem::offset_of!(Packet, segment.options.sack) + 4, 64);
    }

    #[test]
    fn a_freed_place_is_used_again() {
        let mut arena = Arena::default();
        let a = arena.insert(packet(1, 1460));
        let b = arena.insert(packet(2, 1460));
        arena.free(a);
        assert_eq!(arena.insert(packet(3, 1460)), a);
        assert_eq!((arena[a].segment.len, arena[b].segment.len), (3, 2));
        assert_eq!((arena.live(), arena.capacity(), arena.created()), (2, 2, 3));
    }

    #[test]
    fn a_list_keeps_order_and_counts_bytes() {
        let mut arena = Arena::default();
        let ids: Vec<PacketId> = (1..=3).map(|n| arena.insert(packet(n, 1460))).collect();
        let mut list = PacketList::default();
        list.push_back(&mut arena, ids[1]);
        list.push_back(&mut arena, ids[2]);
        list.push_front(&mut arena, ids[0]);
        assert_eq!((list.len(), list.bytes()), (3, 126));
        let order: Vec<PacketId> = std::iter::from_fn(|| list.pop_front(&arena)).collect();
        assert_eq!(order, ids);
        assert_eq!((list.len(), list.bytes(), list.front()), (0, 0, None));
    }
}
