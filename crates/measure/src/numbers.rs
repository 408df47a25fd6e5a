//! Parts of a recording in memory: rows of its event log, and its captured packets.

use crate::recording::Recording;
use crate::tables;

impl Recording {
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
    fn an_absent_value_of_a_row_is_null() {
        let mut event = EventRow::new(Time::from_nanos(5), 1, None, EventKind::TimerFire);
        event.why = "rto".into();
        let recording = Recording { events: vec![event].into(), ..Recording::default() };
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
