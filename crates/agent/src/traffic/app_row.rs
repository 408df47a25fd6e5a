//! The rows of the event log for calls of applications.

use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{EventKind, EventRow, FlowId};
use tcpassay_units::{Bytes, Time};

/// What is known of a call.
#[derive(Clone, Copy, Default, Debug)]
pub struct Call {
    /// Bytes that it took.
    pub taken: Option<Bytes>,
    /// Bytes that a write asked for.
    pub asked: Option<Bytes>,
    /// The packets of the host that the recording had before.
    pub before: Option<u64>,
}

/// A call of an application as a row of the event log, at this time, of this host and the flow that it sends.
pub fn app_row((at, host, flow): (Time, u32, FlowId), call: AppCall, known: Call) -> EventRow {
    EventRow {
        why: call.name().into(),
        value: known.taken.map(Bytes::get),
        asked: known.asked,
        seq: known.before,
        ..EventRow::new(at, host, Some(flow.0), EventKind::App)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_call_has_the_bytes_that_it_took_those_that_a_write_asked_for_and_its_place_among_the_packets()
     {
        let about = (Time::from_nanos(7), 2, FlowId(5));
        let known = Call { taken: Some(Bytes::new(300)), asked: Some(Bytes::new(1000)), before: Some(9) };
        let write = app_row(about, AppCall::Write, known);
        assert_eq!((write.kind, write.host, write.flow), (EventKind::App, 2, Some(5)));
        assert_eq!((&*write.why, write.value, write.asked), ("write", Some(300), Some(Bytes::new(1000))));
        assert_eq!(write.seq, Some(9));
        let close = app_row(about, AppCall::Close, Call::default());
        assert_eq!((&*close.why, close.value, close.asked, close.seq), ("close", None, None, None));
    }
}
