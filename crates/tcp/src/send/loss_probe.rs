//! Tail loss probes: what they send. `loss/tlp` decides when.
//!
//! Sources: RFC 8985 section 7.3; `tcp_send_loss_probe` of Linux.

use super::Sender;
use super::scoreboard::sent::PART;
use crate::log::Log;
use crate::messages::Chunk;
use tcpassay_units::Time;

impl Sender {
    /// New data that a tail loss probe sends: one segment; in Linux a buffer, if the congestion window holds it
    /// (`tcp_send_loss_probe`).
    fn probe_size(&mut self) -> u64 {
        let one = self.unsent().min(self.mss);
        if self.cfg.tso.is_none() || !self.rules.probe_sends_buffer {
            return one;
        }
        self.fill_front(self.room_apart().max(self.mss));
        let nxt = self.scoreboard.nxt();
        let buffer = self.buffer.record_end(nxt).map_or(self.unsent(), |end| end - nxt);
        let most = self.room_apart().min(self.gso()).min(self.peer_room());
        if buffer <= most { buffer } else { (most - most % self.mss).max(one) }
    }

    /// RFC 8985 section 7.3: new data if the peer's window allows, independently of cwnd; otherwise the last segment again.
    pub(super) fn send_probe(&mut self, now: Time, log: &mut Log) -> Option<Chunk> {
        self.probe.clear_due();
        let room = self.peer_room();
        let n = self.probe_size();
        let (chunk, retransmitted) = if n > 0 && n <= room {
            (self.emit_new(now, n, log), None)
        } else {
            let unit = self.unit();
            let board = &mut self.scoreboard;
            let last = if self.rules.probe_beside_sacked { board.last() } else { board.last_unsacked() }?;
            let last = if board.at(last).is(PART) {
                board.last_segment_of_parts(last, self.mss)
            } else {
                board.last_segment(last, unit, self.mss)
            };
            let (una, start) = (board.una(), board.at(last).start);
            if start != una && start >= self.window.edge(una) {
                // The window has shrunk: the retransmission timer runs instead.
                self.timers.stop_tlp();
                if self.rules.probe_shares_timer {
                    let at = self.head_timeout(now);
                    self.rearm(now, at.since(now), log);
                }
                return None;
            }
            // It belongs to no episode: `__tcp_retransmit_skb` leaves `retrans_stamp` and `undo_retrans` alone.
            let undo = self.undo;
            let chunk = self.emit_again(now, last, log);
            self.undo = undo;
            if self.rules.probe_not_in_flight {
                self.scoreboard.uncount(last);
            }
            let span = chunk.span.start..chunk.span.end + u64::from(chunk.fin);
            (chunk, Some(span))
        };
        self.stats.tlp_probes += 1;
        self.probe.on_sent(retransmitted, self.scoreboard.nxt());
        self.timers.stop_tlp();
        Some(chunk)
    }
}
