//! Conversion of the parts of a recording to Parquet tables and back.

use crate::event::{EventKind, EventRow, Reason};
use crate::histogram::Histogram;
use crate::log::{EventField, EventHeader, EventLog};
use crate::recording::{Completion, CompletionKind, Delivery, Latency, LatencyKind};
use crate::series::{EntitySeries, Series, SeriesColumn};
use crate::table::{ColumnData, ParquetTable};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

fn whole<T>(rows: &[T], get: impl Fn(&T) -> u64) -> ColumnData {
    ColumnData::Whole(rows.iter().map(|row| Some(get(row))).collect())
}

fn maybe<T>(rows: &[T], get: impl Fn(&T) -> Option<u64>) -> ColumnData {
    ColumnData::Whole(rows.iter().map(get).collect())
}

fn text<'a, T>(rows: &'a [T], get: impl Fn(&'a T) -> &'a str) -> ColumnData {
    // Consecutive rows usually have the same text, and a copy of a `ByteArray` is a reference.
    let mut last = ByteArray::from("");
    let word = |row| {
        let text = get(row).as_bytes();
        if last.data() != text {
            last = ByteArray::from(text.to_vec());
        }
        last.clone()
    };
    ColumnData::Text(rows.iter().map(word).collect())
}

fn flag<T>(rows: &[T], get: impl Fn(&T) -> bool) -> ColumnData {
    ColumnData::Flag(rows.iter().map(get).collect())
}

fn table(columns: Vec<(&str, ColumnData)>) -> ParquetTable {
    ParquetTable(columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect())
}

fn unknown(column: &str, value: &str) -> ParquetError {
    ParquetError::General(format!("column {column} contains the unknown value `{value}`"))
}

impl CompletionKind {
    /// The name in `completions.parquet`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl LatencyKind {
    /// The name in `latency.parquet`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The column of `events.parquet` that exists only if a row has a value in it.
pub const ASKED: &str = "asked_bytes";

/// The type of a column of Parquet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// A 64-bit whole number.
    Whole,
    /// A 64-bit floating-point number.
    Real,
    /// UTF-8 text.
    Text,
    /// Boolean.
    Flag,
}

/// The tables of a recording and the columns that they always have, in the order in which they are written. The table `series` has one more column for each
/// metric of [`series_columns`](crate::series_columns).
pub fn table_columns() -> Vec<(&'static str, Vec<(String, ColumnType)>)> {
    let columns = |table: ParquetTable| {
        let column = |(name, values)| {
            let kind = match values {
                ColumnData::Whole(_) => ColumnType::Whole,
                ColumnData::Real(_) => ColumnType::Real,
                ColumnData::Text(_) | ColumnData::Maybe(_) => ColumnType::Text,
                ColumnData::Flag(_) => ColumnType::Flag,
            };
            (name, kind)
        };
        table.0.into_iter().map(column).collect()
    };
    vec![
        ("events", columns(from_events(&EventLog::default(), 0..0))),
        ("series", columns(from_series(Dur::ZERO, &BTreeSet::new(), &[]))),
        ("deliveries", columns(from_deliveries(&[]))),
        ("latency", columns(from_latencies(&[]))),
        ("completions", columns(from_completions(&[]))),
    ]
}

/// One interval of one entity.
pub(crate) type SeriesRow<'a> = (&'a EntitySeries, usize);

/// One row per interval and entity, entity by entity.
pub(crate) fn series_rows(series: &Series) -> Vec<SeriesRow<'_>> {
    series.entities.iter().flat_map(|entity| (0..entity.len()).map(move |i| (entity, i))).collect()
}

/// The names of all metrics that any entity has; each is a column.
pub(crate) fn series_names(series: &Series) -> BTreeSet<&str> {
    series.entities.iter().flat_map(|e| e.columns.iter().map(|c| c.name.as_str())).collect()
}

pub(crate) fn from_series(interval: Dur, names: &BTreeSet<&str>, rows: &[SeriesRow<'_>]) -> ParquetTable {
    let mut columns = vec![
        ("time_ns", whole(rows, |(entity, i)| entity.time(interval, *i).as_nanos())),
        ("entity", text(rows, |(entity, _)| &entity.entity)),
    ];
    for name in names {
        let value = |(entity, i): &SeriesRow<'_>| entity.column(name).map_or(f64::NAN, |values| values[*i]);
        columns.push((name, ColumnData::Real(rows.iter().map(value).collect())));
    }
    table(columns)
}

pub(crate) fn to_series(table: &ParquetTable, interval: Dur) -> Result<Series> {
    if interval.is_zero() {
        return Err(ParquetError::General("series with an interval of zero".to_owned()));
    }
    let times: Vec<u64> = table.required("time_ns")?;
    let names = table.text("entity")?;
    let mut entities: Vec<(EntitySeries, std::ops::Range<usize>)> = Vec::new();
    for (row, (time, name)) in times.iter().zip(names).enumerate() {
        match entities.last_mut() {
            Some((entity, rows)) if entity.entity == *name => rows.end = row + 1,
            _ => {
                let first = time / interval.as_nanos();
                let entity = EntitySeries { entity: (*name).to_owned(), first, columns: Vec::new() };
                entities.push((entity, row..row + 1));
            }
        }
    }
    for (entity, rows) in &mut entities {
        for (name, values) in &table.0 {
            if let ColumnData::Real(values) = values {
                let values = values[rows.clone()].to_vec();
                if values.iter().any(|x| !x.is_nan()) {
                    entity.columns.push(SeriesColumn { name: name.clone(), values });
                }
            }
        }
    }
    Ok(Series { interval, entities: entities.into_iter().map(|(entity, _)| entity).collect() })
}

pub(crate) fn from_deliveries(rows: &[Delivery]) -> ParquetTable {
    table(vec![
        ("time_ns", whole(rows, |d| d.at.as_nanos())),
        ("flow", whole(rows, |d| d.flow.into())),
        ("wire_bytes", whole(rows, |d| d.wire_bytes.into())),
        ("bytes", whole(rows, |d| d.bytes.into())),
        ("one_way_ns", whole(rows, |d| d.one_way.as_nanos())),
        ("ce", flag(rows, |d| d.ce)),
    ])
}

pub(crate) fn to_deliveries(table: &ParquetTable) -> Result<Vec<Delivery>> {
    let at: Vec<u64> = table.required("time_ns")?;
    let flow: Vec<u32> = table.required("flow")?;
    let wire: Vec<u32> = table.required("wire_bytes")?;
    let bytes: Vec<u32> = table.required("bytes")?;
    let one_way: Vec<u64> = table.required("one_way_ns")?;
    let ce = table.flag("ce")?;
    let row = |i: usize| Delivery {
        at: Time::from_nanos(at[i]),
        flow: flow[i],
        wire_bytes: wire[i],
        bytes: bytes[i],
        one_way: Dur::from_nanos(one_way[i]),
        ce: ce[i],
    };
    Ok((0..at.len()).map(row).collect())
}

pub(crate) fn from_completions(rows: &[Completion]) -> ParquetTable {
    table(vec![
        ("kind", text(rows, |c| c.kind.name())),
        ("class", text(rows, |c| &c.class)),
        ("client", whole(rows, |c| c.client.into())),
        ("server", whole(rows, |c| c.server.into())),
        ("connection", whole(rows, |c| c.connection.into())),
        ("request_bytes", whole(rows, |c| c.request.get())),
        ("response_bytes", whole(rows, |c| c.response.get())),
        ("start_ns", whole(rows, |c| c.start.as_nanos())),
        ("end_ns", whole(rows, |c| c.end.as_nanos())),
        ("ideal_ns", maybe(rows, |c| c.ideal.map(Dur::as_nanos))),
        ("ok", flag(rows, |c| c.ok)),
    ])
}

pub(crate) fn to_completions(table: &ParquetTable) -> Result<Vec<Completion>> {
    let (kind, class, ok) = (table.text("kind")?, table.text("class")?, table.flag("ok")?);
    let ids = |name| table.required::<u32>(name);
    let numbers = |name| table.required::<u64>(name);
    let (client, server, connection) = (ids("client")?, ids("server")?, ids("connection")?);
    let (request, response) = (numbers("request_bytes")?, numbers("response_bytes")?);
    let (start, end, ideal) = (numbers("start_ns")?, numbers("end_ns")?, table.whole("ideal_ns")?);
    let row = |i: usize| {
        Ok(Completion {
            kind: kind[i].parse().map_err(|_| unknown("kind", kind[i]))?,
            class: class[i].to_owned(),
            client: client[i],
            server: server[i],
            connection: connection[i],
            request: Bytes::new(request[i]),
            response: Bytes::new(response[i]),
            start: Time::from_nanos(start[i]),
            end: Time::from_nanos(end[i]),
            ideal: ideal[i].map(Dur::from_nanos),
            ok: ok[i],
        })
    };
    (0..kind.len()).map(row).collect()
}

/// One value of one distribution, with its count.
pub(crate) type LatencyRow<'a> = (&'a Latency, Dur, u64);

pub(crate) fn latency_rows(latencies: &[Latency]) -> Vec<LatencyRow<'_>> {
    latencies.iter().flat_map(|l| l.histogram.counts().map(move |(value, n)| (l, value, n))).collect()
}

pub(crate) fn from_latencies(rows: &[LatencyRow<'_>]) -> ParquetTable {
    table(vec![
        ("kind", text(rows, |(l, ..)| l.kind.name())),
        ("entity", text(rows, |(l, ..)| &l.entity)),
        ("value_ns", whole(rows, |(_, value, _)| value.as_nanos())),
        ("count", whole(rows, |(_, _, count)| *count)),
    ])
}

pub(crate) fn to_latencies(table: &ParquetTable) -> Result<Vec<Latency>> {
    let (kinds, entities) = (table.text("kind")?, table.text("entity")?);
    let (values, counts): (Vec<u64>, Vec<u64>) = (table.required("value_ns")?, table.required("count")?);
    let mut latencies: Vec<Latency> = Vec::new();
    let mut places: BTreeMap<(LatencyKind, &str), usize> = BTreeMap::new();
    for i in 0..values.len() {
        let kind: LatencyKind = kinds[i].parse().map_err(|_| unknown("kind", kinds[i]))?;
        let place = match places.entry((kind, entities[i])) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                let histogram = Histogram::default();
                latencies.push(Latency { kind, entity: entities[i].to_owned(), histogram });
                *place.insert(latencies.len() - 1)
            }
        };
        latencies[place].histogram.record_many(Dur::from_nanos(values[i]), counts[i]);
    }
    Ok(latencies)
}

pub(crate) fn from_events(log: &EventLog, rows: Range<usize>) -> ParquetTable {
    let heads: Vec<EventHeader> = rows.clone().map(|row| log.head(row)).collect();
    let whys: Vec<&str> = rows.clone().map(|row| log.why(row).expect("a row of the log")).collect();
    let number = |field| ColumnData::Whole(rows.clone().map(|row| log.number(row, field)).collect());
    let mut columns = vec![
        ("time_ns", whole(&heads, |e| e.at.as_nanos())),
        ("host", whole(&heads, |e| e.host.into())),
        ("flow", maybe(&heads, |e| e.flow.map(u64::from))),
        ("kind", text(&heads, |e| e.kind.name())),
        ("why", text(&whys, |why| why)),
        ("seq", number(EventField::Seq)),
        ("ack", number(EventField::Ack)),
        ("len", number(EventField::Len)),
        ("flags", number(EventField::Flags)),
        ("window_bytes", number(EventField::Window)),
        ("cwnd_bytes", number(EventField::Cwnd)),
        ("ssthresh_bytes", number(EventField::Ssthresh)),
        ("flight_bytes", number(EventField::Flight)),
        ("srtt_ns", number(EventField::Srtt)),
        ("rto_ns", number(EventField::Rto)),
        ("value_ns", number(EventField::Value)),
        ("ce", flag(&heads, |e| e.ce)),
    ];
    // Few logs contain clamped windows, so other logs have no such column.
    if log.has_asked() {
        columns.push((ASKED, number(EventField::Asked)));
    }
    table(columns)
}

/// One row of the event log as in `events.parquet`; absent values are null.
pub(crate) fn event_json(log: &EventLog, row: usize) -> serde_json::Value {
    let column = |(name, values): (String, ColumnData)| {
        let value: serde_json::Value = match values {
            ColumnData::Whole(v) => v[0].into(),
            ColumnData::Real(v) => v[0].into(),
            ColumnData::Text(v) => v[0].as_utf8().expect("words are text").into(),
            ColumnData::Maybe(v) => v[0].clone().into(),
            ColumnData::Flag(v) => v[0].into(),
        };
        (name, value)
    };
    from_events(log, row..row + 1).0.into_iter().map(column).collect()
}

pub(crate) fn to_events(table: &ParquetTable) -> Result<EventLog> {
    let at: Vec<u64> = table.required("time_ns")?;
    let host: Vec<u32> = table.required("host")?;
    let (kind, why, ce) = (table.text("kind")?, table.text("why")?, table.flag("ce")?);
    let whole = |name| table.whole(name);
    let (flow, seq, ack) = (whole("flow")?, whole("seq")?, whole("ack")?);
    let (len, flags) = (whole("len")?, whole("flags")?);
    let (window, cwnd, ssthresh) = (whole("window_bytes")?, whole("cwnd_bytes")?, whole("ssthresh_bytes")?);
    let flight = whole("flight_bytes")?;
    let (srtt, rto, value) = (whole("srtt_ns")?, whole("rto_ns")?, whole("value_ns")?);
    let asked = if table.has(ASKED) { Some(whole(ASKED)?) } else { None };
    let small = |name: &str, x: Option<u64>| {
        let fits = x.map(u32::try_from).transpose();
        fits.map_err(|_| ParquetError::General(format!("column {name} has a value that is too large")))
    };
    let row = |i: usize| {
        let bits = flags[i].and_then(|bits| u16::try_from(bits).ok());
        let kind: EventKind = kind[i].parse().map_err(|_| unknown("kind", kind[i]))?;
        // Older versions wrote the requested bytes to `value_ns` instead of `asked_bytes`.
        let old = kind == EventKind::Clamp && asked.is_none();
        Ok(EventRow {
            at: Time::from_nanos(at[i]),
            host: host[i],
            flow: small("flow", flow[i])?,
            kind,
            why: Reason::Owned(why[i].to_owned()),
            seq: seq[i],
            ack: ack[i],
            len: small("len", len[i])?,
            flags: bits.map(Flags::from_bits),
            window: window[i].map(Bytes::new),
            cwnd: cwnd[i].map(Bytes::new),
            ssthresh: ssthresh[i].map(Bytes::new),
            flight: flight[i].map(Bytes::new),
            srtt: srtt[i].map(Dur::from_nanos),
            rto: rto[i].map(Dur::from_nanos),
            value: value[i].filter(|_| !old),
            asked: asked.map_or(value[i].filter(|_| old), |column| column[i]).map(Bytes::new),
            ce: ce[i],
        })
    };
    (0..at.len()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clamp() -> EventRow {
        let clamp = EventRow::new(Time::from_nanos(5), 0, Some(0), EventKind::Clamp);
        EventRow { cwnd: Some(Bytes::new(1000)), asked: Some(Bytes::new(400)), ..clamp }
    }

    fn names(table: &ParquetTable) -> Vec<&str> {
        table.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_clamped_request_of_a_controller_has_a_column_of_bytes() {
        let timer = EventRow { value: Some(7), ..EventRow::new(Time::ZERO, 0, Some(0), EventKind::TimerSet) };
        let without = from_events(&EventLog::from(vec![timer.clone()]), 0..1);
        assert_eq!(names(&without).last(), Some(&"ce"));
        let log = EventLog::from(vec![timer, clamp()]);
        let with = from_events(&log, 0..2);
        assert_eq!(names(&with).last(), Some(&"asked_bytes"));
        assert_eq!(with.whole("asked_bytes").expect("numbers"), [None, Some(400)]);
        assert_eq!(with.whole("value_ns").expect("numbers"), [Some(7), None]);
        assert_eq!(to_events(&with).expect("a log"), log);
    }

    #[test]
    fn an_older_log_has_the_bytes_in_the_column_of_times() {
        let mut table = from_events(&EventLog::from(vec![clamp()]), 0..1);
        table.0.pop();
        for (name, values) in &mut table.0 {
            if name == "value_ns" {
                *values = ColumnData::Whole(vec![Some(400)]);
            }
        }
        let read = to_events(&table).expect("a log").get(0).expect("a row");
        assert_eq!((read.asked, read.value), (Some(Bytes::new(400)), None));
    }

    #[test]
    fn the_columns_that_a_table_always_has_are_those_of_an_empty_one() {
        let tables = table_columns();
        let all: Vec<_> = tables.iter().map(|(name, _)| *name).collect();
        assert_eq!(all, ["events", "series", "deliveries", "latency", "completions"]);
        assert_eq!(tables[0].1.len(), 17);
        assert_eq!(
            tables[1].1,
            [("time_ns".to_owned(), ColumnType::Whole), ("entity".to_owned(), ColumnType::Text)]
        );
    }
}
