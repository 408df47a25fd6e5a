//! The interface of the network to elements and hosts: the clock, packets, forwarding and timers.

use super::counters::{Counters, DropReason};
use super::ids::{HostId, NodeId, TimerId};
use super::packet::{Arena, FlowLabel, Packet, PacketHandle, PacketId, Route};
use super::scheduler::{Scheduler, SourceId};
use super::stats::QueueStats;
use std::collections::BTreeMap;
use tcpassay_units::{Bytes, Time, count};
use tcpassay_wire::{Ecn, Segment};

/// The receiver of an event of the event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventTarget {
    Node(NodeId),
    Timer(TimerId),
}

/// An event of a packet at a watched element ([`Network::watch`](super::Network::watch)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEvent {
    /// The packet arrived; its contents are those on arrival.
    Arrived,
    /// The packet left; its contents are those on departure.
    Departed,
    /// The packet was marked CE, or ECE was set.
    Marked,
    /// It was dropped.
    Dropped(DropReason),
}

/// Events that the event loop delivers to the hosts between two events of the queue.
#[derive(Clone, Debug)]
pub(crate) enum HostEvent {
    Packet { node: NodeId, what: PacketEvent, id: PacketId, packet: Packet },
    TxCompleted(TxCompletion),
}

/// A packet left the queues of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxCompletion {
    pub host: HostId,
    pub flow: FlowLabel,
    pub bytes: Bytes,
}

/// A buffer that several ports of a switch share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SharedBuffer {
    pub capacity: u64,
    pub used: u64,
}

/// The part of the network that elements and hosts access. See the module.
#[derive(Clone, Debug, Default)]
pub struct Core {
    pub(crate) now: Time,
    pub(crate) queue: Scheduler,
    pub(crate) owners: Vec<EventTarget>,
    pub(crate) packets: Arena,
    /// Packets in transit at the current instant, each with the node that receives it.
    pub(crate) moving: Vec<(NodeId, PacketHandle)>,
    pub(crate) host_events: Vec<HostEvent>,
    pub(crate) egress: Vec<NodeId>,
    pub(crate) shared_buffers: Vec<SharedBuffer>,
    /// Of each middlebox, which both directions of a link share: when the last packet of each connection passed.
    pub(crate) last_passed: Vec<BTreeMap<FlowLabel, Time>>,
    /// [`Packet::created`] is set for packets of the stacks.
    dated: bool,
}

impl Core {
    /// The current virtual time.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The packet with this id. Panics or returns another packet when the packet was freed, which is a bug of the
    /// caller.
    #[inline]
    pub fn packet(&self, id: PacketId) -> &Packet {
        &self.packets[id]
    }

    /// Sends `packet` from the host `packet.src` at the current instant, behind the packets that are in transit
    /// already. Panics when the host has no egress path.
    #[inline]
    pub fn send(&mut self, mut packet: Packet) {
        packet.created = self.now;
        let to = self.egress_of(packet.src);
        let id = self.packets.insert(packet);
        self.moving.push((to, self.packets[id].handle(id)));
    }

    /// The buffer for the next segment that a stack sends with [`Core::send_draft`].
    #[inline]
    pub(crate) fn draft(&mut self) -> &mut Segment {
        &mut self.packets.draft().segment
    }

    /// Sends the segment of the [buffer](Core::draft), whose TCP header has `header` bytes; otherwise as
    /// [`Core::send`] of [`Packet::tcp`].
    #[expect(clippy::inline_always, reason = "once for each packet that a stack sends")]
    #[inline(always)]
    pub(crate) fn send_draft(&mut self, route: &Route, ecn: Ecn, mss: u32, header: u32) -> PacketHandle {
        let to = self.egress_of(route.src);
        let (id, packet) = self.packets.take();
        let handle = packet.address(id, route, ecn, mss, header);
        if self.dated {
            packet.created = self.now;
        }
        self.moving.push((to, handle));
        handle
    }

    /// Marks a packet whose checksum is wrong: the receiving host drops it.
    pub(crate) fn damage(&mut self, id: PacketId) {
        self.packets[id].corrupt = true;
    }

    /// Sets whether packets record the time at which a stack sent them. Recording costs one cache line per packet.
    pub(crate) fn record_send_times(&mut self, dated: bool) {
        self.dated = dated;
    }

    #[inline]
    fn egress_of(&self, src: HostId) -> NodeId {
        let to = self.egress[usize::from(src.0)];
        assert!(to != NodeId::NONE, "host {} has no way out", src.0);
        to
    }

    /// Creates a timer that is not set. When it fires, its id is passed to [`Hosts::timer`](super::Hosts::timer).
    pub fn add_timer(&mut self) -> TimerId {
        let source = self.queue.add();
        let owner = EventTarget::Timer(TimerId(source));
        self.own(source, owner);
        TimerId(source)
    }

    /// Removes a timer. Its id may be reused.
    pub fn remove_timer(&mut self, timer: TimerId) {
        self.queue.remove(timer.0);
    }

    /// Sets `timer` to `at`, replacing its earlier time. A time in the past means now.
    #[inline]
    pub fn set_timer(&mut self, timer: TimerId, at: Time) {
        self.queue.set(timer.0, at.max(self.now));
    }

    /// Cancels `timer`.
    #[inline]
    pub fn clear_timer(&mut self, timer: TimerId) {
        self.queue.clear(timer.0);
    }

    /// The time at which `timer` will fire.
    pub fn timer(&self, timer: TimerId) -> Option<Time> {
        self.queue.pending(timer.0)
    }

    /// The number of packets in the network now, and the largest number so far.
    pub fn packets_alive(&self) -> (usize, usize) {
        (self.packets.live(), self.packets.capacity())
    }

    /// The notification for the host when a packet leaves its queues; `None` when the packet requests none or was
    /// reported before.
    pub(crate) fn take_tx_completion(&mut self, id: PacketId) -> Option<TxCompletion> {
        let p = &mut self.packets[id];
        let sent = p.notify.then(|| TxCompletion { host: p.src, flow: p.flow, bytes: p.size() });
        p.notify = false;
        sent
    }

    pub(crate) fn own(&mut self, source: SourceId, owner: EventTarget) {
        let at = source.0 as usize;
        if at >= self.owners.len() {
            self.owners.resize(at + 1, owner);
        }
        self.owners[at] = owner;
    }
}

/// The part that all elements have in common: successor, event source, counters. The fields that every packet needs
/// share a cache line; the others are in [`ColdState`].
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ElementContext {
    pub next: NodeId,
    pub source: SourceId,
    /// Packet events are reported to the hosts ([`Network::watch`](super::Network::watch)).
    pub watched: bool,
    /// Statistics of the queue are recorded.
    pub collects: bool,
    pub packets_in: u64,
    pub bytes_in: u64,
    pub packets_out: u64,
    pub bytes_out: u64,
    pub cold: Box<ColdState>,
}

/// The fields of [`ElementContext`] that only some packets need.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ColdState {
    pub stats: Option<QueueStats>,
    pub node: NodeId,
    /// All counters except those in [`ElementContext`].
    pub counters: Counters,
}

impl ElementContext {
    pub fn new(node: NodeId, source: SourceId) -> ElementContext {
        ElementContext {
            next: NodeId::NONE,
            source,
            watched: false,
            collects: false,
            packets_in: 0,
            bytes_in: 0,
            packets_out: 0,
            bytes_out: 0,
            cold: Box::new(ColdState { stats: None, node, counters: Counters::default() }),
        }
    }

    /// A context that belongs to no element, for tests of the counters.
    #[cfg(test)]
    pub fn detached() -> ElementContext {
        ElementContext::new(NodeId::NONE, SourceId::NONE)
    }

    /// All counters.
    pub fn counters(&self) -> Counters {
        Counters {
            packets_in: self.packets_in,
            bytes_in: self.bytes_in,
            packets_out: self.packets_out,
            bytes_out: self.bytes_out,
            ..self.cold.counters
        }
    }

    /// Counts a packet that arrived.
    #[inline]
    pub fn arrived(&mut self, core: &mut Core, handle: PacketHandle) {
        count(&mut self.packets_in, 1);
        count(&mut self.bytes_in, u64::from(handle.size));
        if self.watched {
            self.report_packet_event(core, handle.id, PacketEvent::Arrived);
        }
    }

    /// Counts a packet that leaves.
    #[inline]
    pub fn left(&mut self, core: &mut Core, handle: PacketHandle) {
        count(&mut self.packets_out, 1);
        count(&mut self.bytes_out, u64::from(handle.size));
        if self.watched {
            self.report_packet_event(core, handle.id, PacketEvent::Departed);
        }
    }

    /// Reports a packet at an element that never holds packets. Its output counters follow from its input and its
    /// drops ([`Network::counters`](super::Network::counters)).
    #[inline]
    pub fn passed(&mut self, core: &mut Core, handle: PacketHandle) {
        if self.watched {
            self.report_packet_event(core, handle.id, PacketEvent::Departed);
        }
    }

    /// Counts packets that were created here (copies, segmentation).
    pub fn made(&mut self, packets: u64) {
        self.cold.counters.made += packets;
    }

    /// Counts a packet that was merged into another one.
    pub fn merged(&mut self) {
        self.cold.counters.merged += 1;
    }

    /// Counts a packet that was marked.
    pub fn marked(&mut self, core: &mut Core, id: PacketId) {
        self.cold.counters.marked += 1;
        if self.watched {
            self.report_packet_event(core, id, PacketEvent::Marked);
        }
    }

    /// Counts a packet whose header was changed, other than by a mark.
    pub fn changed(&mut self) {
        self.cold.counters.marked += 1;
    }

    /// Forwards a packet to the next element.
    #[inline]
    pub fn forward(&mut self, core: &mut Core, id: PacketId) {
        self.forward_handle(core, core.packets[id].handle(id));
    }

    /// As [`ElementContext::forward`].
    #[inline]
    pub fn forward_handle(&mut self, core: &mut Core, handle: PacketHandle) {
        self.left(core, handle);
        core.moving.push((self.next, handle));
    }

    /// Drops a packet.
    pub fn drop(&mut self, core: &mut Core, id: PacketId, why: DropReason) {
        self.cold.counters.dropped[why] += 1;
        self.cold.counters.bytes_dropped += u64::from(core.packets[id].size_u32());
        if self.watched {
            self.report_packet_event(core, id, PacketEvent::Dropped(why));
        }
        let sent = core.take_tx_completion(id);
        core.host_events.extend(sent.map(HostEvent::TxCompleted));
        core.packets.free(id);
    }

    /// Sets CE on a packet that is ECN-capable. Returns whether it was; a packet that carried CE before counts as
    /// marked.
    pub fn mark(&mut self, core: &mut Core, id: PacketId) -> bool {
        if !core.packets[id].ecn.is_capable() {
            return false;
        }
        core.packets[id].ecn = Ecn::Ce;
        self.marked(core, id);
        true
    }

    /// Schedules this element, which has no pending event, at `at`, always behind all other events at that time.
    #[expect(clippy::inline_always, reason = "once for each event")]
    #[inline(always)]
    pub fn wake_at_last(&self, core: &mut Core, at: Time) {
        core.queue.add_last(self.source, at);
    }

    /// Schedules this element at `at`, or cancels its event, replacing its earlier time.
    #[inline]
    pub fn wake_at(&self, core: &mut Core, at: Option<Time>) {
        match at {
            Some(at) => core.queue.set(self.source, at),
            None => core.queue.clear(self.source),
        }
    }

    /// Records the queue length after an arrival.
    #[inline]
    pub fn queued(&mut self, core: &Core, bytes: u64, packets: u32) {
        if let Some(stats) = &mut self.cold.stats {
            stats.queued(core.now, bytes, packets);
        }
    }

    /// Records that a packet waited from `since` until `until`.
    #[inline]
    pub fn waited(&mut self, since: Time, until: Time) {
        if let Some(stats) = &mut self.cold.stats {
            stats.waited(until, until.since(since));
        }
    }

    /// Reports a packet event of a watched element. Out of line because few elements are watched.
    #[cold]
    pub fn report_packet_event(&self, core: &mut Core, id: PacketId, what: PacketEvent) {
        let (node, packet) = (self.cold.node, &core.packets[id]);
        core.host_events.push(HostEvent::Packet { node, what, id, packet: packet.clone() });
    }
}
