//! Transmissions that the log of a real stack shows, instead of those that the sender selects.

use super::Sender;
use super::scoreboard::sent::SACKED;
use crate::config::Tlp;
use crate::log::Log;
use crate::messages::{Chunk, Span};
use tcpassay_units::Time;

impl Sender {
    /// The positions of `span` left, and the FIN behind them if `fin`, whatever the windows allow. Returns `None` if positions before them
    /// were not sent, or if they are beyond a FIN.
    pub fn observe(&mut self, now: Time, span: &Span, fin: bool, log: &mut Log) -> Option<Chunk> {
        let nxt = self.scoreboard.nxt();
        let after = span.end + u64::from(fin);
        let ended = self.buffer.has_fin() && after > self.buffer.end() + 1;
        if span.start > nxt || ended {
            return None;
        }
        let mut again = false;
        for index in 0..self.scoreboard.len() {
            let sent = *self.scoreboard.at(index);
            if sent.start >= span.start && sent.end() <= after {
                again = true;
                if !sent.is(SACKED) {
                    let _ = self.emit_again(now, index, log);
                }
            }
        }
        let new = span.end.saturating_sub(nxt);
        let missing = new.saturating_sub(self.unsent());
        if missing > 0 && !self.buffer.has_fin() {
            let _ = self.write(now, missing);
        }
        if fin {
            self.finish();
        }
        let mut left = new.min(self.unsent());
        let sends_fin = fin && after > nxt;
        while left > 0 || sends_fin && !self.fin_out() && self.scoreboard.nxt() < after {
            let piece = left.min(self.mss);
            let before = self.scoreboard.nxt();
            let _ = self.emit_new(now, piece, log);
            left -= piece;
            if self.scoreboard.nxt() == before {
                // The FIN does not fit into the window.
                break;
            }
        }
        let retransmission = again && after <= nxt;
        Some(Chunk { span: span.clone(), fin, push: false, retransmission, cwr: false, ect: false })
    }
    /// The earliest time at which a timer retransmits what is outstanding.
    pub fn retransmits_from(&self) -> Option<Time> {
        if !self.timers.is_rto_running() {
            return None;
        }
        let rto = self.timers.rto();
        let probes = self.cfg.tlp != Tlp::Off && self.sack;
        // The timer of a probe does not run beyond the timeout of the first segment (RFC 8985 section 7.2, `tcp_schedule_loss_probe`).
        let probe = self.rtt.srtt().filter(|_| probes).map(|srtt| {
            let head =
                self.scoreboard.front().map_or(Time::MAX, |head| head.sent_at.saturating_add(self.rtt.rto()));
            self.last_sent.saturating_add(srtt * 2).min(head)
        });
        Some(probe.map_or(rto, |probe| probe.min(rto)))
    }
}
