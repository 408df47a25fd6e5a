//! The transmissions and arrivals of each byte of a flow.

use super::segment::Segment;
use tcpassay_units::{Dur, Time};

/// The time of an event that does not occur.
pub(crate) const NEVER: Time = Time::from_nanos(u64::MAX);

/// A range of positions with the same transmissions and arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    /// Number of transmissions.
    pub sends: u32,
    /// Number of arrivals that the host accepted.
    pub arrivals: u32,
    /// Number of arrivals, also refused ones: PAWS refuses an original that its retransmission overtook.
    pub reached: u32,
    /// Time of the first transmission, or [`NEVER`].
    pub first_sent: Time,
    /// Time of the first retransmission, or [`NEVER`].
    pub first_again: Time,
    /// Time of the first arrival, or [`NEVER`].
    pub first_arrival: Time,
    /// Time at which it and all earlier data of the flow had arrived, or [`NEVER`].
    pub complete: Time,
}

const UNSEEN: Cell = Cell {
    sends: 0,
    arrivals: 0,
    reached: 0,
    first_sent: NEVER,
    first_again: NEVER,
    first_arrival: NEVER,
    complete: NEVER,
};

/// The transmissions and arrivals of each byte of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ledger {
    /// In ascending order; cell `i` is from `edges[i]` to before `edges[i + 1]`.
    edges: Vec<u64>,
    cells: Vec<Cell>,
}

impl Ledger {
    /// `sender`: segments of the half that sends the flow. `receiver`: segments of the half that receives it.
    pub fn new(sender: &[Segment], receiver: &[Segment]) -> Ledger {
        let sent = || sender.iter().filter(|s| s.sent && s.has_data());
        let come = || receiver.iter().filter(|s| !s.sent && s.has_data());
        let mut edges = Vec::new();
        for segment in sent().chain(come().filter(|s| !s.refused)) {
            // Most segments begin where the previous one ended, so that few ranges have to be merged.
            if edges.last() != Some(&segment.start) {
                edges.push(segment.start);
            }
            edges.push(segment.end);
        }
        sort(&mut edges);
        edges.dedup();
        let mut ledger = Ledger { cells: vec![UNSEEN; edges.len().saturating_sub(1)], edges };
        let mut near = 0;
        for segment in sent() {
            for cell in ledger.exactly(segment, &mut near) {
                cell.sends += 1;
                cell.first_sent = cell.first_sent.min(segment.at);
                if segment.again {
                    cell.first_again = cell.first_again.min(segment.at);
                }
            }
        }
        let mut near = 0;
        for segment in come() {
            if segment.refused {
                for cell in ledger.inside(segment) {
                    cell.reached += 1;
                }
                continue;
            }
            for cell in ledger.exactly(segment, &mut near) {
                cell.arrivals += 1;
                cell.reached += 1;
                cell.first_arrival = cell.first_arrival.min(segment.at);
            }
        }
        let mut complete = Time::ZERO;
        for cell in &mut ledger.cells {
            complete = complete.max(cell.first_arrival);
            cell.complete = complete;
        }
        ledger
    }

    /// The cells of a segment whose ends are edges. `near` is the index of an edge that is probably its first one.
    fn exactly(&mut self, segment: &Segment, near: &mut usize) -> &mut [Cell] {
        let low = self.edge(segment.start, *near);
        *near = self.edge(segment.end, low + 1);
        &mut self.cells[low..*near]
    }

    fn edge(&self, position: u64, near: usize) -> usize {
        if self.edges.get(near) == Some(&position) {
            return near;
        }
        self.edges.binary_search(&position).expect("the ends of segments are edges")
    }

    /// The cells that lie completely inside of a segment.
    fn inside(&mut self, segment: &Segment) -> &mut [Cell] {
        let low = self.edges.partition_point(|edge| *edge < segment.start);
        let high = self.edges.partition_point(|edge| *edge <= segment.end).saturating_sub(1);
        &mut self.cells[low.min(high)..high]
    }

    /// The cells that touch the positions from `start` to before `end`.
    pub fn cells(&self, start: u64, end: u64) -> &[Cell] {
        let first = self.edges.partition_point(|edge| *edge <= start).saturating_sub(1);
        let last = self.edges.partition_point(|edge| *edge < end).min(self.cells.len());
        &self.cells[first.min(last)..last]
    }

    /// All cells.
    pub fn all(&self) -> &[Cell] {
        &self.cells
    }

    /// Time at which all of the positions from `start` to before `end` had arrived for the first time, or [`NEVER`].
    pub fn arrived(&self, start: u64, end: u64) -> Time {
        self.cells(start, end).iter().map(|cell| cell.first_arrival).max().unwrap_or(NEVER)
    }

    /// Time at which all data before `position` had arrived: zero if there are none, [`NEVER`] if they did not arrive. `near` is the number of
    /// edges below a similar position, and is updated.
    pub fn reach(&self, position: u64, near: &mut usize) -> Time {
        let below = |edge: Option<&u64>| edge.is_none_or(|edge| *edge < position);
        // Most ACKs acknowledge the next one or two segments.
        if !below(near.checked_sub(1).and_then(|last| self.edges.get(last))) {
            *near = self.edges.partition_point(|edge| *edge < position);
        }
        while self.edges.get(*near).is_some_and(|edge| *edge < position) {
            *near += 1;
        }
        match near.checked_sub(1) {
            None => Time::ZERO,
            // The last edge begins no cell: data beyond it did not arrive.
            Some(cell) => self.cells.get(cell).map_or(NEVER, |cell| cell.complete),
        }
    }

    /// The position up to which all data had arrived at `time`, including arrivals at that time. `cells` is the number of cells that
    /// had arrived at an earlier time, and is updated.
    pub fn frontier(&self, time: Time, cells: &mut usize) -> u64 {
        while self.cells.get(*cells).is_some_and(|cell| cell.complete <= time) {
            *cells += 1;
        }
        self.edges.get(*cells).map_or(1, |edge| (*edge).max(1))
    }

    /// The position up to which all data arrived in the run; 0 without data.
    pub fn in_order(&self) -> u64 {
        let cells = self.cells.partition_point(|cell| cell.complete < NEVER);
        self.edges.get(cells).copied().unwrap_or(0)
    }

    /// The delays of what was sent once and arrived.
    pub fn delays_of_single_transmissions(&self) -> impl Iterator<Item = Dur> {
        let sure = self.cells.iter().filter(|cell| cell.sends == 1 && cell.arrivals > 0);
        sure.map(|cell| cell.first_arrival.since(cell.first_sent))
    }
}

#[expect(clippy::stable_sort_primitive, reason = "it merges the ascending runs, which these edges are")]
fn sort(edges: &mut [u64]) {
    edges.sort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_wire::Flags;

    fn segment(ms: u64, sent: bool, again: bool, (start, end): (u64, u64)) -> Segment {
        Segment {
            row: 0,
            place: 0,
            at: Time::from_nanos(ms),
            sent,
            again,
            refused: false,
            flags: Flags::ACK,
            start,
            end,
            ack: 1,
            una: 1,
            nxt: end,
            acked_out: 1,
        }
    }

    /// 1..101 is lost and sent again, 101..301 arrives first, 301..401 is refused.
    fn ledger() -> Ledger {
        let sender = [
            segment(1, true, false, (1, 101)),
            segment(2, true, false, (101, 301)),
            segment(3, true, false, (301, 401)),
            segment(30, true, true, (1, 101)),
        ];
        let refused = Segment { refused: true, ..segment(13, false, false, (301, 401)) };
        let receiver = [segment(12, false, false, (101, 301)), refused, segment(40, false, false, (1, 101))];
        Ledger::new(&sender, &receiver)
    }

    #[test]
    fn a_cell_has_its_transmissions_and_arrivals() {
        let ledger = ledger();
        let counts: Vec<_> = ledger.all().iter().map(|c| (c.sends, c.arrivals, c.reached)).collect();
        assert_eq!(counts, [(2, 1, 1), (1, 1, 1), (1, 0, 1)]);
        assert_eq!(ledger.cells(1, 2), &ledger.all()[..1]);
        assert_eq!(ledger.cells(100, 102), &ledger.all()[..2]);
        assert_eq!(ledger.cells(401, 500), &[]);
        assert_eq!(ledger.all()[0].first_again, Time::from_nanos(30));
        assert_eq!(ledger.delays_of_single_transmissions().collect::<Vec<_>>(), [Dur::from_nanos(10)]);
    }

    #[test]
    fn data_are_complete_when_all_before_them_have_arrived() {
        let ledger = ledger();
        let mut near = 0;
        let reached = [1, 301, 302, 500, 301, 1].map(|position| ledger.reach(position, &mut near));
        let repaired = Time::from_nanos(40);
        assert_eq!(reached, [Time::ZERO, repaired, NEVER, NEVER, repaired, Time::ZERO]);
        let mut cells = 0;
        let frontiers = [11, 39, 40, 99].map(|t| ledger.frontier(Time::from_nanos(t), &mut cells));
        assert_eq!(frontiers, [1, 1, 301, 301]);
        assert_eq!(ledger.in_order(), 301);
        assert_eq!(ledger.arrived(1, 301), Time::from_nanos(40));
        assert_eq!(ledger.arrived(1, 302), NEVER);
    }

    #[test]
    fn without_segments_nothing_is_known() {
        let ledger = Ledger::new(&[], &[]);
        assert_eq!(
            (ledger.reach(7, &mut 0), ledger.frontier(Time::ZERO, &mut 0), ledger.in_order()),
            (Time::ZERO, 1, 0)
        );
        assert!(ledger.cells(1, 9).is_empty());
    }
}
