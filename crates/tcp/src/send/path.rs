//! Changes of the segment size, and their effect on data in flight.
//!
//! Sources: `tcp_sync_mss`, `tcp_bound_to_half_wnd`, `tcp_mtup_probe_success` and `tcp_simple_retransmit` of Linux;
//! `tcp_mtudisc` of FreeBSD.
//!
//! Known difference from the sources: FreeBSD goes back to the first unacknowledged byte without another state; here
//! it enters the state Loss with an unchanged window.

use super::Sender;
use super::detect::log_lost;
use super::loss::rto::Frto;
use super::pmtud::{LEAST_MSS, ProbeInput, Ready};
use super::scoreboard::sent::Sent;
use crate::flavor::PathLoss;
use crate::log::{CongestionCause, CongestionState as Ca, Log, LossRule};
use crate::messages::{Agreed, Chunk};
use tcpassay_cc::Limited;
use tcpassay_units::{Bytes, Time};

impl Sender {
    /// The handshake is done: applies the negotiated segment size.
    pub(super) fn start_path(&mut self, agreed: &Agreed) {
        self.pmtud.start(agreed.options.get(), agreed.path.get(), agreed.clamp.get());
        self.mss = agreed.mss.get();
        self.mss32 = u32::try_from(self.mss).expect("an MSS fits 16 bits");
        self.bound_by_window();
    }

    /// Payload of a full segment.
    #[inline]
    pub fn mss32(&self) -> u32 {
        self.mss32
    }

    /// Whether the chunk at `start` is a probe of the path, which must not be segmented.
    pub fn is_path_probe(&self, start: u64) -> bool {
        self.pmtud.is_probe(start)
    }

    /// Linux sends no segment of more than half of the largest window that the peer offered (`tcp_bound_to_half_wnd`).
    fn bound_by_window(&mut self) {
        if self.rules.mss_at_most_half_window && self.window.largest() > 0 {
            let half = self.window.half_of_largest();
            if half < self.mss {
                self.set_mss(half.max(LEAST_MSS));
            }
        }
    }

    /// The peer offers a window of `size` bytes.
    #[inline]
    pub(super) fn update_window_size(&mut self, size: u64) {
        if let Some(before) = self.window.update(size) {
            self.on_larger_window(before);
        }
    }

    /// The largest window so far was `before`.
    #[cold]
    fn on_larger_window(&mut self, before: u64) {
        if self.rules.mss_at_most_half_window && before < 2 * self.pmtud.route() && self.up {
            self.sync_path(self.pmtud.route());
        }
    }

    /// Applies a route MTU that carries segments of `size` (without options).
    fn sync_path(&mut self, size: u64) {
        let mss = self.pmtud.sync(size);
        if mss != self.mss {
            self.set_mss(mss);
        }
        self.bound_by_window();
    }

    /// From now on the options of every segment take `bytes`.
    pub fn leave_room(&mut self, bytes: u64) {
        self.pmtud.set_options(bytes);
        if self.up {
            self.sync_path(self.pmtud.route());
        }
    }

    /// Sets the segment size. Linux counts windows in segments, so windows change with it.
    fn set_mss(&mut self, mss: u64) {
        let before = std::mem::replace(&mut self.mss, mss);
        self.mss32 = u32::try_from(mss).expect("an MSS fits 16 bits");
        let mut control = self.cc.control();
        if self.rules.windows_in_segments && self.up && before > 0 {
            let scale = |bytes: u64| (bytes / before).max(1) * mss;
            control.cwnd = Bytes::new(scale(control.cwnd.get()));
            if control.ssthresh != Bytes::MAX {
                control.ssthresh = Bytes::new(scale(control.ssthresh.get()));
            }
            self.cwnd = scale(self.cwnd);
        }
        self.cwnd = self.cwnd.max(mss);
        self.cc.set_control(control.cwnd.max(Bytes::new(mss)), control.ssthresh);
    }

    /// The route carries segments of `size` now. `too_long`: a router reported a segment as too long, and those that are longer
    /// are retransmitted.
    pub fn set_path(&mut self, now: Time, size: u64, too_long: bool, log: &mut Log) {
        self.note_path_success();
        let route = self.pmtud.route();
        if !self.up || size == route || too_long && size > route {
            return;
        }
        let before = self.mss;
        self.sync_path(size);
        if too_long {
            self.retransmit_longer(now, before, log);
        }
    }

    /// Segments had `before` bytes. Those that are longer than a segment may be now are lost, without a reduction of the window.
    fn retransmit_longer(&mut self, now: Time, before: u64, log: &mut Log) {
        let mss = self.mss;
        let all = self.rules.path_loss == PathLoss::All;
        self.lose_without_reduction(
            now,
            |s| all || u64::from(s.len).min(before) > mss,
            (LossRule::Path, CongestionCause::Path),
            log,
        );
    }

    /// Marks the records for which `is_lost` holds as lost, for another reason than congestion
    /// (`tcp_non_congestion_loss_retransmit`).
    pub(super) fn lose_without_reduction(
        &mut self,
        now: Time,
        is_lost: impl Fn(&Sent) -> bool,
        (rule, cause): (LossRule, CongestionCause),
        log: &mut Log,
    ) {
        let lost = self.scoreboard.mark_where(is_lost);
        if self.scoreboard.pending() == 0 {
            return;
        }
        log_lost(now, self.scoreboard.una()..self.scoreboard.nxt(), lost, rule, log);
        if self.state != Ca::Loss {
            if matches!(self.state, Ca::Open | Ca::Disorder) {
                self.keep_threshold();
            }
            self.recover = self.scoreboard.nxt();
            self.undo.clear();
            self.frto = Frto::Off;
            self.cwnd = self.target();
            self.set_state(now, Ca::Loss, cause, log);
        }
    }

    /// Linux `tcp_current_ssthresh`: the threshold becomes three quarters of the window if that is more.
    fn keep_threshold(&mut self) {
        let control = self.cc.control();
        if control.ssthresh != Bytes::MAX {
            self.cc.set_control(control.cwnd, control.ssthresh.max(control.cwnd * 3 / 4));
        }
    }

    /// Processes a timeout, because the path may silently drop long segments.
    pub(super) fn check_black_hole(&mut self, now: Time, first: bool) {
        if self.pmtud.on_timeout(now, first) {
            self.sync_path(self.pmtud.route());
        }
    }

    /// A loss was found. If it is that of a probe, the path does not carry its size, and nothing else was lost.
    pub(super) fn path_probe_lost(&mut self, now: Time, log: &mut Log) -> bool {
        if !matches!(self.state, Ca::Open | Ca::Disorder) {
            return false;
        }
        let Some(payload) = self.pmtud.on_loss(self.scoreboard.una()) else { return false };
        let control = self.cc.control();
        self.cc.set_control(control.cwnd + self.bytes_mss(), control.ssthresh);
        self.retransmit_longer(now, payload, log);
        true
    }

    /// If the probe is acknowledged, segments may be that long.
    pub(super) fn note_path_success(&mut self) {
        let control = self.cc.control();
        let cwnd = control.cwnd.get();
        let Some(segments) = self.pmtud.on_ack(self.scoreboard.una(), cwnd, self.mss) else { return };
        self.keep_threshold();
        self.cc.set_control(self.bytes_mss() * segments, self.cc.control().ssthresh);
        self.cwnd = self.target();
        self.sync_path(self.pmtud.route());
    }

    /// The action of the search for a larger segment before new data are sent: none, wait, or send a probe.
    pub(super) fn poll_path(&mut self, now: Time, log: &mut Log) -> Option<Result<Chunk, Limited>> {
        if self.buffer.pushes_one() || !self.pmtud.take_check() {
            return None;
        }
        let input = ProbeInput {
            now,
            open: self.state == Ca::Open,
            cwnd: self.cwnd,
            mss: self.mss,
            dup_thresh: self.dup_thresh.threshold(),
            unsent: self.unsent(),
            peer_window: self.window.size(),
            peer_room: self.peer_room(),
            in_flight: self.pipe(),
        };
        match self.pmtud.ready(&input) {
            Ready::No => None,
            Ready::Wait => Some(Err(Limited::Cwnd)),
            Ready::Yes(payload) => {
                self.pmtud.on_probe_sent(now, self.scoreboard.nxt(), payload);
                let chunk = self.emit_new(now, payload, log);
                let control = self.cc.control();
                self.cc.set_control(control.cwnd - self.bytes_mss(), control.ssthresh);
                self.cwnd -= self.mss;
                Some(Ok(chunk))
            }
        }
    }
}
