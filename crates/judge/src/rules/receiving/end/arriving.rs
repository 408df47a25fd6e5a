//! What an arriving segment changes at its receiver (RFC 9293 section 3.10.7.4, seventh; Linux `tcp_data_queue`).

use super::{Arrival, End, Refusal};
use crate::rules::receiving::space::Space;
use tcpassay_measure::reason::AckReason;
use tcpassay_tcp::{Config, DctcpReceiver, EcnMode, StackFlavor};
use tcpassay_wire::Flags;

impl End {
    /// Processes the segment that arrived last, after the sender has processed its ACK field.
    pub(super) fn process(&mut self, stack: &Config) {
        let Some(arrival) = self.arrival.take() else { return };
        let opening = std::mem::take(&mut self.opening);
        if arrival.flags.any(Flags::SYN | Flags::RST) {
            if arrival.refused.is_some() {
                self.acks.may_demand(AckReason::Answer);
            }
            return;
        }
        if arrival.refused.is_none() && (stack.ack_partial || stack.flavor == StackFlavor::FreeBsd) {
            // An ACK of a part in recovery is answered, which is the first reason of an ACK: data come later (`tcp_sack_partialack`).
            self.acks.may_demand(AckReason::Answer);
        }
        match arrival.refused {
            Some(why) => self.refuses(&arrival, why),
            None if arrival.is_bare() => {
                if !opening {
                    self.rtt.bare(arrival.stamp);
                }
                self.bare(&arrival, stack);
            }
            None => {
                let earlier = (self.acks.left_out > 0).then(|| (self.space.clone(), self.place()));
                self.data(&arrival, stack);
                self.earlier = earlier.filter(|_| self.stream.crowded);
            }
        }
    }

    /// RFC 9293 section 3.10.7.4, first: a segment that is not acceptable is answered.
    fn refuses(&mut self, arrival: &Arrival, why: Refusal) {
        let bare = arrival.is_bare();
        match why {
            Refusal::Silent => return,
            Refusal::Challenged => return self.acks.may_demand(AckReason::Answer),
            Refusal::Paws if bare && !self.linux => return,
            // At most once in half a second (`tcp_oow_rate_limited`).
            Refusal::Paws | Refusal::Window if bare && self.linux => {
                return self.acks.may_demand(AckReason::Answer);
            }
            Refusal::Paws | Refusal::Window => {}
        }
        let end = arrival.end + u64::from(self.linux && arrival.fin());
        self.answers(arrival.start, end);
    }

    /// A segment is answered; its data that arrived before are reported.
    fn answers(&mut self, start: u64, end: u64) {
        if start < end && start < self.stream.nxt {
            self.repeats |= self.dsack;
            self.acks.hurry(self.announced(), false);
        }
        self.acks.demand(AckReason::Answer);
    }

    fn bare(&mut self, arrival: &Arrival, stack: &Config) {
        if self.agreed.ecn == EcnMode::Classic && stack.flavor != StackFlavor::Rfc {
            if arrival.flags.has(Flags::CWR) {
                self.latched = false;
            }
            if arrival.ce && stack.flavor == StackFlavor::FreeBsd {
                self.latched = true;
            }
        }
    }

    fn data(&mut self, arrival: &Arrival, stack: &Config) {
        let Arrival { start, end, .. } = *arrival;
        let sample = self.rtt.sample(arrival.stamp, end - start >= self.acks.rcv_mss);
        if self.linux {
            self.rtt.take(sample);
        }
        if arrival.flags.has(Flags::CWR) && self.agreed.ecn != EcnMode::Accurate {
            self.latched &= self.agreed.ecn != EcnMode::Classic;
            if start < end {
                self.acks.reduced(stack.dctcp_receiver == DctcpReceiver::Immediate);
            }
        }
        if self.linux {
            self.repeats = false;
        }
        let finished = self.stream.is_finished();
        let mut place = self.place();
        let counted = !finished
            && matches!(self.space, Space::Memory(_) | Space::Unknown)
            && stack.recv_memory.is_some();
        let fast = self.is_predicted(arrival);
        if fast {
            place.rcv_mss = self.acks.next_mss(end - start, arrival.flags.has(Flags::PSH));
        }
        let mut grew = Some(false);
        if counted {
            let bare_fin = start == end && arrival.fin();
            if let Some(taken) = self.space.arrives(start, end, bare_fin, &place) {
                if taken.outside {
                    self.answers(start.min(self.stream.nxt), self.stream.nxt);
                    self.acks.hurry(self.announced(), false);
                }
                if taken.starved {
                    self.acks.stop_quick();
                }
                if let Some(from) = taken.cut {
                    self.stream.cut(from);
                }
                if taken.grew && !fast {
                    self.acks.window_grew();
                }
                grew = Some(taken.grew && fast);
                if taken.dropped {
                    return;
                }
            } else {
                // Without memory the segment may be dropped: what follows is not known.
                self.judged = false;
                grew = None;
            }
        }
        let beyond = end > self.edge && !finished;
        if beyond && self.linux && self.stream.readable() > 0 && !counted {
            return self.acks.demand(AckReason::Answer);
        }
        let most = if finished {
            self.stream.nxt
        } else if beyond && self.linux {
            end
        } else {
            self.edge
        };
        let kept = end.min(most);
        let fin = arrival.fin() && kept == end;
        if start > self.stream.nxt {
            self.out_of_order(arrival, start, kept, fin);
        } else if kept <= self.stream.nxt && !(fin && kept == self.stream.nxt && !finished) {
            self.repeats |=
                self.dsack && start < kept + u64::from(self.linux && arrival.fin() && end < self.stream.nxt);
            self.acks.hurry(self.announced(), false);
            self.acks.repeated();
        } else {
            if !self.linux {
                self.rtt.take(sample);
            }
            self.in_order(arrival, kept, fin, grew, stack);
        }
    }

    /// Whether header prediction lets the segment through (`tcp_rcv_established`), as far as the order of its effects depends on it.
    fn is_predicted(&self, arrival: &Arrival) -> bool {
        arrival.flags.without(Flags::PSH) == Flags::ACK
            && arrival.start == self.stream.nxt
            && self.stream.above.is_empty()
            && self.stream.fin.is_none()
            && arrival.end <= self.edge
            && if let Space::Memory(memory) = &self.space { memory.is_plain() } else { true }
    }

    fn out_of_order(&mut self, arrival: &Arrival, start: u64, end: u64, fin: bool) {
        self.mark(arrival);
        if fin {
            self.stream.fin = Some(end);
        }
        let end = end + u64::from(fin && self.linux);
        if start < end && self.stream.keep(start, end) {
            self.repeats |= self.dsack;
        }
        self.acks.out_of_order();
    }

    fn in_order(&mut self, arrival: &Arrival, end: u64, fin: bool, grew: Option<bool>, stack: &Config) {
        let start = arrival.start;
        let new = end.saturating_sub(self.stream.nxt);
        if start < self.stream.nxt {
            self.repeats |= self.dsack;
            if stack.flavor == StackFlavor::FreeBsd && self.dsack {
                self.acks.demand(AckReason::OutOfOrder);
            }
        }
        let gaps = !(self.stream.above.is_empty() || fin && self.linux);
        self.stream.fin = if fin { Some(end) } else { self.stream.fin };
        if gaps {
            self.repeats |= self.dsack && self.stream.above[0].0 < end;
            self.stream.advance(end);
            if let Space::Memory(memory) = &mut self.space {
                memory.joins(end);
            }
        } else {
            self.stream.nxt = end;
        }
        let finished = self.stream.fin.is_some_and(|fin| fin <= self.stream.nxt);
        if finished {
            self.stream.nxt = self.stream.fin.unwrap_or(end) + 1;
            if self.linux && !self.closing {
                self.repeats = false;
                self.stream.above.clear();
                if let Space::Memory(memory) = &mut self.space {
                    memory.finishes();
                }
            }
        }
        let seen = if self.linux { end.saturating_sub(start) } else { new };
        if seen > 0 {
            let push = arrival.flags.has(Flags::PSH);
            let ahead = if self.linux { self.unacked() } else { 0 };
            self.rtt.in_order(arrival.at, self.stream.nxt, self.edge + ahead);
            self.acks.data(arrival.at, seen, push, self.announced(), self.rto);
            self.mark(arrival);
            match grew {
                Some(true) => self.acks.window_grew(),
                None => self.acks.window_may_have_grown(),
                Some(false) => {}
            }
            let place = self.place();
            match &mut self.space {
                Space::Bytes(buffer) => {
                    if buffer.arrived(new, &place) {
                        self.acks.window_grew();
                    }
                }
                Space::Memory(_) => {}
                Space::Unknown => self.acks.window_may_have_grown(),
            }
        }
        if gaps && (self.stream.above.is_empty() || !self.linux) {
            self.acks.demand(AckReason::OutOfOrder);
        }
        if finished {
            self.acks.fin();
            self.ends = true;
            if self.closing {
                self.acks.demand(AckReason::Answer);
            }
        }
        self.acks.undecided = true;
    }

    /// The mark of data (RFC 3168 section 6.1.3, RFC 8257 section 3.2, Linux `__tcp_ecn_check_ce`, `dctcp_ece_ack_update`). The log does not tell
    /// whether a segment without CE is ECN-capable; retransmissions may not be.
    fn mark(&mut self, arrival: &Arrival) {
        match self.agreed.ecn {
            EcnMode::Off | EcnMode::Accurate => return,
            EcnMode::Classic => {
                if arrival.ce && !self.latched {
                    self.latched = true;
                    self.acks.hurry(self.announced(), true);
                } else if !arrival.ce && self.capable {
                    self.acks.may_hurry(self.announced(), true);
                }
            }
            EcnMode::Dctcp => {
                if self.marked == Some(!arrival.ce) {
                    self.changes();
                } else if self.marked.is_none() {
                    self.judged = false;
                }
                self.marked = Some(arrival.ce);
            }
        }
        self.capable = true;
        self.nxt_at_mark = self.stream.nxt;
    }

    /// The mark differs from that of the segment before: what arrived before is acknowledged first if its ACK is delayed.
    fn changes(&mut self) {
        if self.acks.timer.is_some() {
            self.owes_old = true;
            self.acked = self.nxt_at_mark;
        }
        self.acks.demand(AckReason::CeChange);
    }
}
