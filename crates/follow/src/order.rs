//! The order of calls and segments within an instant.

use crate::end::{Row, Substrate};
use tcpassay_units::Time;

/// A call of an application, and how many segments of the same instant the event log has before it.
pub(crate) struct Call {
    pub at: Time,
    pub row: Row,
    /// Segments that arrived at this instant before the call.
    pub arrived: usize,
    /// Segments that left at this instant before the call.
    pub left: usize,
    /// How many packets its host had seen before, of all connections; `None` if the log does not tell.
    pub before: Option<u64>,
}

/// The packets of an end and its calls in the order in which they happened. `seen`: for each packet, how many packets its host had seen before.
/// `None` if the log does not tell the place of each call.
pub(crate) fn placed(segments: &[(Time, Row)], seen: &[u64], calls: &[Call]) -> Option<Vec<(Time, Row)>> {
    if calls.is_empty() {
        return None;
    }
    let mut rows = Vec::with_capacity(segments.len() + calls.len());
    let mut next = 0;
    let mut latest = Time::ZERO;
    for call in calls {
        let before = call.before?;
        while next < segments.len() && seen[next] < before {
            latest = segments[next].0;
            rows.push(segments[next]);
            next += 1;
        }
        rows.push((call.at.max(latest), call.row));
    }
    rows.extend_from_slice(&segments[next..]);
    Some(rows)
}

/// Puts the calls between the segments. The packets of the model are in the order in which things happened. A kernel's are those of two
/// taps: of one instant its arrivals come first, then its calls, then what left.
pub(crate) fn ordered(
    substrate: Substrate,
    mut segments: Vec<(Time, Row)>,
    calls: &[Call],
) -> Vec<(Time, Row)> {
    if substrate == Substrate::Kernel {
        segments.sort_by_key(|(at, row)| (*at, !matches!(row, Row::In { .. })));
    }
    let mut rows = Vec::with_capacity(segments.len() + calls.len());
    let mut next = 0;
    let mut instant = (Time::ZERO, 0, 0);
    for call in calls {
        if instant.0 != call.at {
            instant = (call.at, 0, 0);
        }
        while let Some((at, row)) = segments.get(next) {
            let left = matches!(row, Row::Out { .. });
            let before = match substrate {
                _ if *at != call.at => *at < call.at,
                Substrate::Kernel => !left,
                Substrate::Model if left => instant.2 < call.left,
                Substrate::Model => instant.1 < call.arrived,
            };
            if !before {
                break;
            }
            if *at == call.at {
                instant.1 += usize::from(!left);
                instant.2 += usize::from(left);
            }
            rows.push((*at, *row));
            next += 1;
        }
        rows.push((call.at, call.row));
    }
    rows.extend_from_slice(&segments[next..]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Bytes;
    use tcpassay_wire::{Ecn, Segment};

    fn arrives(ns: u64) -> (Time, Row) {
        (Time::from_nanos(ns), Row::In { segment: Segment::default(), ecn: Ecn::NotEct, packets: 1, size: 0 })
    }

    fn leaves(ns: u64) -> (Time, Row) {
        (Time::from_nanos(ns), Row::Out { segment: Segment::default(), ecn: Ecn::NotEct })
    }

    fn read(ns: u64, arrived: usize, left: usize) -> Call {
        Call { at: Time::from_nanos(ns), row: Row::Read(Bytes::new(1)), arrived, left, before: None }
    }

    fn told(rows: &[(Time, Row)]) -> String {
        let letter = |(_, row): &(Time, Row)| match row {
            Row::In { .. } => 'i',
            Row::Out { .. } => 'o',
            _ => 'c',
        };
        rows.iter().map(letter).collect()
    }

    #[test]
    fn a_call_on_the_model_is_behind_the_segments_that_the_log_has_before_it() {
        let segments = || vec![arrives(5), leaves(5), leaves(5), arrives(9)];
        let rows = |arrived, left| told(&ordered(Substrate::Model, segments(), &[read(5, arrived, left)]));
        assert_eq!([rows(1, 0), rows(1, 1), rows(1, 2)], ["icooi", "iocoi", "iooci"]);
        assert_eq!(told(&ordered(Substrate::Model, segments(), &[read(7, 0, 0), read(9, 0, 0)])), "ioocci");
    }

    #[test]
    fn a_call_is_behind_as_many_packets_of_its_host_as_the_log_tells() {
        // The second packet of the host belongs to another connection.
        let segments = [arrives(5), leaves(5), arrives(5)];
        let at = |before| Call { before, ..read(5, 0, 0) };
        let rows = |calls: &[Call]| placed(&segments, &[0, 2, 3], calls).map(|rows| told(&rows));
        assert_eq!(rows(&[at(Some(1)), at(Some(3))]).as_deref(), Some("icoci"));
        assert_eq!(rows(&[at(Some(0)), at(Some(4))]).as_deref(), Some("cioic"));
        assert_eq!(rows(&[at(Some(1)), at(None)]), None);
        assert_eq!(rows(&[]), None);
    }

    #[test]
    fn calls_on_a_kernel_are_between_the_arrivals_and_the_departures_of_their_instant() {
        let segments = vec![leaves(5), arrives(5), arrives(5), leaves(7)];
        assert_eq!(told(&ordered(Substrate::Kernel, segments, &[read(5, 0, 0), read(8, 0, 0)])), "iicooc");
    }
}
