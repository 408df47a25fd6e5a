//! Use of the window: a sender sends data that both windows permit.

use crate::facts::Facts;
use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_case::SmallQueues;
use tcpassay_measure::EventKind;
use tcpassay_tcp::{CongestionState, Pacing};
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "idle-with-room";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "no transmission although data and window space are available",
    asserts: "while at least a full segment waits to be sent, and the congestion window and the peer's window both permit \
              another full segment, a sender without pacing and outside of recovery sends within a round trip; so does an \
              endless sender whose unsent data are below TCP_NOTSENT_LOWAT, because its application is woken.",
    why: "RFC 9293 section 3.8.6.2.1 (a full segment is sent when the window holds it) and RFC 5681 section 3 (a sender may \
          send up to the smaller of both windows): the pause reduces throughput without a reason.",
    evidence: "the row since which the sender could have sent, and the row at which the pause was detected.",
    wrong_when: "the host could not send (its queue was full, or the process was stopped). On a kernel an endless application \
                 appears to have data at all times, although it may wait for its send buffer.",
    needs: &[EventKind::Window],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// Time and row since which the sender could have sent.
    since: Option<(Time, usize)>,
    srtt: Option<Dur>,
    /// For a kernel: true if the window may be smaller than in the last `window` row, because of an idle
    /// time or a change of state.
    stale: bool,
    last_sent: Time,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Utilisation {
    halves: Vec<Half>,
}

impl Utilisation {
    pub fn new(flows: usize) -> Utilisation {
        Utilisation { halves: vec![Half::default(); flows] }
    }
}

impl Rule for Utilisation {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.flow];
        let Some(settings) = context.settings(step.flow).filter(|_| context.in_virtual_time()) else {
            return;
        };
        let stack = &settings.stack;
        if let EventKind::Rtt = step.event.kind {
            half.srtt = step.event.srtt;
        }
        // In virtual time a guest needs no time to send. On a kernel half of the shortest round-trip time is
        // allowed.
        let wait = if context.exact() {
            half.srtt.unwrap_or(Dur::from_secs(1)) + Dur::from_millis(5)
        } else {
            step.end.round_trips.map_or(Dur::from_secs(1), |(shortest, _)| shortest / 2) + Dur::from_millis(5)
        };
        if let Some((since, row)) = half.since
            && step.at().since(since) > wait
        {
            half.since = None;
            found.add(step.of_sender(context, NAME, TITLE).since(row, since), || {
                format!(
                    "From {since} to {} {} sent nothing, with {} bytes written and not sent, {} outstanding, a congestion window of {} \
                     and a peer's window up to {}.", step.at(), context.who(step.flow),
                    step.end.written.saturating_sub(step.before.nxt), step.before.nxt - step.before.una, step.before.cwnd,
                    step.before.edge
                )
            });
        }
        match step.event.kind {
            EventKind::In if step.end.taken.acked > 0 => half.stale = false,
            EventKind::Congestion => half.stale = !context.exact(),
            _ => {}
        }
        if step.is_sent() && step.len() > 0 {
            half.since = None;
            let rested = step.at().since(half.last_sent) >= stack.rto.min;
            half.stale |= !context.exact() && rested && step.before.nxt == step.before.una;
            half.last_sent = step.at();
        }
        let mss = context.recording.flows[step.flow].mss.get();
        let (end, now) = (step.end, &step.end.now);
        let plain = stack.pacing == Pacing::Off
            && settings.small_queues == SmallQueues::Off
            // Linux may wait for the next ACK to send a larger super-segment (`tcp_tso_should_defer`).
            && !(stack.tso_defer && stack.tso.is_some())
            && !stack.cork
            && stack.mtu_probing.is_none()
            // Data that the send buffer does not accept are not yet written by the application.
            && (context.exact() || settings.buffers.send.is_none() && context.recording.flows[step.flow].cc != "bbr");
        let calm = now.state == CongestionState::Open && end.sacked == 0;
        // Less than a full segment is sent if nothing is outstanding, and with TCP_NODELAY.
        let short = end.written > now.nxt && (end.outstanding() == 0 || stack.nodelay) && !context.exact();
        // An application that sends without end writes as soon as less than TCP_NOTSENT_LOWAT waits (tcp(7)).
        let woken = settings.stack.notsent_lowat.is_some_and(|least| end.written < now.nxt + least.get())
            && context.of_kernel()
            && context.facts.is_some_and(Facts::writes_without_end);
        let written = end.written >= now.nxt + mss || short || woken;
        let waits = end.logs_writes && written && end.fin_out.is_none();
        let room =
            now.cwnd >= end.outstanding() + end.again + 2 * mss && now.una + end.wnd >= now.nxt + 2 * mss;
        // The log does not contain the initial window until it changes.
        let plain = plain && (context.exact() || !context.facts.is_some_and(Facts::queues_in_host));
        let may =
            plain && calm && waits && room && !half.stale && end.open && !end.over && now.cwnd > 2 * mss;
        // Linux's window counts packets, however short they are.
        let packets =
            || end.out.iter().map(|sent| (sent.end - sent.start).next_multiple_of(mss)).sum::<u64>();
        if may && (context.exact() || now.cwnd >= packets() + end.again + 2 * mss) {
            half.since.get_or_insert((step.at(), step.row));
        } else {
            half.since = None;
        }
    }
}

const TITLE: &str = "the sender pauses although it may send";
