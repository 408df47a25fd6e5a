//! Use of the window: a sender sends data that both windows permit.

use crate::facts::{Facts, HEADERS};
use crate::finding::{Findings, Oracle};
use crate::needs::Need;
use crate::step::{Context, Rule, Step};
use std::collections::BTreeMap;
use tcpassay_case::SmallQueues;
use tcpassay_measure::EventKind;
use tcpassay_measure::reason::AppCall;
use tcpassay_tcp::{CongestionState, StackFlavor};
use tcpassay_units::{Bytes, Dur, Time};

pub(super) const NAME: &str = "idle-with-room";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "no transmission although data and window space are available",
    asserts: "while at least a full segment waits to be sent, and the congestion window and the peer's window both permit \
              another full segment, a sender without pacing and outside of recovery sends within a round trip (profile `rfc` of the model: at once, also the end of what was written if nothing is outstanding); so does an \
              endless sender whose unsent data are below TCP_NOTSENT_LOWAT, because its application is woken; no writer waits \
              for an ACK although less than half of TCP_NOTSENT_LOWAT is unsent; with TCP_NODELAY the last, smaller segment of what \
              was written does not wait for an ACK while the windows permit it.",
    why: "RFC 9293 section 3.8.6.2.1 (a full segment is sent when the window holds it) and RFC 5681 section 3 (a sender may \
          send up to the smaller of both windows): the pause reduces throughput without a reason. RFC 9293 section 3.7.4: an \
          application can disable Nagle's algorithm.",
    evidence: "the row since which the sender could have sent, and the row at which the pause was detected.",
    wrong_when: "the host could not send (its queue was full, or the process was stopped). On a kernel an endless application \
                 appears to have data at all times, although it may wait for its send buffer; nothing is reported while what is \
                 outstanding may fill the largest one (`tcp_wmem`).",
    needs: &[Need::Event(EventKind::Window)],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// Time and row since which the sender could have sent.
    since: Option<(Time, usize)>,
    srtt: Option<Dur>,
    /// For a kernel: true if the window may be smaller than in the last `window` row, because of an idle
    /// time or a change of state.
    stale: bool,
    /// True if the window after a recovery is not in the log.
    unknown: bool,
    last_sent: Time,
    /// Time of the last arrival that acknowledged data.
    answered: Time,
    /// For a kernel: time and row since which so little is unsent that `TCP_NOTSENT_LOWAT` permits a write.
    permitted: Option<(Time, usize)>,
    /// Time of the last arrival if it acknowledged data.
    fresh: Option<Time>,
    /// Time of the last arrival that acknowledged data and had none.
    acked: Option<Time>,
    /// Time of the last arrival with data, which the application may answer.
    asked: Option<Time>,
    /// For a kernel with `TCP_NODELAY`: time and row since which the rest of what was written is smaller than a segment and may be sent.
    rest: Option<(Time, usize)>,
    /// Number of writes that waited for such an arrival.
    waited: u32,
    /// Whether the settings may hold data back; unknown before the first use.
    holds_back: Option<bool>,
}

/// Number of writes that waited for an ACK after which the wait is reported.
const WAITS: u32 = 3;
/// The stack of the RFCs sends at the instant at which it may.
const PROMPT: Dur = Dur::from_micros(1);
/// Memory of a segment in the send queue of Linux beside its payload, at most: `struct sk_buff`, room for headers and `skb_shared_info`, each
/// in a block of memory of a power of two. With segments of 1448 bytes 4 MiB held 1400 of them on Linux 6.1.
const OVERHEAD: u64 = 2048;
/// The largest super-segment, which a queue in the host sends as a whole.
const SUPER_SEGMENT: Bytes = Bytes::new(65_536);

/// Implements the rules in the documentation of this module.
pub(super) struct Utilisation {
    halves: Vec<Half>,
    /// For each host: when a segment left its device last. A queue in the host that holds packets sends without a pause.
    departed: BTreeMap<u32, Time>,
    /// Number of rests of writes, smaller than a segment, that were sent at the instant of an ACK although they might have been sent before.
    rests: u32,
}

impl Utilisation {
    pub fn new(flows: usize) -> Utilisation {
        Utilisation { halves: vec![Half::default(); flows], departed: BTreeMap::new(), rests: 0 }
    }
}

impl Rule for Utilisation {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        if context.exact() && half.since.is_none() && half.cannot(context, step) {
            half.srtt = if step.event.kind == EventKind::Rtt { step.event.srtt } else { half.srtt };
            return;
        }
        let mut departed = Time::ZERO;
        let flow = &context.recording.flows[step.flow];
        if context.of_kernel() {
            departed = self.departed.get(&flow.from).copied().unwrap_or(Time::ZERO);
            if step.is_sent() {
                self.departed.insert(flow.from, step.at());
            }
            half.wakes(context, step, found);
            half.without_nagle(&mut self.rests, context, step, found);
        }
        let Some(settings) = context.settings(step.flow).filter(|_| context.in_virtual_time()) else {
            return;
        };
        let stack = &settings.stack;
        if let EventKind::Rtt = step.event.kind {
            half.srtt = step.event.srtt;
        }
        let (end, now) = (step.end, &step.end.now);
        // The stack of the RFCs sends at the instant at which it may; Linux may hold back the end of a write while packets wait in the host.
        let prompt = context.exact() && stack.flavor == StackFlavor::Rfc && stack.skbs.is_none();
        let wait = half.patience(context, step, prompt);
        // A queue in the host is empty when nothing has left for the time of its largest packet.
        let largest =
            if stack.tso.is_some() { SUPER_SEGMENT } else { Bytes::new(settings.mtu.get() + HEADERS) };
        let drained = |facts: &Facts| {
            let rate = facts.rate(flow.from, flow.to).filter(|_| facts.queues_in_host());
            !facts.queues_in_host()
                || rate.is_some_and(|rate| step.at().since(departed) > wait + rate.time_for(largest))
        };
        if let Some((since, row)) = half.since
            && step.at().since(since) > wait
            && (context.exact() || context.facts.is_none_or(drained))
        {
            half.since = None;
            found.add(step.of_sender(context, NAME, TITLE).since(row, since), || {
                format!(
                    "From {since:#} to {:#} {} sent nothing, with {} bytes written and not sent, {} outstanding, a congestion window of {} \
                     and a peer's window up to {}.", step.at(), context.who(step.flow),
                    step.end.written.saturating_sub(step.before.nxt), step.before.nxt - step.before.una, step.before.cwnd,
                    step.before.edge
                )
            });
        }
        match step.event.kind {
            EventKind::In if step.end.taken.acked > 0 => {
                half.stale = false;
                half.answered = step.at();
            }
            EventKind::Congestion => {
                half.stale = !context.exact();
                let known = step.event.congestion_change().is_none_or(|change| change.window_known());
                half.unknown |= half.stale && !known;
            }
            EventKind::Window => half.unknown = false,
            _ => {}
        }
        if step.is_sent() && step.len() > 0 {
            half.since = None;
            let rested = step.at().since(half.last_sent) >= stack.rto.min;
            half.stale |= !context.exact() && rested && step.before.nxt == step.before.una;
            // Once per RTO without use of the whole window Linux reduces it (`tcp_cwnd_application_limited`), also while no ACK comes.
            half.stale |= !context.exact() && step.at().since(half.answered) >= stack.rto.min;
            half.last_sent = step.at();
        }
        let mss = context.mss(step.flow);
        let calm = now.state == CongestionState::Open && end.sacked == 0;
        // Less than a full segment is sent if nothing is outstanding, and with TCP_NODELAY.
        let short = end.written > now.nxt
            && (end.outstanding() == 0 || stack.nodelay)
            && (prompt || !context.exact());
        // An application that sends without end writes as soon as less than TCP_NOTSENT_LOWAT waits (tcp(7)).
        let woken = settings.stack.notsent_lowat.is_some_and(|least| end.written < now.nxt + least.get())
            && context.of_kernel()
            && context.facts.is_some_and(Facts::writes_without_end);
        let written = end.written >= now.nxt + mss || short || woken;
        let waits = end.logs_writes && written && end.fin_out.is_none();
        let more = if prompt { mss } else { 2 * mss };
        let room = now.cwnd >= end.outstanding() + end.again + more && now.una + end.wnd >= now.nxt + more;
        // The log does not contain the initial window until it changes.
        let may = room
            && calm
            && waits
            && !half.stale
            && !half.unknown
            && end.open
            && !end.over
            && (now.cwnd > 2 * mss || prompt)
            && (context.exact() || !may_fill(stack.max_send_buffer, end.outstanding(), mss))
            && !may_hold_back(context, step.flow);
        // Linux's window counts packets, however short they are.
        let counts_bytes = context.exact() && !stack.flavor.is_linux();
        if may && (counts_bytes || now.cwnd >= end.in_packets + end.again + 2 * mss) {
            half.since.get_or_insert((step.at(), step.row));
        } else {
            half.since = None;
        }
        step.deadline(half.since.map(|(since, _)| since), wait);
    }
}

/// Whether `outstanding` bytes may be all that the largest send buffer of a kernel holds: the application then waits for its space
/// (`sk_stream_memory_free`), and what it wants to write is in the log, but not in the buffer.
fn may_fill(most: Bytes, outstanding: u64, mss: u64) -> bool {
    outstanding + outstanding.div_ceil(mss.max(1)) * OVERHEAD >= most.get()
}

/// Whether the host or the controller may hold data back that both windows permit; true for unknown settings.
fn may_hold_back(context: &Context<'_>, flow: usize) -> bool {
    let Some(settings) = context.settings(flow) else { return true };
    let stack = &settings.stack;
    context.may_pace(flow)
        || !matches!(settings.small_queues, SmallQueues::Off | SmallQueues::Line)
        // A slow card holds the packets of all connections.
        || settings.small_queues == SmallQueues::Line && settings.nic.rate.is_some()
        // Linux may wait for the next ACK to send a larger super-segment (`tcp_tso_should_defer`).
        || (stack.tso_defer && stack.tso.is_some())
        || stack.cork
        || stack.mtu_probing.is_some()
        // Data that the send buffer does not accept are not yet written by the application.
        || (!context.exact() && settings.buffers.send.is_some())
}

impl Half {
    /// Whether the sender has nothing to send, no room for a segment, or a reason to hold it back. On the model this is all that a row changes.
    fn cannot(&mut self, context: &Context<'_>, step: &Step<'_>) -> bool {
        let (end, now, mss) = (step.end, &step.end.now, context.mss(step.flow));
        end.written <= now.nxt
            || now.cwnd < end.outstanding() + mss
            || now.una + end.wnd < now.nxt + mss
            || *self.holds_back.get_or_insert_with(|| may_hold_back(context, step.flow))
    }

    /// The longest time for which a sender that may send does not. In virtual time a guest needs no time to send; on a kernel half of the
    /// shortest round-trip time is allowed.
    fn patience(&self, context: &Context<'_>, step: &Step<'_>, prompt: bool) -> Dur {
        if prompt {
            PROMPT
        } else if context.exact() {
            self.srtt.unwrap_or(Dur::from_secs(1)) + Dur::from_millis(5)
        } else {
            step.end.round_trips.map_or(Dur::from_secs(1), |(shortest, _)| shortest / 2) + Dur::from_millis(5)
        }
    }

    /// RFC 9293 section 3.7.4: without Nagle's algorithm a segment that is not full does not wait for the ACK of those before it.
    fn without_nagle(
        &mut self,
        rests: &mut u32,
        context: &Context<'_>,
        step: &Step<'_>,
        found: &mut Findings,
    ) {
        if !context.stack(step.flow).is_some_and(|stack| stack.nodelay && !stack.cork) {
            return;
        }
        let (end, now) = (step.end, &step.end.now);
        if !context.of_kernel() || !end.logs_writes || context.may_pace(step.flow) {
            return;
        }
        let mss = context.mss(step.flow);
        match step.event.kind {
            EventKind::In => self.fresh = (end.taken.acked > 0).then_some(step.at()),
            EventKind::App | EventKind::Congestion | EventKind::TimerFire | EventKind::Retransmit => {
                self.rest = None;
            }
            EventKind::Out if step.len() > 0 => {
                let waited = self.rest.take().filter(|(at, _)| step.at() > *at);
                if let Some(since) = waited
                    && self.fresh == Some(step.at())
                {
                    *rests += 1;
                    if *rests == WAITS {
                        waits_for_ack(context, step, since, found);
                    }
                }
                let unsent = end.written.saturating_sub(now.nxt);
                let calm =
                    now.state == CongestionState::Open && end.sacked == 0 && end.again == 0 && !self.unknown;
                let room = now.cwnd >= end.in_packets + 2 * mss && now.una + end.wnd >= now.nxt + unsent;
                if unsent > 0 && unsent < mss && calm && room && end.fin_out.is_none() {
                    self.rest = Some((step.at(), step.row));
                }
            }
            _ => {}
        }
    }

    /// tcp(7), `TCP_NOTSENT_LOWAT`: a socket is writable when less than this is unsent. Linux wakes a writer at the half of it
    /// (`tcp_stream_memory_free`), also when data are sent and not acknowledged.
    fn wakes(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let end = step.end;
        let settings = context.settings(step.flow).filter(|settings| settings.buffers.send.is_none());
        let Some(least) = settings.and_then(|settings| settings.stack.notsent_lowat) else { return };
        if !context.of_kernel() || !end.logs_writes || end.over {
            return;
        }
        // While segments are lost or out of order, acknowledged data stay in the send buffer, which does not grow then
        // (`tcp_should_expand_sndbuf`), and the application waits for its space.
        if end.now.state != CongestionState::Open || end.sacked > 0 || end.again > 0 {
            self.permitted = None;
            return;
        }
        if step.is_arrival() {
            self.acked = (end.taken.acked > 0 && step.len() == 0).then_some(step.at());
            if step.len() > 0 {
                self.asked = Some(step.at());
            }
        }
        let writes = step.event.kind == EventKind::App && step.event.app_call() == Some(AppCall::Write);
        if writes {
            let since = self.permitted.take();
            if let Some((since, row)) = since.filter(|(at, _)| step.at().since(*at) > Dur::from_millis(1))
                && self.acked == Some(step.at())
                && self.asked != Some(step.at())
            {
                self.waited += 1;
                self.report(context, step, (since, row), found);
            }
        }
        let unsent = end.written.saturating_sub(end.now.nxt);
        if unsent * 2 >= least.get() {
            self.permitted = None;
        } else if step.is_sent() && step.len() > 0 && step.event.kind == EventKind::Out {
            self.permitted.get_or_insert((step.at(), step.row));
        }
    }

    fn report(
        &mut self,
        context: &Context<'_>,
        step: &Step<'_>,
        (since, row): (Time, usize),
        found: &mut Findings,
    ) {
        if self.waited < WAITS {
            return;
        }
        self.waited = 0;
        let title = "a writer waits for an ACK although little is unsent";
        found.add(step.of_sender(context, NAME, title).since(row, since).warning(), || {
            format!(
                "The application of {} wrote {WAITS} times at the instant of an ACK although less than half of TCP_NOTSENT_LOWAT had been unsent before, \
                 the last time from {since:#} to {:#} (tcp(7)).", context.who(step.flow), step.at()
            )
        });
    }
}

const TITLE: &str = "the sender pauses although it may send";

fn waits_for_ack(context: &Context<'_>, step: &Step<'_>, (since, row): (Time, usize), found: &mut Findings) {
    let title = "a small segment waits for an ACK although Nagle's algorithm is off";
    found.add(step.of_sender(context, NAME, title).since(row, since).warning(), || {
        format!(
            "Hosts sent the rest of what was written, smaller than a segment, {WAITS} times at the instant of an ACK although both windows had permitted it before, \
             the last time {} from {since:#} to {:#} (RFC 9293 section 3.7.4).", context.who(step.flow), step.at()
        )
    });
}
