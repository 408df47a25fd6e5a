//! Bounds from a simple model of the path: rates, windows, losses.

use super::names::BOUNDS as NAME;
use super::token_bucket::TokenBucket;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::step::{Context, Rule, Step};
use std::collections::BTreeMap;
use tcpassay_measure::{EventKind, Flow};
use tcpassay_tcp::CongestionState;
use tcpassay_units::{Dur, Time};

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "throughput against a simple model",
    asserts: "a flow delivers at most one receive window per round-trip time, and all flows of a path together at most the \
              rate of the slowest link; in any time no more passes a token bucket than its rate and its depth; an endless flow that neither the application nor the receiver limits delivers at least \
              a twentieth of what the rate, the window and the number of its reductions allow.",
    why: "no stack can exceed window / RTT (RFC 9293 section 3.8.6) or the rate of the link. A Reno-like sender with a share p of \
          reductions delivers about 1.22 MSS / (RTT sqrt(p)) (Mathis et al., 1997; RFC 5348 section 3.1 adds timeouts), and CUBIC and DCTCP deliver no less on such paths (RFC 9438 section 4.3): a throughput far below this has another cause.",
    evidence: "the last row of the flow; the text contains the terms of the model.",
    wrong_when: "the application stops writing and the log does not show it, or the sender waits for timeouts during most of the run.",
    needs: &[],
};

#[derive(Clone, Copy, Debug, Default)]
struct Half {
    /// The largest usable window that the peer announced, in bytes.
    window: u64,
    /// Reductions for losses and marks.
    reductions: u32,
    last: Option<(usize, Time)>,
}

/// Implements the rules in the documentation of this module.
pub(super) struct Bounds {
    halves: Vec<Half>,
    bucket: TokenBucket,
}

impl Bounds {
    pub fn new(flows: usize) -> Bounds {
        Bounds { halves: vec![Half::default(); flows], bucket: TokenBucket::default() }
    }
}

impl Rule for Bounds {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        self.bucket.on(context, step, found);
        let half = &mut self.halves[step.flow];
        match step.event.kind {
            EventKind::In => {
                half.window = half.window.max(step.end.now.edge.saturating_sub(step.end.now.una));
                half.last = Some((step.row, step.at()));
            }
            EventKind::Congestion if step.end.now.state != step.before.state => {
                let reduces = matches!(
                    step.end.now.state,
                    CongestionState::Cwr | CongestionState::Recovery | CongestionState::Loss
                );
                half.reductions += u32::from(reduces);
            }
            _ => {}
        }
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        let Some(facts) = context.facts else { return };
        let mut of_paths: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for flow in &context.recording.flows {
            *of_paths.entry((flow.from, flow.to)).or_default() += flow.counters.read_bytes;
        }
        for (place, flow) in context.recording.flows.iter().enumerate() {
            let half = self.halves[place];
            let Some(last) = half.last else { continue };
            let ended = flow.end.unwrap_or(Time::ZERO.saturating_add(context.recording.header.duration));
            let time = ended.since(flow.start);
            let one = |title, level| occurrence(flow, place, title, level, time, last);
            let rtt = facts.least_rtt(flow.from, flow.to);
            let bytes = flow.counters.read_bytes;
            // On a kernel the time at which bytes are counted and the begin of the run are known less
            // exactly.
            let exact = context.exact();
            if rtt > Dur::ZERO && half.window > 0 && exact {
                let rounds = time.as_nanos() / rtt.as_nanos().max(1) + 2;
                if bytes > half.window.saturating_mul(rounds) {
                    found.add(one("more than a window per round trip", Level::Error), || {
                        format!(
                            "{bytes} bytes were delivered in {time:#}; the largest window was {}, and a round trip takes at least {rtt:#}.",
                            half.window
                        )
                    });
                }
            }
            if let Some(rate) = facts.rate(flow.from, flow.to)
                && !facts.duplicates(flow.from, flow.to)
            {
                let all = of_paths.get(&(flow.from, flow.to)).copied().unwrap_or(0);
                let most = rate.bytes_in(context.recording.header.duration).get() + 65_536;
                if all > most && exact {
                    found.add(one("more than the rate of the link", Level::Error), || {
                        format!("The flows of this path delivered {all} bytes; its slowest link can transmit {most} in that time.")
                    });
                }
                if let Some(least) = half.least(context, flow, place, rate.bytes_in(time).get(), time)
                    && bytes < least
                {
                    found.add(one("far below what the path allows", Level::Warning), || {
                        format!(
                            "{bytes} bytes were delivered in {time:#}, with {} reductions of the window; a twentieth of what rate, window \
                             and losses allow is {least}.", half.reductions
                        )
                    });
                }
            }
        }
    }
}

impl Half {
    /// A twentieth of the bytes that an endless flow can deliver; `None` if something other than congestion
    /// control limits the flow. `carried`: bytes that the path can carry.
    fn least(self, context: &Context<'_>, flow: &Flow, place: usize, carried: u64, time: Dur) -> Option<u64> {
        let facts = context.facts?;
        let limited = |of: Option<u64>| of.unwrap_or(0) > time.as_nanos() / 20;
        let tcp = &flow.tcp;
        let like_reno = matches!(flow.cc.as_str(), "reno" | "cubic" | "dctcp");
        let endless = facts.endless() && flow.end.is_none() && flow.counters.read_bytes > 0 && like_reno;
        if !endless
            || limited(tcp.app_limited_ns)
            || limited(tcp.rwnd_limited_ns)
            || tcp.timeouts.unwrap_or(0) > 0
        {
            return None;
        }
        let rtt = Dur::from_nanos(tcp.srtt_ns?).max(facts.least_rtt(flow.from, flow.to));
        let rounds = time.as_nanos() / rtt.as_nanos().max(1);
        if rounds < 50 {
            return None;
        }
        let alike = context.recording.flows.iter().filter(|f| f.to == flow.to && f.class == flow.class);
        let flows = u64::try_from(alike.count()).ok()?.max(1);
        let windows = self.window.saturating_mul(rounds);
        let mss = context.mss(place);
        // In a period of n rounds between two reductions the window rises by at least n/2 segments (delayed
        // ACKs), so that at least 3/8 n^2 segments are sent.
        let periods = u64::from(self.reductions) + 1;
        let each = rounds / periods;
        let sawtooth = periods * (3 * each * each / 8 + each) * mss;
        Some((carried / flows).min(windows).min(sawtooth) / 20)
    }
}

fn occurrence(
    flow: &Flow,
    place: usize,
    title: &'static str,
    level: Level,
    time: Dur,
    last: (usize, Time),
) -> Occurrence {
    Occurrence {
        oracle: NAME,
        title,
        flow: u32::try_from(place).expect("flows are numbered in 32 bits"),
        host: flow.from,
        start: flow.start,
        end: flow.start.saturating_add(time),
        level,
        rows: vec![last.0],
    }
}
