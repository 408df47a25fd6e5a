//! The event log as arrays of numbers, for oracles that read the log in memory. Writing a long log as Parquet and
//! reading it again takes several times as long as the run.

use crate::log::EventField;
use crate::recording::Recording;
use crate::tables;

/// Columns of the event log that every row has, of equal length, in the order of its rows. They have the names of
/// `events.parquet`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventNumbers {
    /// When it happened.
    pub time_ns: Vec<i64>,
    /// The flow; -1 for an event of no connection.
    pub flow: Vec<i64>,
    /// Index in [`EventKind::ALL`](crate::EventKind::ALL).
    pub kind: Vec<u8>,
}

/// The columns of [`Recording::event_values`].
const VALUES: [(&str, EventField); 6] = [
    ("seq", EventField::Seq),
    ("ack", EventField::Ack),
    ("len", EventField::Len),
    ("flags", EventField::Flags),
    ("value_ns", EventField::Value),
    ("cwnd_bytes", EventField::Cwnd),
];

fn number(x: u64) -> i64 {
    i64::try_from(x).expect("times and positions of a run fit 63 bits")
}

impl Recording {
    /// Times, flows and kinds of the event log as arrays.
    ///
    /// # Panics
    /// When a time does not fit 63 bits. Times of a run always fit.
    pub fn event_numbers(&self) -> EventNumbers {
        let rows = self.events.len();
        let mut made = EventNumbers {
            time_ns: Vec::with_capacity(rows),
            flow: Vec::with_capacity(rows),
            kind: Vec::with_capacity(rows),
        };
        // A single pass over the rows, because a log has millions of them.
        for row in 0..rows {
            let head = self.events.head(row);
            made.time_ns.push(number(head.at.as_nanos()));
            made.flow.push(head.flow.map_or(-1, i64::from));
            made.kind.push(head.kind as u8);
        }
        made
    }

    /// Writes a column of some rows of the event log to `out`; an absent value is -1. Most rows have few values, and oracles
    /// read them of few rows. Returns false if the column has another name than those of `events.parquet` with numbers that
    /// oracles read.
    ///
    /// # Panics
    /// When a row does not exist, or a number does not fit 63 bits. Positions of a run always fit.
    pub fn event_values(
        &self,
        column: &str,
        rows: impl Iterator<Item = usize>,
        mut out: impl FnMut(i64),
    ) -> bool {
        let Some((_, field)) = VALUES.into_iter().find(|(name, _)| *name == column) else { return false };
        rows.for_each(|row| out(self.events.number(row, field).map_or(-1, number)));
        true
    }

    /// A row of the event log as in `events.parquet`, by column name; absent values are null.
    pub fn event_row(&self, row: usize) -> Option<serde_json::Value> {
        (row < self.events.len()).then(|| tables::event_json(&self.events, row))
    }

    /// The packets as in `packets.pcapng`; empty when none were captured.
    ///
    /// # Errors
    /// A packet that the format cannot represent.
    pub fn capture(&self) -> Result<Vec<u8>, String> {
        // The block frame has 32 bytes and headers with timestamps have 52. Reserving this space avoids most
        // reallocations.
        let mut out = Vec::with_capacity(self.packets.len() * 128);
        if !self.packets.is_empty() {
            crate::pcapng::write(&mut out, &self.header.version, &self.interfaces, &self.packets)
                .map_err(|e| e.to_string())?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, EventRow};
    use crate::recording::Delivery;
    use tcpassay_units::{Dur, Time};

    #[test]
    fn the_number_of_a_kind_is_its_index_in_all() {
        for (place, kind) in EventKind::ALL.iter().copied().enumerate() {
            assert_eq!(kind as usize, place, "{}", kind.name());
        }
    }

    #[test]
    fn an_absent_value_is_minus_one_or_null() {
        let mut event = EventRow::new(Time::from_nanos(5), 1, None, EventKind::TimerFire);
        event.value = Some(7);
        event.why = "rto".into();
        let recording = Recording { events: vec![event].into(), ..Recording::default() };
        let numbers = recording.event_numbers();
        assert_eq!((numbers.time_ns[0], numbers.flow[0], numbers.kind[0]), (5, -1, 6));
        let value = |column| {
            let mut values = Vec::new();
            recording.event_values(column, [0].into_iter(), |value| values.push(value)).then_some(values)
        };
        assert_eq!((value("seq"), value("flags")), (Some(vec![-1]), Some(vec![-1])));
        assert_eq!((value("value_ns"), value("why")), (Some(vec![7]), None));
        let row = recording.event_row(0).expect("there is one");
        assert_eq!((row["time_ns"].as_u64(), row["why"].as_str()), (Some(5), Some("rto")));
        assert!(row["seq"].is_null() && row["ce"] == false && recording.event_row(1).is_none());
    }

    #[test]
    fn the_digest_depends_on_everything_except_the_event_log() {
        let delivery =
            |bytes| Delivery { at: Time::ZERO, flow: 0, wire_bytes: 9, bytes, one_way: Dur::ZERO, ce: false };
        let of = |recording: &Recording| recording.digest().expect("it has a digest");
        let one = Recording { deliveries: vec![delivery(1)], ..Recording::default() };
        let other = Recording { deliveries: vec![delivery(2)], ..Recording::default() };
        let named = Recording { hosts: vec!["a".to_owned()], ..one.clone() };
        let logged = Recording {
            events: vec![EventRow::new(Time::ZERO, 0, None, EventKind::App)].into(),
            ..one.clone()
        };
        assert_ne!(of(&one), of(&other));
        assert_ne!(of(&one), of(&named));
        assert_eq!(of(&one), of(&logged));
    }
}
