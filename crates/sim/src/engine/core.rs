//! What elements and hosts may do: read the clock, hold packets, pass them on, ask to be woken.

use super::counters::{Counters, DropReason};
use super::ids::{HostId, NodeId, TimerId};
use super::packet::{Arena, FlowKey, Packet, PacketHandle, PacketId, Route};
use super::scheduler::{Scheduler, SourceId};
use super::stats::QueueStats;
use tcpassay_units::{Bytes, Time, count};
use tcpassay_wire::{Ecn, Segment};

/// Who is woken by a source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventTarget {
    Node(NodeId),
    Timer(TimerId),
}

/// What happened to a packet at an element, for whoever watches ([`Network::watch`](super::Network::watch)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEvent {
    /// It arrived; the packet is shown as it came.
    Arrived,
    /// It left; the packet is shown as it goes on.
    Departed,
    /// It was marked CE, or given ECE.
    Marked,
    /// It was dropped.
    Dropped(DropReason),
}

/// What the run loop tells the hosts between two events.
#[derive(Clone, Debug)]
pub(crate) enum HostEvent {
    Packet { node: NodeId, what: PacketEvent, packet: Packet },
    TxCompleted(TxCompletion),
}

/// A packet left the queues of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxCompletion {
    pub host: HostId,
    pub flow: FlowKey,
    pub bytes: Bytes,
}

/// A buffer that several ports of a switch share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SharedBuffer {
    pub capacity: u64,
    pub used: u64,
}

/// The part of the network that elements and hosts act on. See the module.
#[derive(Clone, Debug, Default)]
pub struct Core {
    pub(crate) now: Time,
    pub(crate) queue: Scheduler,
    pub(crate) owners: Vec<EventTarget>,
    pub(crate) packets: Arena,
    /// Packets under way within the present instant: each to be received by a node.
    pub(crate) moving: Vec<(NodeId, PacketHandle)>,
    pub(crate) host_events: Vec<HostEvent>,
    pub(crate) egress: Vec<NodeId>,
    pub(crate) shared_buffers: Vec<SharedBuffer>,
    /// [`Packet::created`] of what stacks send is kept.
    dated: bool,
}

impl Core {
    /// The present instant.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// A packet. Panics or shows another packet when `id` was freed: a bug of ours.
    #[inline]
    pub fn packet(&self, id: PacketId) -> &Packet {
        &self.packets[id]
    }

    /// `packet` leaves `packet.src` by the first element of its way out, in the present instant, after what is already
    /// under way. Panics when the host has no way out.
    #[inline]
    pub fn send(&mut self, mut packet: Packet) {
        packet.created = self.now;
        let to = self.egress_of(packet.src);
        let id = self.packets.insert(packet);
        self.moving.push((to, self.packets[id].handle(id)));
    }

    /// Where the next segment that a stack sends is to be written, before [`Core::send_draft`].
    #[inline]
    pub(crate) fn draft(&mut self) -> &mut Segment {
        &mut self.packets.draft().segment
    }

    /// As [`Core::send`] of [`Packet::tcp`], of the segment in the [draft](Core::draft), whose TCP header has `header` bytes.
    #[expect(clippy::inline_always, reason = "once for each packet that a stack sends")]
    #[inline(always)]
    pub(crate) fn send_draft(&mut self, route: &Route, ecn: Ecn, mss: u32, header: u32) -> PacketHandle {
        let to = self.egress_of(route.src);
        let id = self.packets.take();
        let packet = &mut self.packets[id];
        let handle = packet.address(id, route, ecn, mss, header);
        if self.dated {
            packet.created = self.now;
        }
        self.moving.push((to, handle));
        handle
    }

    /// Whether packets shall tell when a stack sent them: it costs a cache line of each.
    pub(crate) fn record_send_times(&mut self, dated: bool) {
        self.dated = dated;
    }

    #[inline]
    fn egress_of(&self, src: HostId) -> NodeId {
        let to = self.egress[usize::from(src.0)];
        assert!(to != NodeId::NONE, "host {} has no way out", src.0);
        to
    }

    /// A new timer, not set. It is `Hosts::timer`'s argument when it fires.
    pub fn add_timer(&mut self) -> TimerId {
        let source = self.queue.add();
        let owner = EventTarget::Timer(TimerId(source));
        self.own(source, owner);
        TimerId(source)
    }

    /// The end of a timer; its id will be used again.
    pub fn remove_timer(&mut self, timer: TimerId) {
        self.queue.remove(timer.0);
    }

    /// Fires `timer` at `at` instead of whenever it would have; in the past means now.
    #[inline]
    pub fn set_timer(&mut self, timer: TimerId, at: Time) {
        self.queue.set(timer.0, at.max(self.now));
    }

    /// Cancels `timer`.
    #[inline]
    pub fn clear_timer(&mut self, timer: TimerId) {
        self.queue.clear(timer.0);
    }

    /// When `timer` will fire.
    pub fn timer(&self, timer: TimerId) -> Option<Time> {
        self.queue.pending(timer.0)
    }

    /// Packets alive anywhere in the network, and the most that ever were.
    pub fn packets_alive(&self) -> (usize, usize) {
        (self.packets.live(), self.packets.capacity())
    }

    /// What to tell the host of a packet that leaves its queues, once, when it asked for that.
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

/// How an element speaks to the rest: its way out, its wake-up, its counters. What every packet needs fits a cache line;
/// the rest stands apart.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ElementContext {
    pub next: NodeId,
    pub source: SourceId,
    pub watched: bool,
    /// A queue's statistics are kept.
    pub collects: bool,
    pub packets_in: u64,
    pub bytes_in: u64,
    pub packets_out: u64,
    pub bytes_out: u64,
    pub cold: Box<ColdState>,
}

/// What only some packets need of an [`ElementContext`].
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct ColdState {
    pub stats: Option<QueueStats>,
    pub node: NodeId,
    /// All but what stands in [`ElementContext`] itself.
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

    /// Of no element, for tests of what only counts.
    #[cfg(test)]
    pub fn detached() -> ElementContext {
        ElementContext::new(NodeId::NONE, SourceId::NONE)
    }

    /// The counters, whole.
    pub fn counters(&self) -> Counters {
        Counters {
            packets_in: self.packets_in,
            bytes_in: self.bytes_in,
            packets_out: self.packets_out,
            bytes_out: self.bytes_out,
            ..self.cold.counters
        }
    }

    /// A packet came.
    #[inline]
    pub fn arrived(&mut self, core: &mut Core, handle: PacketHandle) {
        count(&mut self.packets_in, 1);
        count(&mut self.bytes_in, u64::from(handle.size));
        if self.watched {
            self.see(core, handle.id, PacketEvent::Arrived);
        }
    }

    /// A packet leaves.
    #[inline]
    pub fn left(&mut self, core: &mut Core, handle: PacketHandle) {
        count(&mut self.packets_out, 1);
        count(&mut self.bytes_out, u64::from(handle.size));
        if self.watched {
            self.see(core, handle.id, PacketEvent::Departed);
        }
    }

    /// A packet passes an element that never holds one: what left is what came and was not dropped
    /// ([`Network::counters`](super::Network::counters)).
    #[inline]
    pub fn passed(&mut self, core: &mut Core, handle: PacketHandle) {
        if self.watched {
            self.see(core, handle.id, PacketEvent::Departed);
        }
    }

    /// So many packets appeared that did not come.
    pub fn made(&mut self, packets: u64) {
        self.cold.counters.made += packets;
    }

    /// A packet disappeared into another.
    pub fn merged(&mut self) {
        self.cold.counters.merged += 1;
    }

    /// A packet was marked.
    pub fn marked(&mut self, core: &mut Core, id: PacketId) {
        self.cold.counters.marked += 1;
        if self.watched {
            self.see(core, id, PacketEvent::Marked);
        }
    }

    /// Passes a packet to the next element.
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

    /// The end of a packet.
    pub fn drop(&mut self, core: &mut Core, id: PacketId, why: DropReason) {
        self.cold.counters.dropped[why] += 1;
        self.cold.counters.bytes_dropped += u64::from(core.packets[id].size_u32());
        if self.watched {
            self.see(core, id, PacketEvent::Dropped(why));
        }
        let sent = core.take_tx_completion(id);
        core.host_events.extend(sent.map(HostEvent::TxCompleted));
        core.packets.free(id);
    }

    /// Marks a packet CE when it may be marked; says whether it was (a packet that already carried CE counts).
    pub fn mark(&mut self, core: &mut Core, id: PacketId) -> bool {
        if !core.packets[id].ecn.is_capable() {
            return false;
        }
        core.packets[id].ecn = Ecn::Ce;
        self.marked(core, id);
        true
    }

    /// As [`ElementContext::wake_at`] for an element that would not have been woken, but behind everything else that is due at that instant in
    /// any case.
    #[inline]
    pub fn wake_at_last(&self, core: &mut Core, at: Time) {
        core.queue.add_last(self.source, at);
    }

    /// Wakes this element at `at` instead of whenever it would have been woken.
    #[inline]
    pub fn wake_at(&self, core: &mut Core, at: Option<Time>) {
        match at {
            Some(at) => core.queue.set(self.source, at),
            None => core.queue.clear(self.source),
        }
    }

    /// The queue, as an arriving packet left it.
    #[inline]
    pub fn queued(&mut self, core: &Core, bytes: u64, packets: u32) {
        if let Some(stats) = &mut self.cold.stats {
            stats.queued(core.now, bytes, packets);
        }
    }

    /// A packet waited from `since` until `until`.
    #[inline]
    pub fn waited(&mut self, since: Time, until: Time) {
        if let Some(stats) = &mut self.cold.stats {
            stats.waited(until, until.since(since));
        }
    }

    /// Out of line: only watched elements come here.
    #[cold]
    pub fn see(&self, core: &mut Core, id: PacketId, what: PacketEvent) {
        let packet = core.packets[id].clone();
        core.host_events.push(HostEvent::Packet { node: self.cold.node, what, packet });
    }
}
