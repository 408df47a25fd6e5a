//! Joins the recordings of all machines of a testbed to one.
//!
//! Times count from the start of the traffic, which each agent measures by its own clock. A flow is in two
//! recordings: that of the sender's machine contains transmissions, `TCP_INFO` and round-trip times, that of
//! the receiver's machine contains arrivals and reads. One-way delays are absent, because they would be
//! differences between two clocks.

use crate::remote::part::{PART_FILE, PartFile};
use crate::request::{CaseAnswer, CollectRequest};
use crate::run::answer;
use crate::system::Failure;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use tcpassay_linux::sys;
use tcpassay_measure::{
    EntitySeries, EnvironmentProperty, EventKind, EventLog, EventRow, Flow, FlowCounters, Histogram, Latency,
    LatencyKind, Recording, Series, SeriesColumn, metrics,
};

/// The largest number of intervals of a series. The columns of a flow cover all intervals of both ends, so that memory is needed for each.
const LONGEST_SERIES: u64 = 1 << 22;
/// The memory that joining may need in addition to a multiple of the size of the files, in bytes.
const MEMORY: u64 = 4 << 30;
/// Compressed columns are larger in memory than in files.
const TIMES_SIZE: u64 = 16;

/// The recordings to join: the input of `tcpassay-agent merge`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    /// The recording of each machine.
    parts: Vec<Source>,
    /// The collected data.
    collect: CollectRequest,
    /// Rows for the environment of the recording.
    environment: Vec<EnvironmentProperty>,
    /// The folder of the recording.
    folder: PathBuf,
}

/// The recording of a machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// The machine.
    name: String,
    /// The folder.
    folder: PathBuf,
}

/// A connection of the workload: part, client, server, number.
type Key = (u16, u32, u32, u32);

/// The recording of a machine, in memory.
struct Part {
    name: String,
    recording: Recording,
    about: PartFile,
    /// The number of each of its flows in the joined recording.
    numbers: Vec<u32>,
}

/// Joins the recordings named on standard input, and prints the answer to the case on one line.
pub fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let order: Order = serde_json::from_str(&text)?;
    // A hostile machine may send small files that need any amount of memory.
    sys::limit_memory(MEMORY.saturating_add(TIMES_SIZE.saturating_mul(size(&order)?)))?;
    let answer = merge(order).unwrap_or_else(CaseAnswer::failed);
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    writeln!(out)
}

/// The size of all files in bytes.
fn size(order: &Order) -> io::Result<u64> {
    let mut size: u64 = 0;
    for part in &order.parts {
        for entry in fs::read_dir(&part.folder)? {
            size = size.saturating_add(entry?.metadata()?.len());
        }
    }
    Ok(size)
}

fn merge(order: Order) -> Result<CaseAnswer, Failure> {
    let (collect, options) = order.collect.read().map_err(|e| e.to_string())?;
    let parts = order.parts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let digest = parts.iter().fold(0_u64, |sum, part| sum.wrapping_add(part.about.digest));
    let mut recording = join(parts)?;
    recording.environment.extend(order.environment);
    recording.write(&order.folder).map_err(|e| e.to_string())?;
    Ok(answer(&(recording.clone(), digest), collect.unseen, None, metrics::metrics(&recording, options)))
}

/// Reads a part and verifies that its tables refer to what exists.
fn read(source: &Source) -> Result<Part, Failure> {
    let wrong = |why: String| format!("the recording of `{}`: {why}", source.name);
    let recording = Recording::read(&source.folder).map_err(|e| wrong(e.to_string()))?;
    let path = source.folder.join(PART_FILE);
    let text = fs::read(&path).map_err(|e| wrong(format!("{PART_FILE}: {e}")))?;
    let about: PartFile = serde_json::from_slice(&text).map_err(|e| wrong(format!("{PART_FILE}: {e}")))?;
    let hosts = recording.hosts.len();
    let is_host = |host: u32| (host as usize) < hosts;
    let flows = recording.flows.len();
    if flows != 2 * about.connections.len() {
        return Err(wrong(format!("{flows} flows of {} connections", about.connections.len())));
    }
    if !about.hosts.iter().all(|host| is_host(*host)) {
        return Err(wrong("a host that the case does not have".to_owned()));
    }
    for (flow, key) in recording.flows.iter().zip(about.connections.iter().flat_map(|key| [key, key])) {
        let ends = [(key.1, key.2), (key.2, key.1)];
        if !is_host(flow.from) || !is_host(flow.to) || !ends.contains(&(flow.from, flow.to)) {
            return Err(wrong(format!("the flow `{}` is not one of its connection", flow.name)));
        }
    }
    let known = |flow: Option<u32>| flow.is_none_or(|flow| (flow as usize) < flows);
    if !recording.events.iter().all(|event| is_host(event.host) && known(event.flow)) {
        return Err(wrong("an event of a host or flow that it does not have".to_owned()));
    }
    let series = recording.series.iter().flat_map(|series| &series.entities);
    if let Some(long) = series.into_iter().find(|one| !ends_in_time(one)) {
        return Err(wrong(format!("the series of `{}` has intervals above {LONGEST_SERIES}", long.entity)));
    }
    let device = recording.header.bottleneck.is_none_or(|at| (at as usize) < recording.devices.len());
    let interfaces =
        recording.packets.iter().all(|packet| (packet.interface as usize) < recording.interfaces.len());
    if !device || !interfaces {
        return Err(wrong("a device or interface that it does not have".to_owned()));
    }
    Ok(Part { name: source.name.clone(), recording, about, numbers: Vec::new() })
}

/// Returns true if a series has no interval above the largest one.
fn ends_in_time(series: &EntitySeries) -> bool {
    series.first.saturating_add(series.len() as u64) <= LONGEST_SERIES
}

/// The connections of all parts in the order in which they were opened, each with its number.
fn connections(parts: &[Part]) -> BTreeMap<Key, u32> {
    let mut opened: BTreeMap<Key, u64> = BTreeMap::new();
    for part in parts {
        for (key, flows) in part.about.connections.iter().zip(part.recording.flows.chunks(2)) {
            // The time of the client's machine is used if it has the connection, otherwise that of the other
            // machine.
            if part.about.hosts.contains(&key.1) || !opened.contains_key(key) {
                opened.insert(*key, flows[0].start.as_nanos());
            }
        }
    }
    let mut order: Vec<(u64, Key)> = opened.into_iter().map(|(key, at)| (at, key)).collect();
    order.sort_unstable();
    (0..).zip(order).map(|(number, (_, key))| (key, number)).collect()
}

fn join(mut parts: Vec<Part>) -> Result<Recording, Failure> {
    let numbers = connections(&parts);
    for part in &mut parts {
        part.numbers =
            part.about.connections.iter().flat_map(|key| [2 * numbers[key], 2 * numbers[key] + 1]).collect();
    }
    let first = &parts.first().ok_or("there is no recording to join")?.recording;
    let mut joined = Recording {
        header: first.header.clone(),
        hosts: first.hosts.clone(),
        interfaces: first.interfaces.clone(),
        ..Recording::default()
    };
    if let Some(part) = parts.iter().find(|part| part.recording.hosts != joined.hosts) {
        return Err(format!("the recording of `{}` is of another case", part.name));
    }
    joined.flows = flows(&parts, 2 * numbers.len())?;
    joined.latencies = latencies(&parts);
    joined.series = series(&parts);
    joined.events = events(&parts);
    joined.header.bottleneck = None;
    joined.header.complete = parts.iter().all(|part| part.recording.header.complete);
    for part in parts {
        let Part { name, recording, .. } = part;
        joined.header.duration = joined.header.duration.max(recording.header.duration);
        if let Some(device) = recording.header.bottleneck {
            joined.header.bottleneck = u32::try_from(joined.devices.len()).ok().map(|first| first + device);
        }
        joined.devices.extend(recording.devices);
        joined.completions.extend(recording.completions);
        joined.packets.extend(recording.packets);
        join_counters(&mut joined.counters, recording.counters);
        let own_row = |row: EnvironmentProperty| EnvironmentProperty {
            entity: format!("{}.{name}", row.entity),
            ..row
        };
        joined.environment.extend(recording.environment.into_iter().map(own_row));
    }
    joined.completions.sort_by_key(|completion| completion.end);
    joined.packets.sort_by_key(|packet| packet.at);
    Ok(joined)
}

/// Adds the counters of a part. Each host is on one machine. The counters of the run are sums, except for
/// those that are 0 or 1.
fn join_counters(
    all: &mut BTreeMap<String, BTreeMap<String, u64>>,
    more: BTreeMap<String, BTreeMap<String, u64>>,
) {
    for (entity, counters) in more {
        let is_run = entity == "run";
        let known = all.entry(entity).or_default();
        for (name, n) in counters {
            let least = is_run && (name == "finished" || name.starts_with("traced_"));
            let sum = match known.get(&name) {
                Some(before) if least => n.min(*before),
                Some(before) => n.saturating_add(*before),
                None => n,
            };
            known.insert(name, sum);
        }
    }
}

/// The flows of all connections: transmissions from the recording of the sender's machine, arrivals from
/// that of the receiver's machine.
fn flows(parts: &[Part], count: usize) -> Result<Vec<Flow>, Failure> {
    let mut joined: Vec<Option<Flow>> = vec![None; count];
    for part in parts {
        let hosts = &part.about.hosts;
        for (flow, number) in part.recording.flows.iter().zip(&part.numbers) {
            let mut new = Flow { name: format!("flow.{number}"), connection: number / 2, ..flow.clone() };
            let number = *number as usize;
            let (sends, receives) = (hosts.contains(&flow.from), hosts.contains(&flow.to));
            joined[number] = Some(match joined[number].take() {
                None => new,
                Some(old) => {
                    let counters = if sends && !receives {
                        of_both(&new.counters, &old.counters)
                    } else {
                        of_both(&old.counters, &new.counters)
                    };
                    if !sends {
                        new = old;
                    }
                    Flow { counters, ..new }
                }
            });
        }
    }
    joined.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| "a connection has one direction".to_owned())
}

/// The counters of transmissions from the sender's machine, and those of arrivals from the receiver's
/// machine.
fn of_both(sender: &FlowCounters, receiver: &FlowCounters) -> FlowCounters {
    FlowCounters {
        delivered_packets: receiver.delivered_packets,
        delivered_bytes: receiver.delivered_bytes,
        delivered_wire_bytes: receiver.delivered_wire_bytes,
        ce_packets: receiver.ce_packets,
        read_bytes: receiver.read_bytes,
        ..*sender
    }
}

/// The round-trip times that the machines of senders measured, of each flow and of all.
fn latencies(parts: &[Part]) -> Vec<Latency> {
    let mut joined: BTreeMap<(u32, String), Histogram> = BTreeMap::new();
    for part in parts {
        for latency in part.recording.latencies.iter().filter(|one| one.kind == LatencyKind::Rtt) {
            let entity = match place(part, &latency.entity) {
                Some(place) => (part.numbers[place], format!("flow.{}", part.numbers[place])),
                None => (u32::MAX, latency.entity.clone()),
            };
            joined.entry(entity).or_default().add(&latency.histogram);
        }
    }
    let latency = |((_, entity), histogram)| Latency { kind: LatencyKind::Rtt, entity, histogram };
    joined.into_iter().map(latency).collect()
}

/// The index of a flow of a part by its name as an entity.
fn place(part: &Part, entity: &str) -> Option<usize> {
    let place: usize = entity.strip_prefix("flow.")?.parse().ok()?;
    (place < part.numbers.len()).then_some(place)
}

/// The series of flows, each joined from both ends, then those of devices.
fn series(parts: &[Part]) -> Option<Series> {
    let interval = parts.iter().find_map(|part| part.recording.series.as_ref())?.interval;
    let mut flows: BTreeMap<u32, EntitySeries> = BTreeMap::new();
    let mut devices = Vec::new();
    for part in parts {
        for entity in part.recording.series.iter().flat_map(|series| &series.entities) {
            let Some(place) = place(part, &entity.entity) else {
                devices.push(entity.clone());
                continue;
            };
            let number = part.numbers[place];
            let entity = EntitySeries { entity: format!("flow.{number}"), ..entity.clone() };
            match flows.remove(&number) {
                None => flows.insert(number, entity),
                Some(other) => flows.insert(number, of_both_ends(&other, &entity)),
            };
        }
    }
    Some(Series { interval, entities: flows.into_values().chain(devices).collect() })
}

/// The columns of both ends of a flow. Sums of the end that does not count are 0, gauges of the end that does not measure are absent.
fn of_both_ends(a: &EntitySeries, b: &EntitySeries) -> EntitySeries {
    let first = a.first.min(b.first);
    let last = (a.first + a.len() as u64).max(b.first + b.len() as u64);
    let names: std::collections::BTreeSet<&str> =
        a.columns.iter().chain(&b.columns).map(|column| column.name.as_str()).collect();
    let column = |name: &str| {
        let value = |series: &EntitySeries, interval: u64| {
            let at = usize::try_from(interval.checked_sub(series.first)?).ok()?;
            series.column(name)?.get(at).copied().filter(|value| !value.is_nan())
        };
        let both = |interval| match (value(a, interval), value(b, interval)) {
            (Some(a), Some(b)) => a + b,
            (one, other) => one.or(other).unwrap_or(f64::NAN),
        };
        SeriesColumn { name: name.to_owned(), values: (first..last).map(both).collect() }
    };
    EntitySeries { entity: a.entity.clone(), first, columns: names.into_iter().map(column).collect() }
}

/// The events of all hosts in the order of time. At one instant: what arrived, the reaction of the stack, what it sent.
fn events(parts: &[Part]) -> EventLog {
    let of_part = |part: &Part| {
        let renumber =
            |event: EventRow| EventRow { flow: event.flow.map(|flow| part.numbers[flow as usize]), ..event };
        part.recording.events.iter().map(renumber).collect::<Vec<_>>()
    };
    let mut all: Vec<EventRow> = parts.iter().flat_map(of_part).collect();
    all.sort_by_key(|event| {
        let place = match event.kind {
            EventKind::In => 0,
            EventKind::Out | EventKind::Retransmit => 2,
            _ => 1,
        };
        (event.at, place)
    });
    all.into()
}

#[cfg(test)]
mod tests;
