//! The ways in which an end may process a segment that arrives.

use super::follow::Run;
use super::hypothesis::{Held, Hypothesis, Way, memory, merged};
use super::packet::CapturedPacket;
use tcpassay_tcp::WindowMove;
use tcpassay_wire::{Flags, Segment};

/// How often the number of quick ACKs may differ by one from what the windows show (`tcp_grow_window`): this, and once in so many ACKs.
const ODD: u32 = 2;
const ODD_EACH: usize = 100;

/// A way in which an arrival may be processed, other than the usual one.
struct Choice {
    moved: WindowMove,
    reads: bool,
    /// How unusual it is.
    unusual: u32,
    /// The number of quick ACKs is one more or less than the windows show.
    odd: bool,
}

impl Choice {
    fn new(moved: WindowMove, reads: bool, unusual: u32) -> Choice {
        Choice { moved, reads, unusual, odd: false }
    }
}

impl Run<'_> {
    /// A segment arrives.
    pub(super) fn arrives(&mut self, row: usize, mut one: Hypothesis) {
        let (packet, within) = (self.end.packets[row], self.within);
        let until = packet.at.saturating_add(within);
        let (segment, ecn) = (packet.segment, packet.ecn);
        let size = one.conn.segment_size().get().max(1);
        let packets = u16::try_from(u64::from(segment.len).div_ceil(size).max(1)).unwrap_or(u16::MAX);
        let size = segment.len.min(u32::try_from(size).unwrap_or(u32::MAX));
        let arrival = Held { segment, ecn, packets, size, moved: self.moves[row], until };
        if let Some(held) = one.held.take() {
            if let Some(both) = merged(&held, &arrival) {
                self.processes(row, &one, &both);
            }
            one.arrives(packet.at, &held, Way::USUAL, within);
        }
        self.processes(row, &one, &arrival);
    }

    /// An arrival is processed now in the ways in which it may be, or later.
    fn processes(&mut self, row: usize, one: &Hypothesis, arrival: &Held) {
        let (packet, within) = (self.end.packets[row], self.within);
        let has_data = arrival.segment.len > 0;
        let soon = packet.at.saturating_add(within);
        let next = self.end.packets.get(row + 1).filter(|next| next.at <= soon);
        let carries =
            |next: &CapturedPacket| next.sent && (next.segment.len > 0 || next.segment.flags.has(Flags::FIN));
        let mut usual = one.clone();
        usual.arrives(packet.at, arrival, Way::USUAL, within);
        let acknowledged = usual.due.len() > one.due.len();
        self.all.push(usual);
        if acknowledged && next.is_some_and(carries) {
            let mut waits = one.clone();
            waits.arrives(packet.at, arrival, Way { reads: true, waits: true }, within);
            self.all.push(waits);
        }
        let wide = self.level > 0;
        if wide {
            // A delayed ACK whose timer is about to expire leaves now or later: the phase of the ticks is unknown.
            let mut later = one.clone();
            let postpones = acknowledged && later.conn.postpone_ack(packet.at);
            for choice in self.choices(row, one, arrival, acknowledged) {
                let way = Way { reads: choice.reads, waits: false };
                let held = Held { moved: choice.moved, ..*arrival };
                let process = |from: &Hypothesis, unusual: u32| {
                    let mut made = from.clone();
                    made.arrives(packet.at, &held, way, within);
                    made.owes_read |= owes(arrival.moved, choice.moved);
                    made.unusual += choice.unusual + unusual;
                    made.odd += u32::from(choice.odd);
                    made
                };
                self.all.push(process(one, 0));
                if postpones {
                    let made = process(&later, 1);
                    if made.due.len() == one.due.len() {
                        self.all.push(made);
                    }
                }
            }
        }
        // What leaves next may have been made before this arrival was processed. Retransmissions are an answer to what arrives.
        let crosses =
            next.is_some_and(|next| next.sent && arrival.segment.end().distance(next.segment.ack) > 0);
        let echoes_before =
            next.is_some_and(|next| is_new(one, next) && echo_is_older(&next.segment, &arrival.segment));
        let later = next.is_some() && (has_data && (acknowledged && wide || crosses) || echoes_before);
        if later && packet.at <= arrival.until {
            let mut later = one.clone();
            later.held = Some(*arrival);
            // More that wait with the first one are no further choice.
            later.unusual += u32::from(arrival.segment.seq == packet.segment.seq);
            self.all.push(later);
        }
    }

    /// The ways in which an arrival may be processed now, other than the usual one. `acknowledged`: an ACK is usually sent at once.
    fn choices(&self, row: usize, one: &Hypothesis, arrival: &Held, acknowledged: bool) -> Vec<Choice> {
        let moved = arrival.moved;
        let mut made = Vec::new();
        if arrival.segment.len == 0 {
            if one.unread > 0 {
                made.push(Choice::new(moved, false, 0));
            }
            return made;
        }
        if one.odd < ODD + u32::try_from(self.outcome.acks / ODD_EACH).unwrap_or(0) {
            let other = if acknowledged { WindowMove::Spent } else { WindowMove::Grew };
            made.push(Choice { odd: true, ..Choice::new(other, true, 2) });
        }
        // An application that has not read yet goes on not to read.
        let first = u32::from(!one.owes_read);
        let begins = u32::from(one.unread == 0);
        // Less than half of the buffer is free (`__tcp_select_window`): what is unread takes more than the largest window.
        let half_full =
            self.unread[row] || one.unread + memory(arrival) > self.largest.max(self.first_window);
        if moved == WindowMove::Grew {
            made.push(Choice::new(WindowMove::Kept, true, 1));
        } else if self.after_growth[row] {
            made.push(Choice::new(WindowMove::Grew, true, 1));
        }
        if moved == WindowMove::Shrank {
            made.push(Choice::new(WindowMove::Kept, true, 1));
            made.push(Choice::new(WindowMove::Shrank, false, 0));
        } else {
            made.push(Choice::new(moved, false, begins));
        }
        if half_full && moved == WindowMove::Shrank {
            made.push(Choice::new(WindowMove::Tight, false, 1));
        }
        if acknowledged && moved != WindowMove::Shrank {
            made.push(Choice::new(WindowMove::Shrank, false, 2 * first));
            if half_full {
                made.push(Choice::new(WindowMove::Tight, false, 3 * first.min(begins)));
            }
        }
        made
    }
}

/// Whether the window is smaller than what the capture shows next, so that a read comes before it.
fn owes(shown: WindowMove, moved: WindowMove) -> bool {
    shown != WindowMove::Shrank && matches!(moved, WindowMove::Shrank | WindowMove::Tight)
}

/// Whether a packet is new data that leave.
fn is_new(one: &Hypothesis, packet: &CapturedPacket) -> bool {
    packet.sent && packet.segment.len > 0 && packet.segment.seq.distance(one.conn.next_numbers().0) >= 0
}

/// Whether a segment that left echoes an older timestamp than that of an arrival, so that it may have been made before.
fn echo_is_older(sent: &Segment, arrival: &Segment) -> bool {
    let (Some(sent), Some(arrival)) = (sent.options.timestamps, arrival.options.timestamps) else {
        return false;
    };
    arrival.val.wrapping_sub(sent.ecr).cast_signed() > 0
}
