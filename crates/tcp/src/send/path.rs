//! How large a segment may be: what the path carries, half of the peer's window, and the search for more (packetization layer
//! path MTU discovery).
//!
//! Sizes are those of segments without options: the MTU less the IP and TCP headers.
//!
//! Sources: RFC 1191, RFC 4821; `tcp_sync_mss`, `tcp_bound_to_half_wnd`, `tcp_mtu_probe`, `tcp_mtup_probe_success`,
//! `tcp_mtu_probing` and `tcp_simple_retransmit` of Linux; `tcp_mtudisc` of FreeBSD.
//!
//! # Known differences from the sources
//!
//! * FreeBSD goes back to the first unacknowledged byte without another state; here that is the state Loss with the window left
//!   as it was.
//! * The success of a probe is noticed when something is to be sent next.

use super::Sender;
use super::board::Sent;
use crate::config::{MtuProbing, StackFlavor};
use crate::log::{CongestionState as Ca, Log};
use crate::messages::Chunk;
use tcpassay_cc::Limited;
use tcpassay_units::{Bytes, Dur, Time};

/// Window below which Linux does not probe, in segments.
const LEAST_WINDOW: u64 = 11;
/// Timeouts for at least so long mean a black hole: `tcp_retries1` = 3 doublings of 200 ms.
const BLACK_HOLE: Dur = Dur::from_millis(3000);

/// What is known of the path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// What both ends agreed on at most.
    clamp: u64,
    /// Bytes of options in every segment.
    options: u64,
    /// What the route carries, as in force.
    size: u64,
    probing: Option<MtuProbing>,
    /// Probes are sent.
    enabled: bool,
    low: u64,
    high: u64,
    /// The probe that is out: its size and its payload.
    probe: Option<(u64, u64, u64)>,
    probed_at: Time,
    /// A probe was thought of since sending last came to rest.
    pub thought: bool,
    first_timeout: Time,
}

impl Path {
    pub fn new(probing: Option<MtuProbing>) -> Path {
        Path {
            clamp: 0,
            options: 0,
            size: 0,
            probing,
            enabled: false,
            low: 0,
            high: 0,
            probe: None,
            probed_at: Time::ZERO,
            thought: false,
            first_timeout: Time::ZERO,
        }
    }
}

/// Whether a probe may be sent.
enum Ready {
    No,
    /// When the window has drained.
    Wait,
    /// With this payload.
    Yes(u64),
}

impl Sender {
    /// The handshake is done: segments of `agreed` payload bytes at most, with so many bytes of options; the route carries
    /// `size`.
    pub(super) fn start_path(&mut self, agreed: u64, options: u64, size: u64, clamp: u64) {
        let path = &mut self.path;
        path.clamp = clamp;
        path.options = options;
        path.size = size;
        if let Some(probing) = path.probing {
            path.enabled = probing.always;
            path.low = probing.base.get();
            path.high = clamp;
        }
        self.mss = agreed;
        self.mss32 = u32::try_from(agreed).expect("an MSS fits 16 bits");
        self.bound_by_window();
    }

    /// Payload of a full segment.
    #[inline]
    pub fn mss32(&self) -> u32 {
        self.mss32
    }

    /// Whether the chunk at `start` is a probe of the path, which nothing may cut.
    pub fn is_path_probe(&self, start: u64) -> bool {
        self.path.probe.is_some_and(|(_, from, _)| from == start)
    }

    /// Linux sends no segment of more than half of the largest window that the peer offered (`tcp_bound_to_half_wnd`).
    fn bound_by_window(&mut self) {
        if self.cfg.flavor == StackFlavor::Linux && self.max_wnd > 0 {
            let half = if self.max_wnd > 536 { self.max_wnd / 2 } else { self.max_wnd };
            if half < self.mss {
                self.set_mss(half.max(48));
            }
        }
    }

    /// The peer offers a larger window than ever before.
    #[cold]
    pub(super) fn widen(&mut self, window: u64) {
        let bounded = self.cfg.flavor == StackFlavor::Linux && self.max_wnd < 2 * self.path.size;
        self.max_wnd = window;
        if bounded && self.up {
            self.sync(self.path.size);
        }
    }

    /// `tcp_sync_mss`: the route carries `size`.
    fn sync(&mut self, size: u64) {
        let path = &mut self.path;
        path.high = path.high.min(size);
        path.size = size;
        let mut most = size.min(path.clamp);
        if path.enabled {
            most = most.min(path.low);
        }
        let mss = most.saturating_sub(path.options).max(48);
        if mss != self.mss {
            self.set_mss(mss);
        }
        self.bound_by_window();
    }

    /// From now on the options of every segment take `bytes`.
    pub fn leave_room(&mut self, bytes: u64) {
        self.path.options = bytes;
        if self.up {
            self.sync(self.path.size);
        }
    }

    /// Segments have `mss` bytes from now on. Linux counts windows in segments, so that they change with it.
    fn set_mss(&mut self, mss: u64) {
        let before = std::mem::replace(&mut self.mss, mss);
        self.mss32 = u32::try_from(mss).expect("an MSS fits 16 bits");
        if self.cfg.flavor == StackFlavor::Linux && self.up && before > 0 {
            let scale = |bytes: u64| (bytes / before).max(1) * mss;
            let control = &mut self.cc.control;
            control.cwnd = Bytes::new(scale(control.cwnd.get()));
            if control.ssthresh != Bytes::MAX {
                control.ssthresh = Bytes::new(scale(control.ssthresh.get()));
            }
            self.cwnd = scale(self.cwnd);
        }
        self.cwnd = self.cwnd.max(mss);
        self.cc.control.cwnd = self.cc.control.cwnd.max(Bytes::new(mss));
    }

    /// The route carries segments of `size` now. Where somebody said that a segment was `too_long`, those that are go again.
    pub fn set_path(&mut self, now: Time, size: u64, too_long: bool, log: &mut Log) {
        self.note_path_success();
        if !self.up || size == self.path.size || too_long && size > self.path.size {
            return;
        }
        let before = self.mss;
        self.sync(size);
        if too_long {
            self.retransmit_longer(now, before, log);
        }
    }

    /// `tcp_simple_retransmit`: what is longer than a segment may be now is lost, and the window is not to blame.
    fn retransmit_longer(&mut self, now: Time, before: u64, log: &mut Log) {
        let mss = self.mss;
        let all = self.cfg.flavor == StackFlavor::FreeBsd;
        self.lose_without_blame(now, |s| all || u64::from(s.len).min(before) > mss, "path", log);
    }

    /// What `which` says is lost, for another reason than congestion (`tcp_non_congestion_loss_retransmit`).
    pub(super) fn lose_without_blame(
        &mut self,
        now: Time,
        which: impl Fn(&Sent) -> bool,
        why: &'static str,
        log: &mut Log,
    ) {
        let lost = self.board.mark_where(which);
        if self.board.pending == 0 {
            return;
        }
        super::recovery::log_lost(now, self.board.una..self.board.nxt, lost, why, log);
        if self.state != Ca::Loss {
            let control = &mut self.cc.control;
            if matches!(self.state, Ca::Open | Ca::Disorder) && control.ssthresh != Bytes::MAX {
                control.ssthresh = control.ssthresh.max(control.cwnd * 3 / 4);
            }
            self.recover = self.board.nxt;
            self.undo.clear();
            self.frto = super::timeout::Frto::Off;
            self.cwnd = self.cc.control.cwnd.get();
            self.set_state(now, Ca::Loss, why, log);
        }
    }

    /// The retransmission timer fired, again and again: perhaps something drops what is long without a word.
    pub(super) fn suspect_path(&mut self, now: Time, first: bool) {
        let Some(probing) = self.path.probing else { return };
        if first {
            self.path.first_timeout = now;
            return;
        }
        if now.since(self.path.first_timeout) < BLACK_HOLE {
            return;
        }
        let path = &mut self.path;
        if path.enabled {
            let half = path.low.saturating_sub(path.options) / 2;
            path.low = half.min(probing.base.get()).max(probing.floor.get()) + path.options;
        } else {
            path.enabled = true;
            path.probed_at = now;
        }
        self.sync(self.path.size);
    }

    /// What was sent as a probe goes again, which says nothing of its length.
    pub(super) fn forget_probe(&mut self) {
        self.path.probe = None;
    }

    /// A loss was found. When it is the probe's, the path does not carry it, and nothing else is wrong.
    pub(super) fn path_probe_lost(&mut self, now: Time, log: &mut Log) -> bool {
        let Some((size, start, _)) = self.path.probe else { return false };
        if start != self.board.una || !matches!(self.state, Ca::Open | Ca::Disorder) {
            return false;
        }
        self.path.high = size - 1;
        self.path.probe = None;
        self.cc.control.cwnd += Bytes::new(self.mss);
        let before = size.saturating_sub(self.path.options);
        self.retransmit_longer(now, before, log);
        true
    }

    /// The probe is acknowledged: segments may be that long (`tcp_mtup_probe_success`).
    pub(super) fn note_path_success(&mut self) {
        let Some((size, _, end)) = self.path.probe else { return };
        if end > self.board.una {
            return;
        }
        let headers = self.path.probing.map_or(40, |p| p.headers.get());
        self.path.low = size;
        self.path.probe = None;
        let segments = self.cc.control.cwnd.get() / self.mss;
        let scaled = segments * (self.mss + self.path.options + headers) / (size + headers);
        let control = &mut self.cc.control;
        if control.ssthresh != Bytes::MAX {
            control.ssthresh = control.ssthresh.max(control.cwnd * 3 / 4);
        }
        control.cwnd = Bytes::new(scaled.max(1) * self.mss);
        self.cwnd = self.cc.control.cwnd.get();
        self.sync(self.path.size);
    }

    /// `tcp_mtu_probe`: whether the next segment may be longer than the path is known to carry.
    fn path_ready(&mut self, now: Time) -> Ready {
        let path = &self.path;
        let Some(probing) = path.probing.filter(|_| path.enabled && path.probe.is_none()) else {
            return Ready::No;
        };
        if self.state != Ca::Open || self.cwnd < LEAST_WINDOW * self.mss {
            return Ready::No;
        }
        let size = u64::midpoint(path.high, path.low);
        if size > path.high
            || path.high.saturating_sub(path.low) < probing.threshold.get()
            || path.high < path.low
        {
            if now.since(path.probed_at) >= probing.interval {
                let path = &mut self.path;
                path.high = path.clamp;
                path.low = self.mss + path.options;
                path.probed_at = now;
            }
            return Ready::No;
        }
        let payload = size - path.options;
        let needed = payload + u64::from(self.reordering.threshold + 1) * self.mss;
        if self.unsent() < needed || self.wnd < needed {
            return Ready::No;
        }
        if self.board.nxt + needed > self.board.una + self.wnd {
            return Ready::Wait;
        }
        if self.pipe() + 2 * self.mss > self.cwnd {
            return if self.pipe() == 0 { Ready::No } else { Ready::Wait };
        }
        Ready::Yes(payload)
    }

    /// What is due about the path before new data leave: nothing, waiting, or a probe.
    pub(super) fn poll_path(&mut self, now: Time, log: &mut Log) -> Option<Result<Chunk, Limited>> {
        if self.buf.one || std::mem::replace(&mut self.path.thought, true) {
            return None;
        }
        match self.path_ready(now) {
            Ready::No => None,
            Ready::Wait => Some(Err(Limited::Cwnd)),
            Ready::Yes(payload) => {
                let start = self.board.nxt;
                self.path.probe = Some((payload + self.path.options, start, start + payload));
                self.path.probed_at = now;
                let chunk = self.emit_new(now, payload, log);
                let control = &mut self.cc.control;
                control.cwnd -= Bytes::new(self.mss);
                self.cwnd -= self.mss;
                Some(Ok(chunk))
            }
        }
    }
}
