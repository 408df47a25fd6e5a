//! The event log as arrays of numbers, for oracles that read the log in memory. Writing a long log as Parquet and
//! reading it again takes several times as long as the run.

use crate::log::EventField;
use crate::recording::Recording;
use crate::tables;

/// Columns of the event log, of equal length, in the order of its rows. They have the names of `events.parquet`; an
/// absent value is -1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the columns are described in docs/recording.md")]
pub struct EventNumbers {
    pub time_ns: Vec<i64>,
    pub flow: Vec<i64>,
    /// Index in [`EventKind::ALL`](crate::EventKind::ALL).
    pub kind: Vec<u8>,
    pub seq: Vec<i64>,
    pub ack: Vec<i64>,
    pub len: Vec<i64>,
    pub flags: Vec<i64>,
    pub value_ns: Vec<i64>,
    pub cwnd_bytes: Vec<i64>,
}

impl Recording {
    /// The event log as arrays.
    ///
    /// # Panics
    /// When a number does not fit 63 bits. Times and positions of a run always fit.
    pub fn event_numbers(&self) -> EventNumbers {
        let number = |x: u64| i64::try_from(x).expect("times and positions of a run fit 63 bits");
        let maybe = |x: Option<u64>| x.map_or(-1, number);
        let rows = self.events.len();
        let column = || Vec::with_capacity(rows);
        let mut made = EventNumbers {
            time_ns: column(),
            flow: column(),
            kind: Vec::with_capacity(rows),
            seq: column(),
            ack: column(),
            len: column(),
            flags: column(),
            value_ns: column(),
            cwnd_bytes: column(),
        };
        // A single pass over the rows, because a log has millions of them.
        for row in 0..rows {
            let head = self.events.head(row);
            let field = |field| maybe(self.events.number(row, field));
            made.time_ns.push(number(head.at.as_nanos()));
            made.flow.push(head.flow.map_or(-1, i64::from));
            made.kind.push(head.kind as u8);
            made.seq.push(field(EventField::Seq));
            made.ack.push(field(EventField::Ack));
            made.len.push(field(EventField::Len));
            made.flags.push(field(EventField::Flags));
            made.value_ns.push(field(EventField::Value));
            made.cwnd_bytes.push(field(EventField::Cwnd));
        }
        made
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
        assert_eq!((numbers.seq[0], numbers.flags[0], numbers.value_ns[0]), (-1, -1, 7));
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
