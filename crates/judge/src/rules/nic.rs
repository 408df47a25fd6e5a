//! The processing of packets by a NIC before the stack: merging (GRO, LRO) and interrupt coalescing.

use super::names::NIC as NAME;
use super::offload::Offload;
use crate::finding::{Findings, Level, Occurrence, Oracle};
use crate::step::{Context, Rule, Step};
use std::collections::VecDeque;
use tcpassay_measure::{EventKind, LatencyKind, Recording};
use tcpassay_tcp::EcnMode;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "merging and coalescing by the NIC",
    asserts: "a segment above the MSS arrives only if receive offload is on, and does not exceed the largest merged segment; \
              data do not arrive more often than they were sent; no more packets arrive with CE than were marked; CWR arrives with the \
              first packet of a segment that was sent with it; a packet \
              that is alone on the path takes at most its propagation, its transmission and the time by which the interrupt \
              may be delayed; any other packet takes at most this time plus the backlog before it.",
    why: "a merge must not change the information that TCP receives: only the next segment in sequence with the same flags, \
          options and ECN field is appended (Linux `tcp_gro_receive`, `inet_gro_receive`; RFC 3168 section 5.3 for marks). \
          Interrupts come within `rx_usecs` of the first packet (`ethtool -C`).",
    evidence: "the arrival of the segment; for a delay also the transmission of the segment.",
    wrong_when: "the path duplicates packets or delays them by rules that the oracle does not know (the oracle then checks \
                 only merges), or other traffic shares the path.",
    needs: &[],
};

/// Number of positions with CWR of which a log may show no further ones.
const MOST_REDUCED: usize = 4096;

#[derive(Clone, Debug, Default)]
struct Half {
    /// A packet of this flow that is alone on the path: position, time of transmission, row, latest time of
    /// arrival.
    alone: Option<(u64, Time, usize, Time)>,
    /// Bytes of this flow that were sent more than once; then bytes that arrived more than once.
    again: u64,
    repeated: u64,
    /// Positions of the last data of this flow that were sent with CWR.
    reduced: VecDeque<u64>,
    /// Row and time of the last arrival of data of this flow with CE.
    marked: Option<(usize, Time)>,
    offload: Offload,
    /// Bytes on the wire of the last segment of this flow, and the time of their transmission.
    takes: (u64, Dur),
}

/// Implements the rules in the documentation of this module.
pub(super) struct Nic {
    halves: Vec<Half>,
    /// For each host: the time at which the slowest link has transmitted everything that the host sent; then
    /// the longest time that a packet can have waited for the link.
    busy: Vec<Time>,
    waited: Vec<Dur>,
    /// For each flow, after the first use: properties of its path.
    paths: Vec<Option<Path>>,
}

/// Properties of the path of a flow that decide which rules apply.
#[derive(Clone, Copy, Debug)]
struct Path {
    duplicates: bool,
    /// Delay of an empty packet that is alone, rate of the slowest link, bytes of headers
    /// ([`Facts::idle`](crate::facts::Facts::idle)); `None` if the path delays packets by unknown rules.
    idle: Option<(Dur, tcpassay_units::Rate, u64)>,
}

impl Nic {
    pub fn new(flows: usize) -> Nic {
        Nic {
            halves: vec![Half::default(); flows],
            busy: vec![Time::ZERO; 2],
            waited: vec![Dur::ZERO; 2],
            paths: vec![None; flows],
        }
    }

    fn path(&mut self, context: &Context<'_>, flow: usize) -> Option<Path> {
        if self.paths[flow].is_none() {
            let facts = context.facts?;
            let ends = &context.recording.flows[flow];
            let links = facts.links(ends.from, ends.to)?;
            self.paths[flow] = Some(Path {
                duplicates: links.iter().any(|link| link.duplicate > 0.0),
                idle: facts.idle(ends.from, ends.to),
            });
        }
        self.paths[flow]
    }
}

impl Rule for Nic {
    fn on(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        if !context.exact() {
            return;
        }
        if step.is_sent() {
            self.halves[step.flow].offload.sent(step);
            self.sent(context, step);
        } else if step.event.kind == EventKind::In {
            merged(context, step, found);
            if step.is_arrival() && step.len() > 0 && step.is_stream() {
                self.halves[step.peer].offload.arrived(context, step, found);
            }
            self.arrived(context, step, found);
        }
    }

    fn end(&mut self, context: &Context<'_>, found: &mut Findings) {
        if context.exact() && context.recording.hosts.len() == 2 {
            self.delays(context, found);
        }
        let duplicates =
            (0..self.paths.len()).any(|flow| self.path(context, flow).is_none_or(|p| p.duplicates));
        // A device counts a marked super-segment as one mark, but each of its packets carries the mark.
        let super_segments =
            (0..context.recording.flows.len()).any(|f| context.stack(f).is_none_or(|s| s.tso.is_some()));
        if !context.exact() || duplicates || super_segments {
            return;
        }
        let recording = context.recording;
        let came: u64 = recording.flows.iter().map(|flow| flow.counters.ce_packets).sum();
        let made = marks(recording);
        let last = self.halves.iter().enumerate().filter_map(|(flow, half)| Some((half.marked?, flow))).max();
        if let Some(((row, at), flow)) = last
            && came > made
        {
            let number = |place: usize| u32::try_from(place).expect("flows are numbered in 32 bits");
            let one = Occurrence {
                oracle: NAME,
                title: "more packets with CE than were marked",
                flow: number(flow),
                host: recording.flows[flow].to,
                start: at,
                end: at,
                level: Level::Error,
                rows: vec![row],
            };
            found.add(one, || {
                format!(
                    "{came} packets with data and CE reached their hosts, but devices marked {made} packets: a merge has \
                     applied the mark of one packet to others (Linux `inet_gro_receive`)."
                )
            });
        }
    }
}

/// Number of packets that devices marked.
fn marks(recording: &Recording) -> u64 {
    let devices: u64 = recording.devices.iter().map(|device| device.counters.marks).sum();
    let others: u64 = recording.counters.values().filter_map(|counters| counters.get("marks")).sum();
    devices + others
}

/// Reports a merged segment on a NIC without receive offload, and one that is too large.
fn merged(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let mss = context.mss(step.peer);
    if step.len() <= mss {
        return;
    }
    let (Some(settings), Some(peer)) = (context.settings(step.flow), context.stack(step.peer)) else {
        return;
    };
    let nic = &settings.nic;
    // A sender that looks for the path's MTU sends segments above its MSS.
    if !nic.gro && !nic.stale_hash && peer.mtu_probing.is_none() {
        found.add(
            step.of_receiver(context, NAME, "a merged segment although receive offload is off"),
            || {
                format!(
                    "{} received a segment of {} bytes; the MSS is {mss} and receive offload is off.",
                    context.who(step.flow),
                    step.len()
                )
            },
        );
    }
    if nic.gro && step.len() > nic.gro_max.get().max(mss) {
        found.add(step.of_receiver(context, NAME, "a merge above the largest size"), || {
            format!(
                "{} received a merged segment of {} bytes; `nic.gro_max` is {}.",
                context.who(step.flow),
                step.len(),
                nic.gro_max
            )
        });
    }
}

/// Segmentation keeps CWR on the first packet only, and GRO does not merge a packet with CWR into another one (Linux `tcp_gso_segment`,
/// `tcp_gro_receive`). CWR at another position announces a reduction that the sender did not make. With accurate ECN the bit belongs to a
/// counter.
fn reduced(half: &mut Half, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let counter = |flow| context.stack(flow).is_none_or(|stack| stack.ecn == EcnMode::Accurate);
    // On a SYN the bit negotiates ECN.
    if step.len() == 0
        || !step.flags().has(Flags::CWR)
        || step.flags().has(Flags::SYN)
        || half.reduced.len() >= MOST_REDUCED
        || counter(step.flow)
        || counter(step.peer)
        || half.reduced.contains(&step.seq())
    {
        return;
    }
    found.add(step.of_receiver(context, NAME, "CWR on a packet that is not the first of its segment"), || {
        format!(
            "{} received CWR with position {}, and its peer sent no segment with CWR that begins there (Linux `tcp_gso_segment`).",
            context.who(step.flow),
            step.seq()
        )
    });
}

impl Nic {
    /// Checks that no packet takes longer than propagation, the backlog before it and the interrupt delay of
    /// its NIC together.
    fn delays(&mut self, context: &Context<'_>, found: &mut Findings) {
        let recording = context.recording;
        for latency in recording.latencies.iter().filter(|one| one.kind == LatencyKind::OneWay) {
            let Some(place) = recording.flows.iter().position(|flow| flow.name == latency.entity) else {
                continue;
            };
            let fair = context
                .facts
                .is_none_or(|facts| facts.schedules(recording.flows[place].from, recording.flows[place].to));
            let (Some((delay, ..)), false) = (self.path(context, place).and_then(|path| path.idle), fair)
            else {
                continue;
            };
            let flow = &recording.flows[place];
            let bound = delay + self.waited[flow.from as usize];
            // Histograms round up by a few percent.
            let Some(longest) = latency.histogram.max().filter(|longest| *longest > bound + bound / 20)
            else {
                continue;
            };
            let one = Occurrence {
                oracle: NAME,
                title: "a packet waits longer than the backlog explains",
                flow: u32::try_from(place).expect("flows are numbered in 32 bits"),
                host: flow.to,
                start: flow.start,
                end: flow.start,
                level: Level::Error,
                rows: vec![0],
            };
            found.add(one, || {
                format!(
                    "A packet of {} took {longest}. Propagation, transmission, the longest backlog of this path and the time that its NIC \
                     may hold the interrupt back take {bound}.", flow.name
                )
            });
        }
    }

    fn sent(&mut self, context: &Context<'_>, step: &Step<'_>) {
        let half = &mut self.halves[step.flow];
        // A FIN takes a position.
        let end = step.seq_end() + u64::from(step.flags().has(Flags::FIN));
        let end = end.min(step.before.nxt);
        if step.seq() < end && !step.flags().has(Flags::SYN) {
            half.again += end - step.seq();
        }
        if half.alone.is_some_and(|(seq, ..)| seq >= step.seq()) {
            half.alone = None;
        }
        if step.len() > 0 && step.flags().has(Flags::CWR) {
            half.reduced.push_back(step.seq());
            if half.reduced.len() > MOST_REDUCED {
                half.reduced.pop_front();
            }
        }
        // A log without latencies may cover only a part of a run.
        if context.recording.hosts.len() != 2 || context.recording.latencies.is_empty() {
            return;
        }
        let Some((delay, rate, headers)) = self.path(context, step.flow).and_then(|path| path.idle) else {
            return;
        };
        let host = context.recording.flows[step.flow].from as usize;
        let mss = context.mss(step.flow).max(1);
        let bytes = step.len() + headers * step.len().div_ceil(mss).max(1);
        // Most segments of a flow have the same length.
        let takes = match self.halves[step.flow].takes {
            (length, takes) if length == bytes => takes,
            _ => rate.time_for(Bytes::new(bytes)),
        };
        self.halves[step.flow].takes = (bytes, takes);
        let free = self.busy[host];
        self.busy[host] = free.max(step.at()).saturating_add(takes);
        self.waited[host] = self.waited[host].max(self.busy[host].since(step.at()));
        let tells = step.flags().has(Flags::SYN) || step.len() > 0 && step.seq() >= step.before.nxt;
        if tells && free <= step.at() && step.event.kind == EventKind::Out {
            let due = step.at().saturating_add(delay).saturating_add(takes);
            self.halves[step.flow].alone = Some((step.seq(), step.at(), step.row, due));
        }
    }

    fn arrived(&mut self, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
        let half = &mut self.halves[step.peer];
        reduced(half, context, step, found);
        if step.event.ce && step.len() > 0 {
            half.marked = Some((step.row, step.at()));
        }
        if let Some((seq, at, row, due)) = half.alone
            && (step.seq()..=step.seq_end()).contains(&seq)
            && (step.len() > 0 || step.flags().has(Flags::SYN))
        {
            half.alone = None;
            if step.at() > due {
                found.add(
                    step.of_receiver(context, NAME, "a packet waits although it is alone").since(row, at),
                    || {
                        format!(
                            "A packet was alone on the path and reached {} after {}; propagation, transmission and the longest time \
                             that its NIC may hold the interrupt back take {}.",
                            context.who(step.flow), step.at().since(at), due.since(at)
                        )
                    },
                );
            }
        }
        let Some((start, end)) = step.end.repeated.filter(|_| !step.refused) else { return };
        // Some stacks repeat a FIN on every ACK.
        let end = end.min(step.seq_end());
        if end <= start {
            return;
        }
        let half = &mut self.halves[step.peer];
        half.repeated += end - start;
        let (repeated, again) = (half.repeated, half.again);
        if repeated > again && self.path(context, step.peer).is_some_and(|path| !path.duplicates) {
            self.halves[step.peer].again = repeated;
            found.add(step.of_receiver(context, NAME, "data arrive more often than they were sent"), || {
                format!(
                    "{} received positions {start} to {end} again; {repeated} bytes have arrived more than once so far, but \
                     only {again} were sent more than once, and the path does not duplicate packets: a merge has assigned them \
                     wrong positions.",
                    context.who(step.flow)
                )
            });
        }
    }
}
