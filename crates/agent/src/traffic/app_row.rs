//! The rows of the event log for calls of applications.

use tcpassay_measure::reason::AppCall;
use tcpassay_measure::{EventKind, EventRow, FlowId};
use tcpassay_units::{Bytes, Time};

/// A call of an application as a row of the event log, at this time, of this host and the flow that it sends.
pub fn app_row(
    (at, host, flow): (Time, u32, FlowId),
    call: AppCall,
    taken: Option<Bytes>,
    asked: Option<Bytes>,
) -> EventRow {
    let value = taken.map(Bytes::get);
    EventRow {
        why: call.name().into(),
        value,
        asked,
        ..EventRow::new(at, host, Some(flow.0), EventKind::App)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_call_has_the_bytes_that_it_took_and_those_that_a_write_asked_for() {
        let about = (Time::from_nanos(7), 2, FlowId(5));
        let write = app_row(about, AppCall::Write, Some(Bytes::new(300)), Some(Bytes::new(1000)));
        assert_eq!((write.kind, write.host, write.flow), (EventKind::App, 2, Some(5)));
        assert_eq!((&*write.why, write.value, write.asked), ("write", Some(300), Some(Bytes::new(1000))));
        let close = app_row(about, AppCall::Close, None, None);
        assert_eq!((&*close.why, close.value, close.asked), ("close", None, None));
    }
}
