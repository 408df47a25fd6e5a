//! Use of the window: data that may be sent are sent.

use crate::finding::{Findings, Oracle};
use crate::step::{Context, Rule, Step};
use tcpassay_case::SmallQueues;
use tcpassay_measure::EventKind;
use tcpassay_tcp::{CongestionState, Pacing};
use tcpassay_units::{Dur, Time};

pub(super) const NAME: &str = "idle-with-room";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "data, window space, and nothing sent",
    asserts: "while the application has written at least a segment more than was sent, and the congestion window and the peer's \
              window both hold a segment more than is outstanding, a sender that neither paces nor recovers sends within a \
              round trip.",
    why: "RFC 9293 section 3.8.6.2.1 (a full segment is sent when the window holds it) and RFC 5681 section 3 (a sender may send up \
          to the smaller of both windows): such a rest costs throughput and nothing explains it.",
    evidence: "the last row at which the sender could have sent, and the row at which the rest was noticed.",
    wrong_when: "the host could not send (its queue was full, or the process was stopped). An application that sends without end, as a \
                 kernel's log has it, waits for its send buffer.",
    needs: &[EventKind::Window],
};

#[derive(Clone, Debug, Default)]
struct Half {
    /// Since when it could send.
    since: Option<(Time, usize)>,
    srtt: Option<Dur>,
    /// Of a kernel: the window may have become smaller since a row told it, by an idle time or a change of state.
    stale: bool,
    last_sent: Time,
}

/// See the module.
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
        // A guest takes no time to send: on a kernel half of the shortest round trip is allowed.
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
            // What the send buffer does not take the application has not written.
            && (context.exact() || settings.buffers.send.is_none() && context.recording.flows[step.flow].cc != "bbr");
        let calm = now.state == CongestionState::Open && end.sacked == 0;
        // What is shorter than a segment goes when nothing is outstanding, and with TCP_NODELAY.
        let short = end.written > now.nxt && (end.outstanding() == 0 || stack.nodelay) && !context.exact();
        let waits = end.logs_writes && (end.written >= now.nxt + mss || short) && end.fin_out.is_none();
        let room =
            now.cwnd >= end.outstanding() + end.again + 2 * mss && now.una + end.wnd >= now.nxt + 2 * mss;
        // The initial window is not in the log before it changes.
        if plain && calm && waits && room && !half.stale && end.open && !end.over && now.cwnd > 2 * mss {
            half.since.get_or_insert((step.at(), step.row));
        } else {
            half.since = None;
        }
    }
}

const TITLE: &str = "the sender rests although it may send";
