//! The receiver asks the account of memory: whether a packet has a place, and what window is announced.

use super::super::Receiver;
use super::{At, Fate, Held, Memory};
use crate::log::AckReason;
use crate::{MemoryRules, RecvMemory};

impl Receiver {
    /// From now on Linux's account of memory decides; we have announced segments of `advmss`.
    pub(crate) fn count_memory(&mut self, memory: RecvMemory, advmss: u64, scaled: bool) {
        if let Some(gso) = memory.gso {
            self.acks.set_mss(advmss.min(gso.get()));
        }
        self.memory = Some(Box::new(Memory::new(memory, self.edge - 1, advmss, scaled)));
        self.announced = (0, 0, 0);
    }

    /// That account.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        let memory = self.memory.as_deref_mut()?;
        memory.known = None;
        self.announced = (0, 0, 0);
        Some(memory)
    }

    /// `tcp_sequence` and `tcp_data_queue`: whether there is a place for `span`, with `headers` bytes before its data.
    pub(in crate::recv) fn admit(
        &mut self,
        span: &crate::messages::Span,
        fin: bool,
        push: bool,
        headers: u64,
    ) -> Fate {
        let (nxt, edge, read) = (self.nxt, self.edge, self.read);
        let rcv_mss = self.acks.rcv_mss();
        let len = span.end.saturating_sub(span.start);
        let Some(memory) = self.memory.as_deref_mut() else { return Fate::Goes };
        memory.known = None;
        self.announced = (0, 0, 0);
        let shut = edge <= nxt;
        let limit = memory.limit.max(edge).max(nxt);
        let measured = memory.cfg.rules == MemoryRules::Measured;
        if measured && span.end > limit && self.nxt > read {
            self.acks.demand(AckReason::Answer);
            return Fate::Dropped;
        }
        let bare_fin = len == 0 && fin;
        if span.end <= nxt && !(bare_fin && span.end == nxt) {
            return Fate::Goes;
        }
        let in_order = span.start <= nxt;
        if in_order && shut && !bare_fin || !in_order && span.start >= edge.max(nxt) {
            let known = span.start.min(nxt)..nxt;
            self.answer(known);
            self.acks.quick_mode(edge.saturating_sub(nxt));
            return Fate::Dropped;
        }
        let (cost, room) = memory.price(len, headers);
        if !memory.has_place(nxt) && !measured {
            self.acks.stop_quick();
            self.assembly.cut(memory.prune_hard());
            if memory.used > memory.size && (!in_order || memory.has_unread()) {
                return Fate::Dropped;
            }
        } else if memory.used > memory.size {
            self.assembly.cut(memory.prune(in_order));
            if memory.used > memory.size {
                if !in_order {
                    return Fate::Dropped;
                }
                memory.refused = true;
                self.acks.demand(AckReason::Answer);
                if memory.has_unread() && len > 0 {
                    return Fate::Dropped;
                }
            }
        }
        if len == 0 {
            return Fate::Goes;
        }
        if measured {
            memory.weigh(len, cost, rcv_mss);
        }
        let held = Held { start: span.start, end: span.end, cost, room };
        let grew = if in_order {
            memory.append(held, nxt);
            memory.grow(len, cost, rcv_mss)
        } else {
            if measured {
                self.acks.measured(len, push);
            }
            let grew = self.report_duplicates && memory.grow(len, cost, rcv_mss);
            memory.keep(held, nxt);
            grew
        };
        if grew {
            self.acks.window_grew();
        }
        Fate::Goes
    }

    /// What the window depends on besides memory.
    #[inline]
    pub(in crate::recv) fn at(&self) -> At {
        let Receiver { nxt, edge, acked, .. } = *self;
        At { nxt, edge, acked, rcv_mss: self.acks.rcv_mss(), shift: self.window.shift }
    }

    /// [`Receiver::announce`].
    #[inline(never)]
    pub(in crate::recv) fn announce_by_memory(&mut self) -> u16 {
        let at = self.at();
        let memory = self.memory.as_deref_mut().expect("asked where there is one");
        let (offer, tight) = memory.offer_again(at);
        memory.limit = memory.limit.max(offer.edge);
        memory.known = None;
        // With the new edge and everything acknowledged the same comes out.
        if !tight && !memory.refused && at.acked == at.nxt && at.edge == offer.edge {
            // The answer until something arrives or is read.
            self.announced = (self.read, self.nxt, offer.field);
        }
        self.edge = offer.edge;
        if tight {
            self.acks.stop_quick();
        }
        offer.field
    }

    /// The account of memory, where there is one, leads to the window `field` and leaves its edge where it is.
    pub(in crate::recv) fn announces_still(&self, field: u16) -> bool {
        self.memory.as_deref().is_none_or(|memory| {
            let (offer, tight) = memory.offer_anew(self.at());
            (offer.field, offer.edge, tight) == (field, self.edge, false)
        })
    }

    /// `__tcp_cleanup_rbuf`: the window has at least doubled by reading.
    pub(in crate::recv) fn reading_tells(&self, memory: &Memory) -> bool {
        let current = self.edge.saturating_sub(self.nxt);
        if 2 * current > memory.clamp {
            return false;
        }
        let (window, _) =
            memory.select(self.window.shift, self.acks.rcv_mss(), self.edge.saturating_sub(self.acked));
        window > 0 && window >= 2 * current
    }
}
