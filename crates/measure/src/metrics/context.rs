//! The inputs of metrics from a recording: time window, flows, completions.

use super::rates::{self, ByteKind, FlowTotals, MeanDeviation, TimeWindow, finest};
use super::stats::{mean, sorted};
use super::timeouts::timeout_lengths;
use crate::Histogram;
use crate::recording::{Completion, CompletionKind, Device, Flow, LatencyKind, Recording};
use crate::rows::CAPACITY;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use tcpassay_units::{Dur, Time};

/// Intervals for which the variation of throughput is computed.
pub(super) const KEPT: [Dur; 4] =
    [Dur::from_secs(1), Dur::from_millis(10), Dur::from_millis(1), Dur::from_micros(1)];

/// Maximum number of series values that are searched for a period.
const PERIOD_VALUES: u64 = 4096;

/// The class of background traffic.
pub(crate) const BACKGROUND: &str = "background";

/// Options of the metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetricOptions {
    /// Time after the start of the first flow of the test that is excluded (warm-up).
    pub warmup: Dur,
}

/// The input of the functions of [`TABLE`](super::TABLE).
pub struct MetricContext<'a> {
    pub(super) recording: &'a Recording,
    pub(super) window: TimeWindow,
    /// The window including the warm-up.
    pub(super) whole: TimeWindow,
    /// Indices of the flows of the test.
    pub(super) flows: BTreeSet<u32>,
    /// Flows and requests of the test that began in the window, completed or failed.
    pub(super) ended: Vec<&'a Completion>,
    /// Durations of the completed ones in seconds, in ascending order.
    pub(super) times: Vec<f64>,
    /// Slowdowns, in ascending order.
    pub(super) slowdowns: Vec<f64>,
    /// Throughput at the finest interval that is searched for periods; computed once.
    pub(super) fine: OnceCell<Option<Vec<f64>>>,
    /// Index: interval of [`KEPT`].
    pub(super) spreads: [OnceCell<(Option<MeanDeviation>, Vec<MeanDeviation>)>; KEPT.len()],
    /// Index: [`ByteKind`].
    pub(super) warm: [OnceCell<Option<FlowTotals>>; 3],
    timeouts: OnceCell<Option<Vec<f64>>>,
}

impl<'a> MetricContext<'a> {
    pub(super) fn new(recording: &'a Recording, options: MetricOptions) -> MetricContext<'a> {
        let flows = flows_of_test(recording);
        let window = window(recording, &flows, options.warmup);
        let of_test = |c: &&Completion| c.class != BACKGROUND && c.kind != CompletionKind::Round;
        let ended: Vec<&Completion> =
            recording.completions.iter().filter(of_test).filter(|c| c.start >= window.from).collect();
        let completed = || ended.iter().filter(|c| c.ok);
        MetricContext {
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
            timeouts: OnceCell::new(),
        }
    }

    /// The waits of all retransmission timeouts of the test ([`timeout_lengths`]); computed once.
    pub(super) fn timeouts(&self) -> Option<&[f64]> {
        self.timeouts.get_or_init(|| timeout_lengths(self.recording, &self.flows)).as_deref()
    }

    /// Throughput of all flows of the test in every whole interval of the window, at
    /// [`MetricContext::fine_interval`].
    pub(super) fn fine_rates(&self) -> Option<&[f64]> {
        let compute =
            || rates::rates(self.recording, &self.flows, ByteKind::Wire, self.fine_interval()?, self.window);
        self.fine.get_or_init(compute).as_deref()
    }

    /// Mean and standard deviation of the throughput: of all flows of the test together in the window, and of each
    /// flow in the part of the window in which it was open.
    pub(super) fn spreads(&self, interval: Dur) -> &(Option<MeanDeviation>, Vec<MeanDeviation>) {
        let kept =
            KEPT.iter().position(|kept| *kept == interval).expect("one of the intervals that are kept");
        self.spreads[kept].get_or_init(|| {
            let places: BTreeMap<u32, usize> = self.flows.iter().copied().zip(0..).collect();
            let windows: Vec<TimeWindow> =
                self.flow_rows().map(|(_, flow)| open_window(flow, self.window)).collect();
            let together = |flow| places.contains_key(&flow).then_some(0);
            let all = rates::spreads(self.recording, interval, &[self.window], &together);
            let each = rates::spreads(self.recording, interval, &windows, &|flow| places.get(&flow).copied());
            (all.into_iter().next().flatten(), each.into_iter().flatten().collect())
        })
    }

    /// Bytes of one flow in the window. Its counters cover the whole run. When a warm-up is excluded, the value is
    /// computed from the series or the log of deliveries; without either, the whole run counts.
    pub(super) fn bytes_of(&self, place: u32, flow: &Flow, what: ByteKind) -> Option<f64> {
        if let Some((bytes, _)) = self.warm(what) {
            return bytes.get(place as usize).copied();
        }
        match what {
            ByteKind::Read => Some(whole(flow.counters.read_bytes)),
            ByteKind::Wire => (!flow.counters.unseen).then(|| whole(flow.counters.delivered_wire_bytes)),
            ByteKind::Payload => (!flow.counters.unseen).then(|| whole(flow.counters.delivered_bytes)),
        }
    }

    /// When a warm-up is excluded and the recording contains series or deliveries: bytes of each flow, by index, in
    /// the whole intervals of the window, and their total duration.
    pub(super) fn warm(&self, what: ByteKind) -> Option<&FlowTotals> {
        if self.window.from <= self.whole.from {
            return None;
        }
        self.warm[what as usize].get_or_init(|| rates::sums(self.recording, what, self.window)).as_ref()
    }

    /// Rate of one flow in bit/s over the part of the window in which it was open.
    pub(super) fn rate_of(&self, place: u32, flow: &Flow, what: ByteKind) -> Option<f64> {
        let open = open_window(flow, if self.warm(what).is_some() { self.window } else { self.whole });
        Some(self.bytes_of(place, flow, what)? * 8.0 / open.seconds()?)
    }

    /// The finest interval for which the window has at most [`PERIOD_VALUES`] values.
    pub(super) fn fine_interval(&self) -> Option<Dur> {
        let finest = finest(self.recording)?;
        let len = self.window.to.since(self.window.from);
        Some(finest * (len / (finest * PERIOD_VALUES) + 1))
    }

    pub(super) fn flow_rows(&self) -> impl Iterator<Item = (u32, &'a Flow)> {
        self.flows.iter().map(|f| (*f, &self.recording.flows[*f as usize]))
    }

    /// Sum of a sender statistic over the flows of the test; `None` when no sender reports it.
    pub(super) fn total(&self, get: impl Fn(&Flow) -> Option<u64>) -> Option<f64> {
        let said: Vec<u64> = self.flow_rows().filter_map(|(_, flow)| get(flow)).collect();
        (!said.is_empty()).then(|| whole(said.iter().sum()))
    }

    /// Sum of a packet counter over the flows of the test; `None` when packets were not counted.
    pub(super) fn counted(&self, get: impl Fn(&Flow) -> u64) -> Option<f64> {
        let seen = self.flow_rows().all(|(_, flow)| !flow.counters.unseen);
        (seen && !self.flows.is_empty()).then(|| whole(self.flow_rows().map(|(_, flow)| get(flow)).sum()))
    }

    /// Bytes that the receiving applications of the test read.
    pub(super) fn read(&self) -> Option<f64> {
        let read = self.flow_rows().map(|(_, flow)| flow.counters.read_bytes);
        (!self.flows.is_empty()).then(|| whole(read.sum()))
    }

    /// Rate of all flows of the test in the window in bit/s. Counters cover the whole run. When a warm-up is
    /// excluded, the value is computed from the series or the log of deliveries; without either, the whole run
    /// counts.
    pub(super) fn carried(&self, what: ByteKind, in_all: Option<f64>) -> Option<f64> {
        match self.warm(what) {
            Some((bytes, seconds)) => {
                Some(self.flows.iter().map(|flow| bytes[*flow as usize]).sum::<f64>() * 8.0 / seconds)
            }
            None => Some(in_all? * 8.0 / self.whole.seconds()?),
        }
    }

    /// Mean of a column of the series over all flows of the test and the window.
    pub(super) fn mean_of(&self, column: &str) -> Option<f64> {
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

    pub(super) fn latency(&self, kind: LatencyKind) -> Option<&'a Histogram> {
        let entity = match kind {
            LatencyKind::QueueDelay => &self.bottleneck()?.name,
            LatencyKind::OneWay | LatencyKind::Rtt => "all",
        };
        latency(self.recording, kind, entity)
    }

    /// CPU time of all hosts in seconds, on substrates that measure it.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        let used = self.recording.counters.values().filter_map(|counters| counters.get("cpu_ns"));
        let used: Vec<u64> = used.copied().collect();
        (!used.is_empty()).then(|| whole(used.iter().sum()) / 1e9)
    }

    pub(super) fn bottleneck(&self) -> Option<&'a Device> {
        self.recording.devices.get(self.recording.header.bottleneck? as usize)
    }

    /// Goodput of each flow of the test.
    pub(super) fn goodputs(&self) -> Vec<f64> {
        self.flow_rows()
            .map(|(place, flow)| self.rate_of(place, flow, ByteKind::Read).unwrap_or(0.0))
            .collect()
    }

    /// Mean of the inverse slowdown by size class, for classes with completions.
    pub(super) fn speeds_by_size(&self) -> Vec<f64> {
        let mut by_size: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for c in self.ended.iter().filter(|c| c.ok) {
            if let Some(slowdown) = slowdown(c) {
                by_size.entry(size_class(c)).or_default().push(1.0 / slowdown);
            }
        }
        by_size.values().filter_map(|speeds| mean(speeds)).collect()
    }

    /// Durations of the completions of a size class, in ascending order.
    pub(super) fn times_of_size(&self, class: usize) -> Vec<f64> {
        let of_class = self.ended.iter().filter(|c| c.ok && size_class(c) == class);
        sorted(of_class.map(|c| seconds(c)))
    }
}

/// For each connection that is not background traffic: the direction that carried more payload. If none carried any,
/// because each SYN was lost, the first direction of each, so that rates are 0 and not unknown.
pub(super) fn flows_of_test(recording: &Recording) -> BTreeSet<u32> {
    let mut main: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (place, flow) in recording.data_flows().filter(|(_, flow)| flow.class != BACKGROUND) {
        let bytes = flow.counters.payload();
        let best = main.entry(flow.connection).or_insert((bytes, place));
        if bytes > best.0 {
            *best = (bytes, place);
        }
    }
    if main.is_empty() {
        for (place, flow) in (0u32..).zip(&recording.flows).filter(|(_, flow)| flow.class != BACKGROUND) {
            main.entry(flow.connection).or_insert((0, place));
        }
    }
    main.into_values().map(|(_, place)| place).collect()
}

pub(super) fn window(recording: &Recording, flows: &BTreeSet<u32>, warmup: Dur) -> TimeWindow {
    let run_end = Time::ZERO + recording.header.duration;
    let rows: Vec<&Flow> = flows.iter().map(|f| &recording.flows[*f as usize]).collect();
    let start = rows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
    let to = rows.iter().map(|flow| flow.end.unwrap_or(run_end)).max().unwrap_or(run_end).min(run_end);
    TimeWindow { from: start.saturating_add(warmup).min(to), to }
}

pub(super) fn seconds(c: &Completion) -> f64 {
    c.end.since(c.start).as_secs_f64()
}

pub(super) fn slowdown(c: &Completion) -> Option<f64> {
    let ideal = c.ideal.filter(|ideal| !ideal.is_zero())?;
    Some(seconds(c) / ideal.as_secs_f64())
}

/// 0: up to 100 KB, 1: up to 10 MB, 2: above; by the larger of request and response.
pub(super) fn size_class(c: &Completion) -> usize {
    match c.request.max(c.response).get() {
        0..=100_000 => 0,
        100_001..=10_000_000 => 1,
        _ => 2,
    }
}

pub(super) fn latency<'a>(
    recording: &'a Recording,
    kind: LatencyKind,
    entity: &str,
) -> Option<&'a Histogram> {
    let found = recording.latencies.iter().find(|l| l.kind == kind && l.entity == entity);
    found.map(|l| &l.histogram)
}

pub(super) fn quantile_of(recording: &Recording, kind: LatencyKind, entity: &str, q: f64) -> Option<f64> {
    latency(recording, kind, entity)?.quantile(q).map(Dur::as_secs_f64)
}

/// The part of a window in which a flow was open.
pub(super) fn open_window(flow: &Flow, window: TimeWindow) -> TimeWindow {
    let from = flow.start.max(window.from).min(window.to);
    TimeWindow { from, to: flow.end.unwrap_or(window.to).min(window.to).max(from) }
}

/// Bytes that left a device in the window over those that its rate allowed in it: rate times length, or the integral of a rate that
/// varies. Computed from its series for the whole intervals of the window; without series, from its counters for the whole run.
pub(super) fn utilisation(context: &MetricContext<'_>, device: &Device) -> Option<f64> {
    let (recording, window) = (context.recording, context.window);
    let fixed = device.rate.map(|rate| whole(rate.bits_per_sec()) / 8.0);
    let series = recording.series.as_ref().and_then(|s| Some((s, s.entity(&device.name)?)));
    let Some((series, entity)) = series else {
        let varying = || recording.counters.get(&device.name)?.get(CAPACITY).map(|bytes| whole(*bytes));
        let capacity = match fixed {
            Some(rate) => rate * context.whole.seconds()?,
            None => varying()?,
        };
        return ratio(Some(whole(device.counters.bytes)), Some(capacity));
    };
    let ns = series.interval.as_nanos();
    let (first, last) = (window.from.as_nanos().div_ceil(ns), window.to.as_nanos() / ns);
    let sum = |name| {
        let column = entity.column(name)?;
        let inside = (entity.first..).zip(column).filter(|(i, n)| *i >= first && *i < last && !n.is_nan());
        Some(inside.map(|(_, n)| n).sum::<f64>())
    };
    let intervals = last.checked_sub(first).filter(|n| *n > 0)?;
    let capacity = match fixed {
        Some(rate) => rate * whole(intervals) * series.interval.as_secs_f64(),
        None => sum(CAPACITY)?,
    };
    ratio(sum("out_bytes"), Some(capacity))
}

/// `a / b` when both are known and `b` is not 0.
pub(super) fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    b.filter(|b| *b > 0.0).and_then(|b| Some(a? / b))
}

/// An integer as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
pub(super) fn whole(n: u64) -> f64 {
    n as f64
}
