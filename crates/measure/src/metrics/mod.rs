//! Numbers from recordings: the same code for every substrate.
//!
//! [`TABLE`] declares each metric once: its name, unit, meaning and the function that computes it. [`metrics`] computes
//! all of them. A metric that the recording cannot answer, because nothing of the kind was collected or happened, is
//! absent; it is never a made-up 0.
//!
//! * *Flows of the test*: the direction of each connection that carried more payload, without background traffic.
//! * *Window*: from the warm-up after the first of these flows opened, to the end of the last of them, or to the end of
//!   the run when one of them was still open. What is kept as a counter of the whole run (retransmissions, timeouts, drops, marks)
//!   includes the warm-up, and its definition says so. Distributions of latency leave out the warm-up that the run was asked for
//!   when it was collected.

mod figures;
mod groups;
mod rates;
mod rounds;
mod stats;
mod table;
mod timeouts;

pub use groups::{HostMetrics, TierMetrics};
pub use rates::{What, Window, finest, rates};
pub use rounds::{Round, rounds};
pub use stats::{Period, deviation, jain, longest_silence, mean, period, quantile, variation};
pub use table::{Metric, TABLE, table_json};

use crate::recording::{Completion, CompletionKind, Device, Flow, LatencyKind, Recording};
use crate::{Histogram, serial};
use rates::{Carried, Spread};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use tcpassay_units::{Dur, Time};

/// Intervals at which the spread of throughput is told.
const KEPT: [Dur; 4] = [Dur::from_secs(1), Dur::from_millis(10), Dur::from_millis(1), Dur::from_micros(1)];

/// The most values of a series that are searched for a period.
const PERIOD_VALUES: u64 = 4096;

/// The class of background traffic.
pub(crate) const BACKGROUND: &str = "background";

/// How to look at a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Left out from the start of the first flow of the test.
    pub warmup: Dur,
}

/// All metrics of a recording.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Metrics {
    /// Start of the window.
    #[serde(rename = "from_ns", with = "serial::time")]
    pub from: Time,
    /// End of the window.
    #[serde(rename = "to_ns", with = "serial::time")]
    pub to: Time,
    /// By name, in the order of [`TABLE`].
    pub values: Values,
    /// One for each flow of the test.
    pub flows: Vec<FlowMetrics>,
    /// One for each class of completions.
    pub classes: Vec<ClassMetrics>,
    /// One for each device.
    pub devices: Vec<DeviceMetrics>,
    /// One for each tier of the network.
    pub tiers: Vec<TierMetrics>,
    /// One for each host that sends a flow of the test.
    pub hosts: Vec<HostMetrics>,
}

/// The values of [`TABLE`]; in JSON an object, absent values null.
#[derive(Clone, PartialEq, Debug)]
pub struct Values(pub Vec<(&'static str, Option<f64>)>);

impl Values {
    /// The value of metric `name`; absent and unknown are both `None`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(have, _)| *have == name).and_then(|(_, value)| *value)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What one flow did.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowMetrics {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its congestion control.
    pub cc: String,
    /// Bytes that arrived, with headers, over the part of the window in which it was open, in bit/s.
    pub throughput: Option<f64>,
    /// Bytes that the application read in the same time, in bit/s.
    pub goodput: Option<f64>,
    /// Share of the bytes with headers that all flows of the test carried in the window.
    pub share: Option<f64>,
    /// Retransmission timeouts, in the whole run.
    pub timeouts: Option<u64>,
    /// Retransmitted packets, in the whole run.
    pub retransmissions: Option<u64>,
    /// Share of its packets that arrived with CE, in the whole run.
    pub ce_share: Option<f64>,
    /// Median of its round-trip times, in seconds.
    pub rtt_p50: Option<f64>,
    /// 99th percentile of its round-trip times, in seconds.
    pub rtt_p99: Option<f64>,
}

/// How long the flows or requests of one class took.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassMetrics {
    /// The class, `rpc 10KB/100B`.
    pub class: String,
    /// Of which kind.
    pub kind: CompletionKind,
    /// How many completed.
    pub completed: usize,
    /// How many failed.
    pub failed: usize,
    /// Mean time in seconds.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
    /// Mean of time over the time on an idle path.
    pub slowdown_mean: Option<f64>,
    /// 99th percentile of the same.
    pub slowdown_p99: Option<f64>,
}

/// What one device did.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceMetrics {
    /// Its name.
    pub name: String,
    /// Bits that left it in the window, over its rate.
    pub utilisation: Option<f64>,
    /// Packets it dropped, in the whole run.
    pub drops: u64,
    /// Packets it marked, in the whole run.
    pub marks: u64,
    /// Median wait in it, in seconds.
    pub delay_p50: Option<f64>,
    /// 99th percentile of the wait, in seconds.
    pub delay_p99: Option<f64>,
}

/// What the functions of [`TABLE`] read.
pub struct Context<'a> {
    recording: &'a Recording,
    window: Window,
    /// The window with the warm-up.
    whole: Window,
    /// Places of the flows of the test.
    flows: BTreeSet<u32>,
    /// Flows and requests of the test that began in the window, completed or failed.
    ended: Vec<&'a Completion>,
    /// Times of those that completed in seconds, ascending.
    times: Vec<f64>,
    /// Slowdowns, ascending.
    slowdowns: Vec<f64>,
    /// Throughput at the finest interval that is searched for periods: walked once, as the others.
    fine: OnceCell<Option<Vec<f64>>>,
    /// By interval of [`KEPT`].
    spreads: [OnceCell<(Option<Spread>, Vec<Spread>)>; KEPT.len()],
    /// By [`What`].
    warm: [OnceCell<Option<Carried>>; 3],
}

impl<'a> Context<'a> {
    fn new(recording: &'a Recording, options: Options) -> Context<'a> {
        let flows = flows_of_test(recording);
        let window = window(recording, &flows, options.warmup);
        let of_test = |c: &&Completion| c.class != BACKGROUND && c.kind != CompletionKind::Round;
        let ended: Vec<&Completion> =
            recording.completions.iter().filter(of_test).filter(|c| c.start >= window.from).collect();
        let completed = || ended.iter().filter(|c| c.ok);
        Context {
            recording,
            window,
            whole: self::window(recording, &flows, Dur::ZERO),
            flows,
            times: sorted(completed().map(|c| seconds(c))),
            slowdowns: sorted(completed().filter_map(|c| slowdown(c))),
            ended,
            fine: OnceCell::new(),
            spreads: Default::default(),
            warm: Default::default(),
        }
    }

    /// Throughput of the flows of the test in every whole interval of the window, at [`Context::fine_interval`].
    fn fine_rates(&self) -> Option<&[f64]> {
        let compute = || rates(self.recording, &self.flows, What::Wire, self.fine_interval()?, self.window);
        self.fine.get_or_init(compute).as_deref()
    }

    /// Mean and standard deviation of the throughput of all flows of the test together in the window, and of each of them in the
    /// part of the window in which it was open.
    fn spreads(&self, interval: Dur) -> &(Option<Spread>, Vec<Spread>) {
        let kept =
            KEPT.iter().position(|kept| *kept == interval).expect("one of the intervals that are kept");
        self.spreads[kept].get_or_init(|| {
            let places: BTreeMap<u32, usize> = self.flows.iter().copied().zip(0..).collect();
            let windows: Vec<Window> =
                self.flow_rows().map(|(_, flow)| open_window(flow, self.window)).collect();
            let together = |flow| places.contains_key(&flow).then_some(0);
            let all = rates::spreads(self.recording, interval, &[self.window], &together);
            let each = rates::spreads(self.recording, interval, &windows, &|flow| places.get(&flow).copied());
            (all.into_iter().next().flatten(), each.into_iter().flatten().collect())
        })
    }

    /// Bytes of one flow in the window. Its counters are of the whole time: where a warm-up is left out the series says it, or the log
    /// of deliveries, and the whole time counts when there is neither.
    fn bytes_of(&self, place: u32, flow: &Flow, what: What) -> Option<f64> {
        if let Some((bytes, _)) = self.warm(what) {
            return bytes.get(place as usize).copied();
        }
        match what {
            What::Read => Some(whole(flow.counters.read_bytes)),
            What::Wire => (!flow.counters.unseen).then(|| whole(flow.counters.delivered_wire_bytes)),
            What::Payload => (!flow.counters.unseen).then(|| whole(flow.counters.delivered_bytes)),
        }
    }

    /// Bytes of each flow, by its place, in the whole intervals of the window, and the length of these, when a warm-up is left out
    /// and the recording can tell.
    fn warm(&self, what: What) -> Option<&Carried> {
        if self.window.from <= self.whole.from {
            return None;
        }
        self.warm[what as usize].get_or_init(|| rates::sums(self.recording, what, self.window)).as_ref()
    }

    /// Bits a second of one flow over the part of the window in which it was open.
    fn rate_of(&self, place: u32, flow: &Flow, what: What) -> Option<f64> {
        let open = open_window(flow, if self.warm(what).is_some() { self.window } else { self.whole });
        Some(self.bytes_of(place, flow, what)? * 8.0 / open.seconds()?)
    }

    /// The finest interval at which the window has at most [`PERIOD_VALUES`] values.
    fn fine_interval(&self) -> Option<Dur> {
        let finest = finest(self.recording)?;
        let len = self.window.to.since(self.window.from);
        Some(finest * (len / (finest * PERIOD_VALUES) + 1))
    }

    fn flow_rows(&self) -> impl Iterator<Item = (u32, &'a Flow)> {
        self.flows.iter().map(|f| (*f, &self.recording.flows[*f as usize]))
    }

    /// The sum of what the senders say; `None` when none of them says it.
    fn total(&self, get: impl Fn(&Flow) -> Option<u64>) -> Option<f64> {
        let said: Vec<u64> = self.flow_rows().filter_map(|(_, flow)| get(flow)).collect();
        (!said.is_empty()).then(|| whole(said.iter().sum()))
    }

    /// The sum over the flows of the test of what was counted of packets; `None` where nobody looked at them.
    fn counted(&self, get: impl Fn(&Flow) -> u64) -> Option<f64> {
        let seen = self.flow_rows().all(|(_, flow)| !flow.counters.unseen);
        (seen && !self.flows.is_empty()).then(|| whole(self.flow_rows().map(|(_, flow)| get(flow)).sum()))
    }

    /// Bytes that the receiving applications of the test read.
    fn read(&self) -> Option<f64> {
        let read = self.flow_rows().map(|(_, flow)| flow.counters.read_bytes);
        (!self.flows.is_empty()).then(|| whole(read.sum()))
    }

    /// Bits a second of what the flows of the test carried in the window. What their counters say is of the whole time: where
    /// a warm-up is left out the series says it, or the log of deliveries, and the whole time counts when there is neither.
    fn carried(&self, what: What, in_all: Option<f64>) -> Option<f64> {
        match self.warm(what) {
            Some((bytes, seconds)) => {
                Some(self.flows.iter().map(|flow| bytes[*flow as usize]).sum::<f64>() * 8.0 / seconds)
            }
            None => Some(in_all? * 8.0 / self.whole.seconds()?),
        }
    }

    /// The mean of a column of the series, over all flows of the test and the window.
    fn mean_of(&self, column: &str) -> Option<f64> {
        let series = self.recording.series.as_ref()?;
        let names: BTreeSet<&str> = self.flow_rows().map(|(_, flow)| flow.name.as_str()).collect();
        let mut values = Vec::new();
        for entity in series.entities.iter().filter(|e| names.contains(e.entity.as_str())) {
            for (i, value) in entity.column(column).unwrap_or_default().iter().enumerate() {
                let at = entity.time(series.interval, i);
                if !value.is_nan() && at >= self.window.from && at < self.window.to {
                    values.push(*value);
                }
            }
        }
        mean(&values)
    }

    fn latency(&self, kind: LatencyKind) -> Option<&'a Histogram> {
        let entity = match kind {
            LatencyKind::QueueDelay => &self.bottleneck()?.name,
            LatencyKind::OneWay | LatencyKind::Rtt => "all",
        };
        latency(self.recording, kind, entity)
    }

    /// CPU time of all hosts in seconds, where a substrate measures it.
    fn cpu_seconds(&self) -> Option<f64> {
        let used = self.recording.counters.values().filter_map(|counters| counters.get("cpu_ns"));
        let used: Vec<u64> = used.copied().collect();
        (!used.is_empty()).then(|| whole(used.iter().sum()) / 1e9)
    }

    fn bottleneck(&self) -> Option<&'a Device> {
        self.recording.devices.get(self.recording.header.bottleneck? as usize)
    }

    /// Goodput of each flow of the test.
    fn goodputs(&self) -> Vec<f64> {
        self.flow_rows().map(|(place, flow)| self.rate_of(place, flow, What::Read).unwrap_or(0.0)).collect()
    }

    /// The mean of the inverse slowdown by size class, for classes with completions.
    fn speeds_by_size(&self) -> Vec<f64> {
        let mut by_size: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for c in self.ended.iter().filter(|c| c.ok) {
            if let Some(slowdown) = slowdown(c) {
                by_size.entry(size_class(c)).or_default().push(1.0 / slowdown);
            }
        }
        by_size.values().filter_map(|speeds| mean(speeds)).collect()
    }

    /// Times of the completions of a size class, ascending.
    fn times_of_size(&self, class: usize) -> Vec<f64> {
        let of_class = self.ended.iter().filter(|c| c.ok && size_class(c) == class);
        sorted(of_class.map(|c| seconds(c)))
    }
}

/// Computes all metrics of a recording.
pub fn metrics(recording: &Recording, options: Options) -> Metrics {
    let context = Context::new(recording, options);
    let finite = |value: Option<f64>| value.filter(|x| x.is_finite());
    Metrics {
        from: context.window.from,
        to: context.window.to,
        values: Values(TABLE.iter().map(|m| (m.name, finite((m.of)(&context)))).collect()),
        flows: flow_metrics(&context),
        classes: class_metrics(recording, context.window),
        devices: recording.devices.iter().map(|d| device_metrics(&context, d)).collect(),
        tiers: groups::tiers(&context),
        hosts: groups::hosts(&context),
    }
}

/// Of each connection the direction that carried more payload, without background.
fn flows_of_test(recording: &Recording) -> BTreeSet<u32> {
    let mut main: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (place, flow) in recording.data_flows().filter(|(_, flow)| flow.class != BACKGROUND) {
        let bytes = flow.counters.payload();
        let best = main.entry(flow.connection).or_insert((bytes, place));
        if bytes > best.0 {
            *best = (bytes, place);
        }
    }
    main.into_values().map(|(_, place)| place).collect()
}

fn window(recording: &Recording, flows: &BTreeSet<u32>, warmup: Dur) -> Window {
    let run_end = Time::ZERO + recording.header.duration;
    let rows: Vec<&Flow> = flows.iter().map(|f| &recording.flows[*f as usize]).collect();
    let start = rows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
    let to = rows.iter().map(|flow| flow.end.unwrap_or(run_end)).max().unwrap_or(run_end).min(run_end);
    Window { from: start.saturating_add(warmup).min(to), to }
}

fn seconds(c: &Completion) -> f64 {
    c.end.since(c.start).as_secs_f64()
}

fn slowdown(c: &Completion) -> Option<f64> {
    let ideal = c.ideal.filter(|ideal| !ideal.is_zero())?;
    Some(seconds(c) / ideal.as_secs_f64())
}

/// 0: up to 100 KB, 1: up to 10 MB, 2: above, by the direction that carries more.
fn size_class(c: &Completion) -> usize {
    match c.request.max(c.response).get() {
        0..=100_000 => 0,
        100_001..=10_000_000 => 1,
        _ => 2,
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn latency<'a>(recording: &'a Recording, kind: LatencyKind, entity: &str) -> Option<&'a Histogram> {
    let found = recording.latencies.iter().find(|l| l.kind == kind && l.entity == entity);
    found.map(|l| &l.histogram)
}

fn quantile_of(recording: &Recording, kind: LatencyKind, entity: &str, q: f64) -> Option<f64> {
    latency(recording, kind, entity)?.quantile(q).map(Dur::as_secs_f64)
}

/// The part of a window in which a flow was open.
fn open_window(flow: &Flow, window: Window) -> Window {
    let from = flow.start.max(window.from).min(window.to);
    Window { from, to: flow.end.unwrap_or(window.to).min(window.to).max(from) }
}

fn flow_metrics(context: &Context<'_>) -> Vec<FlowMetrics> {
    let recording = context.recording;
    let wires: Option<Vec<f64>> =
        context.flow_rows().map(|(place, flow)| context.bytes_of(place, flow, What::Wire)).collect();
    let all = wires.map(|all| all.iter().sum::<f64>());
    let rows = context.flow_rows().map(|(place, flow)| {
        let c = &flow.counters;
        FlowMetrics {
            name: flow.name.clone(),
            class: flow.class.clone(),
            cc: flow.cc.clone(),
            throughput: context.rate_of(place, flow, What::Wire),
            goodput: context.rate_of(place, flow, What::Read),
            share: ratio(context.bytes_of(place, flow, What::Wire), all),
            timeouts: flow.tcp.timeouts,
            retransmissions: (!c.unseen).then_some(c.retransmitted_packets),
            ce_share: ratio(Some(whole(c.ce_packets)), Some(whole(c.delivered_packets))),
            rtt_p50: quantile_of(recording, LatencyKind::Rtt, &flow.name, 0.5),
            rtt_p99: quantile_of(recording, LatencyKind::Rtt, &flow.name, 0.99),
        }
    });
    rows.collect()
}

fn class_metrics(recording: &Recording, window: Window) -> Vec<ClassMetrics> {
    let mut classes: BTreeMap<(&str, CompletionKind), Vec<&Completion>> = BTreeMap::new();
    for c in recording.completions.iter().filter(|c| c.start >= window.from) {
        classes.entry((&c.class, c.kind)).or_default().push(c);
    }
    let rows = classes.into_iter().map(|((class, kind), all)| {
        let ok = || all.iter().filter(|c| c.ok);
        let times = sorted(ok().map(|c| seconds(c)));
        let slowdowns = sorted(ok().filter_map(|c| slowdown(c)));
        ClassMetrics {
            class: class.to_owned(),
            kind,
            completed: times.len(),
            failed: all.len() - times.len(),
            mean: mean(&times),
            p50: quantile(&times, 0.5),
            p90: quantile(&times, 0.9),
            p99: quantile(&times, 0.99),
            p999: quantile(&times, 0.999),
            max: times.last().copied(),
            slowdown_mean: mean(&slowdowns),
            slowdown_p99: quantile(&slowdowns, 0.99),
        }
    });
    rows.collect()
}

fn device_metrics(context: &Context<'_>, device: &Device) -> DeviceMetrics {
    let recording = context.recording;
    DeviceMetrics {
        name: device.name.clone(),
        utilisation: utilisation(context, device),
        drops: device.counters.drops,
        marks: device.counters.marks,
        delay_p50: quantile_of(recording, LatencyKind::QueueDelay, &device.name, 0.5),
        delay_p99: quantile_of(recording, LatencyKind::QueueDelay, &device.name, 0.99),
    }
}

/// Bits that left a device in the window over what its rate allows: from its series for the whole intervals of the
/// window, otherwise from its counters for the whole run.
fn utilisation(context: &Context<'_>, device: &Device) -> Option<f64> {
    let (recording, window) = (context.recording, context.window);
    let rate = whole(device.rate?.bits_per_sec());
    let series = recording.series.as_ref().and_then(|s| Some((s, s.entity(&device.name)?)));
    let Some((series, entity)) = series else {
        return Some(whole(device.counters.bytes) * 8.0 / (rate * context.whole.seconds()?));
    };
    let ns = series.interval.as_nanos();
    let (first, last) = (window.from.as_nanos().div_ceil(ns), window.to.as_nanos() / ns);
    let column = entity.column("out_bytes")?;
    let inside = (entity.first..).zip(column).filter(|(i, n)| *i >= first && *i < last && !n.is_nan());
    let bytes: f64 = inside.map(|(_, n)| n).sum();
    let intervals = last.checked_sub(first).filter(|n| *n > 0)?;
    Some(bytes * 8.0 / (rate * whole(intervals) * series.interval.as_secs_f64()))
}

/// `a / b` where both are known and `b` is not 0.
fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    b.filter(|b| *b > 0.0).and_then(|b| Some(a? / b))
}

/// A count for a formula.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn whole(n: u64) -> f64 {
    n as f64
}
