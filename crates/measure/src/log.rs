//! The event log in memory: millions of rows with few values each.
//!
//! An [`EventRow`] has a field for every value that any kind of event may have. In this log a row stores only the
//! values that are present, and a number for its reason. The log of a model run uses a quarter of the memory of its
//! `EventRow`s.

use crate::event::{EventKind, EventRow, Reason};
use std::collections::BTreeMap;
use std::fmt;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// Rows in the order in which they were added.
#[derive(Clone)]
pub struct EventLog {
    rows: Vec<Row>,
    /// The values of all rows; those of a row are in the order of [`EventField`].
    numbers: Vec<u64>,
    words: Vec<Reason>,
    places: BTreeMap<Reason, u32>,
    /// Index of the last reason by kind of event and length of text, because consecutive reasons are usually
    /// equal.
    recent: [u32; 512],
    /// Whether any row has [`EventField::Asked`].
    asked: bool,
}

#[derive(Clone, Copy)]
struct Row {
    at: Time,
    /// Index of its first value.
    numbers: u64,
    host: u32,
    /// Valid when [`HAS_FLOW`] is set.
    flow: u32,
    /// Index of the reason.
    why: u32,
    /// A bit for each value that is present, and two flags.
    has: u16,
    kind: EventKind,
}

/// The numeric values that an event may have.
#[derive(Clone, Copy)]
pub(crate) enum EventField {
    Seq,
    Ack,
    Len,
    Flags,
    Window,
    Cwnd,
    Ssthresh,
    Flight,
    Srtt,
    Rto,
    Value,
    Asked,
}

/// The bits of the values that describe a sender.
const SENDER: u16 = 1 << EventField::Cwnd as u16
    | 1 << EventField::Ssthresh as u16
    | 1 << EventField::Flight as u16
    | 1 << EventField::Srtt as u16
    | 1 << EventField::Rto as u16;
/// The bits of the values that every segment has.
const SEGMENT: u16 = 1 << EventField::Seq as u16
    | 1 << EventField::Ack as u16
    | 1 << EventField::Len as u16
    | 1 << EventField::Flags as u16
    | 1 << EventField::Window as u16;
const VALUE: u16 = 1 << EventField::Value as u16;
const HAS_FLOW: u16 = 1 << 14;
const CE: u16 = 1 << 15;

impl Default for EventLog {
    fn default() -> EventLog {
        EventLog {
            rows: Vec::new(),
            numbers: Vec::new(),
            words: vec![Reason::Borrowed("")],
            places: BTreeMap::from([(Reason::Borrowed(""), 0)]),
            recent: [0; 512],
            asked: false,
        }
    }
}

impl EventLog {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row.
    pub fn push(&mut self, event: EventRow) {
        let numbers = self.numbers.len() as u64;
        // In the order of `EventField`.
        let fields = [
            event.seq,
            event.ack,
            event.len.map(u64::from),
            event.flags.map(|flags| flags.bits().into()),
            event.window.map(Bytes::get),
            event.cwnd.map(Bytes::get),
            event.ssthresh.map(Bytes::get),
            event.flight.map(Bytes::get),
            event.srtt.map(Dur::as_nanos),
            event.rto.map(Dur::as_nanos),
            event.value,
            event.asked.map(Bytes::get),
        ];
        self.asked |= event.asked.is_some();
        let mut has = 0;
        for (bit, field) in fields.into_iter().enumerate() {
            if let Some(number) = field {
                self.numbers.push(number);
                has |= 1 << bit;
            }
        }
        if event.flow.is_some() {
            has |= HAS_FLOW;
        }
        if event.ce {
            has |= CE;
        }
        let (at, host, flow, kind) = (event.at, event.host, event.flow.unwrap_or(0), event.kind);
        let recent = (kind as usize * 16 + event.why.len() % 16) % self.recent.len();
        if !same(&self.words[self.recent[recent] as usize], &event.why) {
            self.recent[recent] = self.place(event.why);
        }
        self.rows.push(Row { at, numbers, host, flow, why: self.recent[recent], has, kind });
    }

    fn place(&mut self, word: Reason) -> u32 {
        if let Some(place) = self.places.get(&word) {
            return *place;
        }
        let place = u32::try_from(self.words.len()).expect("fewer than 2^32 reasons");
        self.words.push(word.clone());
        self.places.insert(word, place);
        place
    }

    /// Row `row`.
    pub fn get(&self, row: usize) -> Option<EventRow> {
        self.rows.get(row).map(|row| self.event(*row))
    }

    /// Whether any row contains a window that a controller requested and that was clamped.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked
    }

    /// Copies row `row` to `into`, and returns false if there is none. A loop over a long log that needs one row at a time
    /// saves the moves of [`get`](EventLog::get): an event has 15 fields that may be absent.
    #[inline]
    pub fn read(&self, row: usize, into: &mut EventRow) -> bool {
        let found = self.rows.get(row);
        if let Some(row) = found {
            self.fill(row, into);
        }
        found.is_some()
    }

    /// The first position and the length of row `row`, 0 where it has none.
    pub fn range(&self, row: usize) -> (u64, u64) {
        let value = |field| self.number(row, field).unwrap_or(0);
        (value(EventField::Seq), value(EventField::Len))
    }

    /// The flags of row `row`, none where it has none.
    pub fn flags(&self, row: usize) -> Flags {
        let bits = self.number(row, EventField::Flags).unwrap_or(0);
        Flags::from_bits(u16::try_from(bits).expect("it was one"))
    }

    /// Every row.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EventRow> + ExactSizeIterator + '_ {
        self.rows.iter().map(|row| self.event(*row))
    }

    /// Calls `look` with every row, without the moves of [`iter`](EventLog::iter).
    pub fn each(&self, mut look: impl FnMut(&EventRow)) {
        let mut event = EventRow::new(Time::ZERO, 0, None, EventKind::App);
        for row in &self.rows {
            self.fill(row, &mut event);
            look(&event);
        }
    }

    /// The times of the rows.
    pub fn times(&self) -> impl ExactSizeIterator<Item = Time> + '_ {
        self.rows.iter().map(|row| row.at)
    }

    /// The kinds and flows of the rows.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = (EventKind, Option<u32>)> + '_ {
        self.rows.iter().map(|row| (row.kind, (row.has & HAS_FLOW != 0).then_some(row.flow)))
    }

    /// The reason of row `row`; empty when it has none.
    pub fn why(&self, row: usize) -> Option<&str> {
        self.rows.get(row).map(|row| self.words[row.why as usize].as_ref())
    }

    /// The index of the reason of each row in [`words`](EventLog::words).
    pub fn whys(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.rows.iter().map(|row| row.why as usize)
    }

    /// Every reason of the log once; the first one is empty.
    pub fn words(&self) -> &[Reason] {
        &self.words
    }

    /// The kind and the flow of row `row`.
    pub fn kind_of(&self, row: usize) -> Option<(EventKind, Option<u32>)> {
        self.rows.get(row).map(|row| (row.kind, (row.has & HAS_FLOW != 0).then_some(row.flow)))
    }

    /// The fields of row `row` that every event has. Panics if there is no such row.
    #[inline]
    pub fn head(&self, row: usize) -> EventHeader {
        let Row { at, host, flow, has, kind, .. } = self.rows[row];
        EventHeader { at, host, flow: (has & HAS_FLOW != 0).then_some(flow), kind, ce: has & CE != 0 }
    }

    /// A value of row `row`.
    #[inline]
    pub(crate) fn number(&self, row: usize, field: EventField) -> Option<u64> {
        let row = &self.rows[row];
        let bit = 1 << field as u16;
        (row.has & bit != 0).then(|| {
            let before = (row.has & (bit - 1)).count_ones() as usize;
            self.numbers[place(row.numbers) + before]
        })
    }

    fn event(&self, row: Row) -> EventRow {
        let mut event = EventRow::new(row.at, row.host, None, row.kind);
        self.fill(&row, &mut event);
        event
    }

    #[inline]
    fn fill(&self, row: &Row, into: &mut EventRow) {
        into.at = row.at;
        into.host = row.host;
        into.flow = (row.has & HAS_FLOW != 0).then_some(row.flow);
        into.kind = row.kind;
        match &self.words[row.why as usize] {
            Reason::Borrowed(constant) => into.why = Reason::Borrowed(constant),
            text @ Reason::Owned(_) => into.why.clone_from(text),
        }
        into.ce = row.has & CE != 0;
        let numbers = &self.numbers[place(row.numbers)..];
        let length = |len| u32::try_from(len).expect("it was one");
        let bits = |bits| Flags::from_bits(u16::try_from(bits).expect("it was one"));
        // Segments are half of the rows, and have the same values but for the last one.
        if row.has & !(VALUE | HAS_FLOW | CE) == SEGMENT
            && let Some((&[seq, ack, len, flags, window], rest)) = numbers.split_first_chunk()
        {
            (into.seq, into.ack, into.len) = (Some(seq), Some(ack), Some(length(len)));
            (into.flags, into.window) = (Some(bits(flags)), Some(Bytes::new(window)));
            (into.cwnd, into.ssthresh, into.flight, into.srtt, into.rto) = (None, None, None, None, None);
            into.value = if row.has & VALUE == 0 { None } else { rest.first().copied() };
            into.asked = None;
            return;
        }
        let mut numbers = numbers.iter().copied();
        // The values are read in the order of `EventField`.
        let mut next = |field| {
            let has = row.has & (1 << field as u16) != 0;
            has.then(|| numbers.next().expect("a number for each bit"))
        };
        into.seq = next(EventField::Seq);
        into.ack = next(EventField::Ack);
        into.len = next(EventField::Len).map(length);
        into.flags = next(EventField::Flags).map(bits);
        into.window = next(EventField::Window).map(Bytes::new);
        // Segments and calls of applications have none of these values.
        if row.has & SENDER == 0 {
            (into.cwnd, into.ssthresh, into.flight, into.srtt, into.rto) = (None, None, None, None, None);
        } else {
            into.cwnd = next(EventField::Cwnd).map(Bytes::new);
            into.ssthresh = next(EventField::Ssthresh).map(Bytes::new);
            into.flight = next(EventField::Flight).map(Bytes::new);
            into.srtt = next(EventField::Srtt).map(Dur::from_nanos);
            into.rto = next(EventField::Rto).map(Dur::from_nanos);
        }
        into.value = next(EventField::Value);
        into.asked = next(EventField::Asked).map(Bytes::new);
    }
}

/// The fields that every event has; see [`EventRow`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHeader {
    /// [`EventRow::at`].
    pub at: Time,
    /// [`EventRow::host`].
    pub host: u32,
    /// [`EventRow::flow`].
    pub flow: Option<u32>,
    /// [`EventRow::kind`].
    pub kind: EventKind,
    /// [`EventRow::ce`].
    pub ce: bool,
}

/// Whether two reasons are equal. Most are the same constant of the code; then no text is compared.
fn same(one: &Reason, other: &Reason) -> bool {
    std::ptr::eq::<str>(one.as_ref(), other.as_ref()) || one == other
}

fn place(number: u64) -> usize {
    usize::try_from(number).expect("it is in memory")
}

impl FromIterator<EventRow> for EventLog {
    fn from_iter<I: IntoIterator<Item = EventRow>>(events: I) -> EventLog {
        let mut log = EventLog::default();
        events.into_iter().for_each(|event| log.push(event));
        log
    }
}

impl From<Vec<EventRow>> for EventLog {
    fn from(events: Vec<EventRow>) -> EventLog {
        events.into_iter().collect()
    }
}

/// Two logs are equal when their rows are equal.
impl PartialEq for EventLog {
    fn eq(&self, other: &EventLog) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(why: &'static str) -> EventRow {
        let set = EventRow::new(Time::from_nanos(5), 1, Some(0), EventKind::TimerSet);
        EventRow { why: why.into(), value: Some(7), ..set }
    }

    #[test]
    fn a_row_takes_32_bytes_and_8_for_each_number() {
        assert_eq!(size_of::<Row>(), 32);
        let bare = EventRow::new(Time::ZERO, u32::MAX, None, EventKind::App);
        let log = EventLog::from(vec![bare, timer("Rto")]);
        assert_eq!((log.len(), log.numbers.len()), (2, 1));
        assert!(size_of::<EventRow>() > 3 * (32 + 3 * 8), "{} for an event", size_of::<EventRow>());
    }

    #[test]
    fn a_reason_is_stored_once_even_if_others_of_its_length_come_between() {
        let said = ["Rto", "Tlp", "Rto", "", "Tlp"];
        let log = EventLog::from(said.map(timer).to_vec());
        assert_eq!(log.words, ["", "Rto", "Tlp"]);
        let whys: Vec<_> = (0..said.len()).map(|row| log.why(row).expect("a row")).collect();
        assert_eq!(whys, said);
        assert_eq!((log.get(5), log.why(5)), (None, None));
        let mut row = timer("");
        assert!(log.read(1, &mut row) && !log.read(5, &mut row));
        assert_eq!(row, timer("Tlp"));
    }

    #[test]
    fn logs_are_equal_when_their_rows_are() {
        let (one, other) = (timer("Rto"), timer("Tlp"));
        let rows = |events: &[&EventRow]| events.iter().map(|e| (*e).clone()).collect::<EventLog>();
        assert_eq!(rows(&[&one, &other]), rows(&[&one, &other]));
        assert_ne!(rows(&[&one, &other]), rows(&[&other, &one]));
        assert_ne!(rows(&[&one]), rows(&[&one, &one]));
    }
}
