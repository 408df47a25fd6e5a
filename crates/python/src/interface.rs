//! The declarations of Rust that Python uses, as JSON, from which `tools/interface.py` generates
//! `tcpassay/interface.py`.

use pyo3::prelude::*;
use serde_json::{Value, json};
use std::fmt::Debug;
use strum::{EnumMessage, VariantArray};
use tcpassay_capture::{EcnFeedback, EndingKind, IcmpKind, Place, StallCause};
use tcpassay_measure::metrics::{Direction, TABLE};
use tcpassay_measure::reason::{
    AckReason, CongestionChange, CongestionState, RunEnd, StateChange, TcpState, Timer, UNKNOWN,
};
use tcpassay_measure::{
    ASKED, ColumnType, CompletionKind, EventKind, LatencyKind, series_columns, table_columns,
};

/// The declarations, a JSON object: `enums`, `tables`, `more` (columns that a table may have), `metrics`,
/// and `testbed` (the messages of testbeds).
#[pyfunction]
pub fn interface_json() -> String {
    let enums = [
        enumeration::<EventKind>(
            "EventKind",
            "The kind of a row of the event log. The order is that of the numbers in `Ran.numbers`.",
        ),
        or_unknown(enumeration::<TcpState>(
            "TcpState",
            "A state of a connection (RFC 9293 section 3.3.2) in the event log.",
        )),
        or_unknown(enumeration::<CongestionState>(
            "CongestionState",
            "The congestion state of a sender (Linux: `enum tcp_ca_state`) in the event log.",
        )),
        enumeration::<Timer>(
            "Timer",
            "A timer of a connection: the reason of the events `timer_set`, `timer_cancel` and `timer_fire`.",
        ),
        enumeration::<AckReason>(
            "AckReason",
            "The reason of the events `ack_now`, `ack_delay` and `ack_forget`.",
        ),
        enumeration::<RunEnd>("RunEnd", "The reason for the end of a run, on every substrate."),
        enumeration::<LatencyKind>("LatencyKind", "The kind of a row of the table `latency`."),
        enumeration::<CompletionKind>("CompletionKind", "The kind of a row of the table `completions`."),
        enumeration::<Direction>("Direction", "Whether higher or lower values of a metric are better."),
        enumeration::<Place>("Place", "The place on the path of a flow at which a capture was taken."),
        enumeration::<EcnFeedback>(
            "EcnFeedback",
            "The meaning of the congestion flags in the ACKs of a captured connection.",
        ),
        enumeration::<StallCause>("StallCause", "The cause of a stall of a connection."),
        enumeration::<EndingKind>("EndingKind", "How a connection ended."),
        enumeration::<IcmpKind>("IcmpKind", "An ICMP error about a segment."),
    ];
    let tables: Vec<Value> = table_columns()
        .into_iter()
        .map(|(table, columns)| {
            let columns: Vec<_> = columns.into_iter().map(|(name, kind)| (name, column_type(kind))).collect();
            json!([table, columns])
        })
        .collect();
    let metrics: Vec<Value> = TABLE
        .iter()
        .map(|m| json!({ "name": m.name, "unit": m.unit, "direction": <&str>::from(m.direction), "doc": m.doc }))
        .collect();
    json!({ "enums": enums, "tables": tables, "more": { "events": [ASKED], "series": series_columns() }, "metrics": metrics, "testbed": tcpassay_messages::declarations() }).to_string()
}

fn enumeration<E>(name: &str, doc: &str) -> Value
where
    E: VariantArray + EnumMessage + Debug + Copy + Into<&'static str> + 'static,
{
    let member = |member: &E| {
        let value: &str = (*member).into();
        json!({ "name": format!("{member:?}"), "value": value, "doc": member.get_documentation().unwrap_or_default() })
    };
    json!({ "name": name, "doc": doc, "members": E::VARIANTS.iter().map(member).collect::<Vec<_>>() })
}

/// Adds the member for a state that is not known, which Rust expresses as `None`.
fn or_unknown(mut states: Value) -> Value {
    let unknown = json!({ "name": "Unknown", "value": UNKNOWN, "doc": "A state that is not known." });
    states["members"].as_array_mut().expect("a list").insert(0, unknown);
    states
}

/// The name of the type in polars.
fn column_type(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Whole => "Int64",
        ColumnType::Real => "Float64",
        ColumnType::Text => "String",
        ColumnType::Flag => "Boolean",
    }
}

/// The reason of an event `state`: `(before, after, None)`, or `(None, None, cause)` of an abort; `None` for other text.
#[pyfunction]
pub fn state_change(why: &str) -> Option<(Option<&'static str>, Option<&'static str>, Option<&str>)> {
    Some(match StateChange::read(why)? {
        StateChange::Moved { from, to } => {
            let name = |state: Option<TcpState>| state.map_or(UNKNOWN, TcpState::name);
            (Some(name(from)), Some(name(to)), None)
        }
        StateChange::Aborted { cause } => (None, None, Some(cause)),
    })
}

/// The reason of an event `congestion`: the states before and after, the cause, whether a reduction was undone, and whether the window
/// after the change is known; `None` for other text.
#[pyfunction]
pub fn congestion_change(why: &str) -> Option<(&'static str, &'static str, &str, bool, bool)> {
    let change = CongestionChange::read(why)?;
    let name = |state: Option<CongestionState>| state.map_or(UNKNOWN, CongestionState::name);
    Some((name(change.from), name(change.to), change.cause, change.is_undo(), change.window_known()))
}
