//! Bulk transfers that their hosts keep below what the path has for them.

use crate::facts::Facts;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::rules::latency::readable;
use crate::step::{Context, Rule, Step};
use tcpassay_measure::Flow;
use tcpassay_measure::reason::SendLimit;
use tcpassay_tcp::{Config, RecvBuffer};
use tcpassay_units::{Bytes, Dur, Rate, Time};

pub(super) const NAME: &str = "host-limit";
const TITLE: &str = "a host, not the path, limits a bulk transfer";

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: TITLE,
    asserts: "an endless transfer of at least 20 round trips uses half of its share of the path, unless its window or the repair of losses \
              limits it. A finding is a note: it names the limit of the host with the most time: Nagle's algorithm, the send buffer, the \
              receive window, or the queue of the own host.",
    why: "a window of w bytes carries w bytes per round trip (RFC 7323 section 1.1): a send or receive buffer below the product of rate and \
          round-trip time leaves the path idle, and no congestion control can change that. Time is divided as in the metrics `time_*`.",
    evidence: "the row in which the connection became established at the end that the finding names.",
    wrong_when: "the limit is intended. A full receive window counts only if the receive buffer is smaller than the product: \
                 otherwise the reader is slow, or the buffer is still growing. Flows that share the path are taken to have equal shares.",
    needs: &[],
};

/// The limits that are a host's.
const OF_HOST: [SendLimit; 4] =
    [SendLimit::Nagle, SendLimit::SendBuffer, SendLimit::ReceiveWindow, SendLimit::HostQueue];

/// Round trips that a transfer has at least.
const ROUNDS: u64 = 20;

/// See the module.
pub(super) struct HostLimit {
    /// By flow: the row in which the connection became established.
    opened: Vec<Option<usize>>,
}

/// Whether the applications write without end.
pub(super) fn applies(context: &Context<'_>) -> bool {
    context.facts.is_some_and(Facts::writes_without_end)
}

impl HostLimit {
    pub fn new(flows: usize) -> HostLimit {
        HostLimit { opened: vec![None; flows] }
    }
}

impl Rule for HostLimit {
    fn on(&mut self, _: &Context<'_>, step: &Step<'_>, _: &mut Findings) {
        if step.end.open {
            self.opened[step.flow].get_or_insert(step.row);
        }
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        let Some(facts) = context.facts else { return };
        for (place, flow) in context.recording.flows.iter().enumerate() {
            let ended = flow.end.unwrap_or(Time::ZERO.saturating_add(context.recording.header.duration));
            let Some(limited) = Limited::of(context, facts, flow, ended.since(flow.start)) else { continue };
            let one = Occurrence {
                oracle: NAME,
                title: "",
                flow: u32::try_from(place).expect("flows are numbered in 32 bits"),
                host: if limited.limit == SendLimit::ReceiveWindow { flow.to } else { flow.from },
                start: flow.start,
                end: ended,
                level: Level::Note,
                rows: self.opened[place].into_iter().collect(),
            };
            found.add(one, || limited.text(facts, flow));
        }
    }
}

/// The largest window that a host can announce. Of the buffer of Linux it is half.
fn largest_window(stack: &Config) -> Bytes {
    match (stack.recv_buffer, &stack.recv_memory) {
        (RecvBuffer::Fixed(size), _) => size,
        (RecvBuffer::Auto { .. }, Some(memory)) => Bytes::new(memory.max.get() / 2),
        (RecvBuffer::Auto { max, .. }, None) => max,
    }
}

/// A transfer that its host limits.
struct Limited {
    limit: SendLimit,
    /// Hundredths of the time of the sender.
    percent: u64,
    /// What was carried, and the flow's share of the path.
    rate: Rate,
    share: Rate,
    rtt: Dur,
}

impl Limited {
    fn of(context: &Context<'_>, facts: &Facts, flow: &Flow, time: Dur) -> Option<Limited> {
        let rtt = Dur::from_nanos(flow.tcp.srtt_ns?).max(facts.least_rtt(flow.from, flow.to));
        let carried = flow.counters.read_bytes;
        if rtt.is_zero() || carried == 0 || time.as_nanos() < ROUNDS * rtt.as_nanos() {
            return None;
        }
        let alike = context.recording.flows.iter().filter(|other| other.counters.read_bytes > 0).count();
        let path = facts.rate(flow.from, flow.to)?.bits_per_sec();
        let share = Rate::from_bits_per_sec(path / u64::try_from(alike).ok()?.max(1));
        let rate = Rate::from_bytes_per(Bytes::new(carried), time);
        let all = flow.tcp.limits.total()?;
        let of = |limit: &SendLimit| flow.tcp.limits.of(*limit).unwrap_or(0);
        let limit = OF_HOST.into_iter().max_by_key(of)?;
        let most = of(&limit);
        let idle = rate.bits_per_sec() * 2 < share.bits_per_sec() && most * 2 > all;
        let one = Limited { limit, percent: most * 100 / all, rate, share, rtt };
        (idle && !one.is_of_reader(facts, flow)).then_some(one)
    }

    /// The largest size of the buffer that limits.
    fn buffer(&self, facts: &Facts, flow: &Flow) -> Option<Bytes> {
        let host = |index: u32| facts.host(index).map(|host| host.buffers);
        match self.limit {
            SendLimit::SendBuffer => host(flow.from).and_then(|buffers| buffers.send.or(buffers.max_send)),
            SendLimit::ReceiveWindow => {
                host(flow.to).and_then(|buffers| buffers.receive.or(buffers.max_window))
            }
            _ => None,
        }
    }

    /// The receive window could be what the path needs: the reader is slow, or the buffer is still growing.
    fn is_of_reader(&self, facts: &Facts, flow: &Flow) -> bool {
        self.limit == SendLimit::ReceiveWindow
            && facts
                .host(flow.to)
                .is_some_and(|host| largest_window(&host.stack) >= self.share.bytes_in(self.rtt))
    }

    fn text(&self, facts: &Facts, flow: &Flow) -> String {
        let Limited { limit, percent, rate, share, rtt } = self;
        let product = share.bytes_in(*rtt);
        let buffer = self.buffer(facts, flow);
        let reason = match limit {
            SendLimit::Nagle => "small segments waited for ACKs (Nagle's algorithm, or cork)".to_owned(),
            SendLimit::SendBuffer => {
                "everything in the send buffer was sent, and writes waited for room in it".to_owned()
            }
            SendLimit::ReceiveWindow => "the receive window was used up".to_owned(),
            _ => "data waited in the queue of the own host".to_owned(),
        };
        let size = buffer.map_or(String::new(), |size| format!(" (it is set to {size})"));
        format!(
            "{} of {} kbit/s, the flow's share of the path: for {percent} % of the time {reason}{size}. The share times the round-trip time \
             of {:#} is {product}.",
            rate.bits_per_sec() / 1000,
            share.bits_per_sec() / 1000,
            readable(*rtt)
        )
    }
}
