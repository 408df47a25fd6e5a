//! The receiver with Linux's accounting of memory: whether a packet is accepted, and the window that is
//! announced.

use super::Receiver;
use super::memory::admit::Packet;
use super::memory::{At, Fate, Memory};
use crate::RecvMemory;
use crate::log::AckReason;
use crate::messages::Span;
use tcpassay_units::Time;

impl Receiver {
    /// Starts Linux's accounting of receive memory. `advmss`: the MSS that we announced; `scaled` and `sack`: whether window scaling and
    /// SACK are in use. The first measurement of what is read in a round trip begins `now`.
    pub(crate) fn count_memory(
        &mut self,
        now: Time,
        memory: RecvMemory,
        advmss: u64,
        scaled: bool,
        sack: bool,
    ) {
        if let Some(gso) = memory.gso {
            self.acks.set_mss(advmss.min(gso.get()));
        }
        self.memory = Some(Box::new(Memory::new(now, memory, self.edge - 1, advmss, scaled, sack)));
        self.announced = (0, 0, 0);
    }

    /// Linux's accounting of receive memory, if it is in use. The caller may change it.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        let memory = self.memory.as_deref_mut()?;
        self.announced = (0, 0, 0);
        memory.invalidate();
        Some(memory)
    }

    /// Whether there is room for `span`, with `headers` bytes before its data, and whether the window may grow by it.
    pub(super) fn admit(&mut self, span: &Span, fin: bool, push: bool, headers: u64) -> (Fate, bool) {
        let packet = Packet {
            span: span.clone(),
            fin,
            headers,
            nxt: self.nxt,
            edge: self.edge,
            read: self.read,
            rcv_mss: self.acks.rcv_mss(),
            rtt: self.window.rtt(),
        };
        let Some(memory) = self.memory.as_deref_mut() else { return (Fate::Kept, false) };
        self.announced = (0, 0, 0);
        let done = memory.admit(&packet);
        if let Some(known) = done.duplicate {
            self.answer(known);
            self.acks.quick_mode(self.announced_window());
        }
        if done.ends_quick {
            self.acks.stop_quick();
        }
        self.assembly.cut(done.cut);
        if done.acks {
            self.acks.schedule();
            self.acks.demand(AckReason::Answer);
        }
        if done.measured {
            self.acks.measured(span.end.saturating_sub(span.start), push);
        }
        (done.fate, done.grew)
    }

    /// The inputs of the window besides memory.
    #[inline]
    pub(super) fn at(&self) -> At {
        let Receiver { nxt, edge, acked, .. } = *self;
        At { nxt, edge, acked, rcv_mss: self.acks.rcv_mss(), shift: self.window.shift() }
    }

    /// [`Receiver::announce`].
    #[inline(never)]
    pub(super) fn announce_by_memory(&mut self) -> u16 {
        let at = self.at();
        let memory = self.memory.as_deref_mut().expect("called only with an account of memory");
        let announced = memory.announce(at);
        if announced.stays {
            self.announced = (self.read, self.nxt, announced.offer.field);
        }
        self.edge = announced.offer.edge;
        if announced.tight {
            self.acks.stop_quick();
        }
        announced.offer.field
    }

    /// Whether the accounting of memory, if it is in use, gives the window `field` and does not move the right edge.
    pub(super) fn is_announced(&self, field: u16) -> bool {
        self.memory.as_deref().is_none_or(|memory| memory.leads_to(self.at(), field))
    }
}
