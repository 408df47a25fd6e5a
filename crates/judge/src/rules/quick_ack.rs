//! ACKs that Linux sends at once, and those that it delays.
//!
//! The rules apply to kernels in virtual time, where an ACK that is sent at once has the time of the arrival.

use super::names::ACK_TIMING as NAME;
use super::quickack_mode::QuickackMode;
use crate::finding::Findings;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// Time after which an ACK is not sent at once. The shortest delayed ACK of Linux waits 40 ms.
const AT_ONCE: Dur = Dur::from_millis(2);
/// Time within which an ACK without a delay leaves.
const INSTANT: Dur = Dur::from_micros(50);
/// Number of ACKs after a mark that are not delayed (`__tcp_ecn_check_ce`).
const AFTER_MARK: u32 = 2;
/// Number of needless ACKs that are reported.
const NEEDLESS: u32 = 4;

/// The ACKs that one end must send at once.
#[derive(Clone, Debug, Default)]
pub(super) struct QuickAck {
    /// True from a CE mark until data with CWR arrive.
    demands: bool,
    /// Number of further ACKs that must not be delayed after a mark.
    quick: u32,
    /// The data that must be acknowledged at once: time, row, position, reason.
    due: Option<(Time, usize, u64, &'static str)>,
    /// Pushed data that wait until the application has read them: row, position.
    pushed: Option<(usize, u64)>,
    /// Bounds of the number of quick ACKs that are left.
    mode: QuickackMode,
    /// Number of ACKs that were sent at once although nothing required it, since the last delayed ACK, and the first one's row. ACKs that had to
    /// be sent at once do not count.
    needless: (u32, usize),
    /// Number of arrivals of data since the last ACK, the time of the last one, and whether one of them had to be acknowledged at once.
    arrivals: u32,
    arrived: Option<Time>,
    excused: bool,
    /// The window of the last ACK.
    window: u64,
}

impl QuickAck {
    /// Processes a row of an end.
    pub fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !context.of_kernel() || step.end.over || !step.end.open || step.end.fin_in.is_some() {
            return;
        }
        if context.stack(step.flow).is_none_or(|stack| stack.delayed_ack.every < 2) {
            return;
        }
        self.waits(context, step, found);
        self.mode.on(context, step, self.demands(step));
        if step.is_sent() && step.is_stream() {
            self.sent(context, step, found);
        } else if step.event.kind == EventKind::In && step.len() > 0 {
            self.arrival(context, step);
        }
        self.read(context, step);
    }

    /// Whether ECE is due before the mark of this segment. CWR is read first (`tcp_ecn_accept_cwr`): a segment with CWR and a mark demands it
    /// again.
    fn demands(&self, step: &Step<'_>) -> bool {
        self.demands && !(step.event.kind == EventKind::In && step.flags().has(Flags::CWR))
    }

    fn arrival(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let before = step.before.frontier;
        let in_order = !step.refused
            && step.seq() == before
            && step.end.now.frontier == step.seq_end()
            && step.end.above.is_empty();
        let marked = step.event.ce && !self.demands(step);
        self.arrived = Some(step.at());
        self.arrivals += 1;
        self.demands = self.demands(step) || step.event.ce;
        // While data arrive out of order or repeatedly, every ACK is sent at once.
        if !in_order {
            self.excused = true;
            self.due = None;
            self.quick = 0;
            return;
        }
        self.excused |= step.flags().any(Flags::PSH | Flags::CWR | Flags::URG);
        // A receiver of DCTCP echoes each change of marks instead.
        if marked && !context.echoes_marks(step.flow) {
            self.quick = AFTER_MARK;
        }
        let mss = context.mss(step.peer);
        let room = step.end.now.offered > step.end.now.frontier + mss;
        let why = if step.flags().has(Flags::CWR) {
            Some("data with CWR, whose sender may have a window of one segment")
        } else if self.quick > 0 {
            Some(
                "one of the first two segments from a mark on, whose sender may have a window of one segment",
            )
        } else if self.mode.due(context, step) {
            Some(
                "one of the first segments of a connection, or after a pause longer than the RTO, while the host is not interactive",
            )
        } else {
            None
        };
        if let Some(why) = why.filter(|_| room) {
            self.due.get_or_insert((step.at(), step.row, step.seq_end(), why));
        }
        // A host that sends data waits for data to send with the ACK (`inet_csk_in_pingpong_mode`).
        // `tcp_measure_rcv_mss` has other rules for segments that are not full.
        if step.flags().has(Flags::PSH) && step.len().is_multiple_of(mss) && step.end.now.nxt == 1 && room {
            self.pushed = Some((step.row, step.seq_end()));
        }
    }

    /// `tcp_cleanup_rbuf`: the ACK of pushed data is sent when the application has read everything.
    fn read(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let Some((row, until)) = self.pushed else { return };
        let all = context.reads_at_once() || step.end.read + 1 >= step.end.now.frontier;
        if all && step.end.above.is_empty() {
            self.pushed = None;
            let why = "data with PSH, which its application read";
            self.due.get_or_insert((step.at(), row, until, why));
        }
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let ack = step.event.ack.unwrap_or(0);
        if self.due.is_some_and(|(_, _, until, _)| ack >= until) {
            self.due = None;
        }
        if self.pushed.is_some_and(|(_, until)| ack >= until) {
            self.pushed = None;
        }
        let window = step.event.window.map_or(0, Bytes::get);
        let before = std::mem::replace(&mut self.window, window);
        let (arrivals, excused) = (std::mem::take(&mut self.arrivals), std::mem::take(&mut self.excused));
        let advance = ack.saturating_sub(step.before.acked_out);
        if advance > 0 {
            self.quick = self.quick.saturating_sub(1);
        }
        if step.len() > 0 {
            // From now on ACKs wait for data (`tcp_event_data_sent`).
            self.quick = 0;
        }
        // While a receiver raises its window, it acknowledges each segment at once (`tcp_grow_window`).
        let grows = window > before;
        let at_once = self.arrived.is_some_and(|at| step.at().since(at) <= INSTANT);
        let single = advance > 0 && arrivals == 1 && at_once && step.len() == 0;
        if single && excused && !grows {
            return;
        }
        if !single || grows || step.flags().has(Flags::FIN) {
            self.needless = (0, step.row);
            return;
        }
        if self.mode.take() == Some(0) {
            self.needless.0 += 1;
            self.report(context, step, found);
        }
    }

    /// RFC 9293 section 3.8.6.3, RFC 5681 section 4.2: a receiver should delay ACKs.
    fn report(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let merges = context.settings(step.flow).is_none_or(|settings| settings.nic.gro);
        if self.needless.0 < NEEDLESS || merges || context.echoes_marks(step.flow) {
            return;
        }
        let row = self.needless.1;
        self.needless = (0, step.row);
        found.add(step.of_receiver(context, NAME, "single segments are acknowledged at once without a reason").since(row, step.at()).warning(), || {
            format!(
                "{} had used up its quick ACKs, as a delayed ACK showed, and since then sent {NEEDLESS} ACKs more than marks permit ({AFTER_MARK} each), each at \
                 once for one segment in order without PSH and CWR (RFC 5681 section 4.2; Linux: `tcp_incr_quickack`).", context.who(step.flow)
            )
        });
    }

    fn waits(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let Some((since, row, until, why)) = self.due else { return };
        let Some(settings) = context.settings(step.flow) else { return };
        let nic = &settings.nic;
        let patience = AT_ONCE + nic.rx_delay + nic.rx_cost * 64 + nic.gro_timeout;
        if step.at().since(since) <= patience {
            return;
        }
        self.due = None;
        found.add(
            step.of_receiver(context, NAME, "an ACK that Linux does not delay is delayed").since(row, since).warning(),
            || {
                format!(
                    "{} received {why}, at {since:#}, and had not acknowledged position {until} {:#} later (Linux: `tcp_ecn_accept_cwr`, \
                     `__tcp_ecn_check_ce`, `tcp_cleanup_rbuf`, `tcp_event_data_recv`).", context.who(step.flow), step.at().since(since)
                )
            },
        );
    }
}
