//! Generic receive offload: which segments are merged. See [`super::RxSpec`].

use crate::engine::{Core, ElementContext, Packet, PacketId, Protocol};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// The open merges, oldest first. Each is the packet to which further segments are appended.
#[derive(Clone, Debug)]
pub(crate) struct GroTable {
    max: u64,
    open: Vec<Merge>,
}

#[derive(Clone, Copy, Debug)]
struct Merge {
    packet: PacketId,
    /// The tick in which it was opened (`NAPI_GRO_CB(skb)->age`).
    tick: u64,
}

/// The kernel's clock of timers, `jiffies` with HZ = 1000.
const TICK: Dur = Dur::from_millis(1);

fn tick(now: Time) -> u64 {
    now.as_nanos() / TICK.as_nanos()
}

/// Flags that an appended segment may have in addition to those of the merge; they close the merge.
const PASSED_ON: Flags = Flags::from_bits(Flags::FIN.bits() | Flags::PSH.bits());

/// A packet with one of these flags is never held.
const ENDS: Flags = Flags::from_bits(
    Flags::URG.bits() | Flags::PSH.bits() | Flags::RST.bits() | Flags::SYN.bits() | Flags::FIN.bits(),
);

impl GroTable {
    pub fn new(max: Bytes) -> GroTable {
        GroTable { max: max.get(), open: Vec::new() }
    }

    pub fn held(&self) -> u64 {
        self.open.len() as u64
    }

    /// Appends a packet to the open merge of its flow, opens a merge, or passes the packet on. Packets of a flow keep
    /// their order.
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        let new = &core.packets[id];
        if new.kind != Protocol::Tcp || new.corrupt {
            ctx.forward(core, id);
            return;
        }
        let at = self.open.iter().position(|held| same_flow(&core.packets[held.packet], new));
        let uneven = new.segs > 1 && !new.segment.len.is_multiple_of(u32::from(new.mss));
        let ends = new.segment.len == 0 || new.segment.flags.any(ENDS) || uneven;
        let Some(at) = at else {
            self.open_or_pass(ctx, core, id, ends);
            return;
        };
        let held = self.open[at].packet;
        if may_append(&core.packets[held], new, self.max) {
            let short = new.segment.len < u32::from(core.packets[held].mss);
            append(ctx, core, held, id);
            if ends || short {
                self.open.remove(at);
                ctx.forward(core, held);
            }
            return;
        }
        self.open.remove(at);
        ctx.forward(core, held);
        self.open_or_pass(ctx, core, id, ends);
    }

    fn open_or_pass(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId, ends: bool) {
        if ends {
            ctx.forward(core, id);
            return;
        }
        let p = &mut core.packets[id];
        if p.segs == 1 {
            // A later segment must not be longer than the first one.
            p.mss = u16::try_from(p.segment.len).expect("a wire packet");
        }
        self.open.push(Merge { packet: id, tick: tick(core.now) });
    }

    /// Passes on every open merge, oldest first.
    pub fn flush(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        for held in self.open.drain(..) {
            ctx.forward(core, held.packet);
        }
    }

    /// Passes on the merges that were opened in an earlier tick (`napi_gro_flush` with `flush_old`).
    pub fn flush_old(&mut self, ctx: &mut ElementContext, core: &mut Core) {
        let now = tick(core.now);
        let old = self.open.iter().take_while(|held| held.tick < now).count();
        for held in self.open.drain(..old) {
            ctx.forward(core, held.packet);
        }
    }
}

fn same_flow(a: &Packet, b: &Packet) -> bool {
    a.flow == b.flow && a.src == b.src
}

fn may_append(held: &Packet, new: &Packet, max: u64) -> bool {
    let (h, n) = (&held.segment, &new.segment);
    // A merge may begin with CWR, which its later segments do not carry. With accurate ECN all flags must be equal.
    let ignored = if new.accecn { PASSED_ON } else { PASSED_ON | Flags::CWR };
    let differing = Flags::from_bits(h.flags.bits() ^ n.flags.bits()).without(ignored);
    let cwr = n.flags.has(Flags::CWR) && !new.accecn;
    // The size of the merged IP packet: the headers are counted once.
    let merged = u64::from(held.headers() + h.len + n.len);
    held.ecn == new.ecn
        && differing == Flags::NONE
        && !cwr
        && h.ack == n.ack
        && h.options == n.options
        && h.end() == n.seq
        && (1..=u32::from(held.mss)).contains(&n.len)
        && merged < max
}

fn append(ctx: &mut ElementContext, core: &mut Core, held: PacketId, id: PacketId) {
    let (len, flags, segs) = {
        let new = &core.packets[id];
        (new.segment.len, new.segment.flags, new.segs)
    };
    let p = &mut core.packets[held];
    p.segment.len += len;
    p.segment.flags |= Flags::from_bits(flags.bits() & PASSED_ON.bits());
    p.segs += segs;
    p.measure();
    ctx.merged();
    core.packets.free(id);
}
