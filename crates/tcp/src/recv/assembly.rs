//! Data out of order, as ranges of stream positions, and the blocks that the next SACK option reports.
//!
//! RFC 2018 section 4: the first block holds the segment that arrived last, the others repeat the most recently reported
//! ones. RFC 2883: a duplicate is reported once, as the first block of the next ACK.
//!
//! Known difference from both: like Linux, a block that was pushed out of the option by newer ones is not reported
//! again when those are filled (`tcp_sack_new_ofo_skb` keeps four).

use crate::messages::Span;
use arrayvec::ArrayVec;
use std::collections::VecDeque;

/// Out-of-order ranges above the next expected position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembly {
    /// Sorted; no two touch.
    ranges: VecDeque<Span>,
    /// Ranges of the set in the order in which SACK reports them.
    recent: ArrayVec<Span, 4>,
    /// True as in Linux: a block grows by arriving data and by other blocks (`tcp_sack_new_ofo_skb`), and
    /// data that begin at the end of a range are appended without a check of the next range
    /// (`tcp_ooo_try_coalesce`). If false, a block is the whole range, even if a part of it was dropped from
    /// the option, and every duplicate is detected.
    linux: bool,
}

impl Assembly {
    pub(crate) fn new(linux: bool) -> Assembly {
        Assembly { linux, ..Assembly::default() }
    }

    /// Removes all ranges and blocks.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.recent.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Blocks to report, most recent first.
    pub(crate) fn blocks(&self) -> &ArrayVec<Span, 4> {
        &self.recent
    }

    /// Sets the ranges that are reported, independently of those that are kept.
    pub(crate) fn report(&mut self, blocks: ArrayVec<Span, 4>) {
        self.recent = blocks;
    }

    /// Whether `span` changes the third block or a later one, or begins a block beside two or more (`tcp_sack_new_ofo_skb`,
    /// `TCP_SACK_BLOCKS_EXPECTED`).
    pub(crate) fn crowds(&self, span: &Span) -> bool {
        let touches = |r: &Span| r.end >= span.start && span.end >= r.start;
        self.recent.iter().position(touches).unwrap_or(self.recent.len()) >= 2
    }

    /// The ranges that are reported, of which the first that `span` touches has grown by it, before it becomes the first one or merges with
    /// others (`tcp_sack_extend`).
    pub(crate) fn blocks_with(&self, span: &Span) -> ArrayVec<Span, 4> {
        let mut blocks = self.recent.clone();
        if let Some(block) = blocks.iter_mut().find(|r| r.end >= span.start && span.end >= r.start) {
            *block = block.start.min(span.start)..block.end.max(span.end);
        }
        blocks
    }

    /// Adds a range. Returns the first part of it that was received before (RFC 2883), if any.
    pub(crate) fn insert(&mut self, span: Span) -> Option<Span> {
        debug_assert!(span.start < span.end, "an empty range");
        if self.extends_latest(&span) {
            return None;
        }
        // Ranges in [first, last) overlap or touch the new one.
        let first = self.ranges.partition_point(|r| r.end < span.start);
        let mut last = first;
        let mut whole = span.clone();
        let mut duplicate = None;
        while let Some(r) = self.ranges.get(last) {
            if r.start > span.end {
                break;
            }
            let overlap = r.start.max(span.start)..r.end.min(span.end);
            if duplicate.is_none() && overlap.start < overlap.end {
                duplicate = Some(overlap);
            }
            whole = whole.start.min(r.start)..whole.end.max(r.end);
            last += 1;
        }
        if self.linux && self.ranges.get(first).is_some_and(|r| r.end == span.start) {
            duplicate = None;
        }
        let block = if self.linux { self.grown(span) } else { whole.clone() };
        if last == first {
            self.ranges.insert(first, whole);
        } else {
            self.ranges[first] = whole;
            self.ranges.drain(first + 1..last);
        }
        self.recent.retain(|r| r.end < block.start || block.end < r.start);
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, block);
        duplicate
    }

    /// The usual case of [`Assembly::insert`], data behind a hole that arrive in order: `span` begins at the end of the highest range and
    /// of the block that is reported first, and touches nothing else. Returns false, and changes nothing, in all other cases.
    #[inline]
    fn extends_latest(&mut self, span: &Span) -> bool {
        let (Some(range), Some((block, others))) = (self.ranges.back_mut(), self.recent.split_first_mut())
        else {
            return false;
        };
        let follows = range.end == span.start && block.end == span.start;
        // Linux reports blocks that may be parts of their ranges.
        let alone = others.iter().all(|r| r.end < block.start || span.end < r.start);
        if !follows || !alone || !self.linux && block.start != range.start {
            return false;
        }
        (range.end, block.end) = (span.end, span.end);
        true
    }

    /// `span` and the blocks that overlap or touch it, and those that then do.
    fn grown(&self, mut span: Span) -> Span {
        let mut others = self.recent.clone();
        loop {
            let before = others.len();
            others.retain(|r| {
                let apart = r.end < span.start || span.end < r.start;
                if !apart {
                    span = span.start.min(r.start)..span.end.max(r.end);
                }
                apart
            });
            if others.len() == before {
                return span;
            }
        }
    }

    /// Removes all ranges and blocks from position `from` on (`tcp_prune_ofo_queue`).
    pub(crate) fn cut(&mut self, from: u64) {
        if from == u64::MAX {
            return;
        }
        self.ranges.retain_mut(|r| {
            r.end = r.end.min(from);
            r.start < r.end
        });
        self.recent.clear();
    }

    /// The part of the first range below `end`, which data that arrived in order repeat (RFC 2883;
    /// `tcp_ofo_queue` of Linux).
    pub(crate) fn first_before(&self, end: u64) -> Option<Span> {
        let first = self.ranges.front().filter(|r| r.start < end)?;
        Some(first.start..first.end.min(end))
    }

    /// The next expected position rose to `nxt`: removes what is now in order and returns the position after it.
    pub(crate) fn advance(&mut self, mut nxt: u64) -> u64 {
        if self.ranges.is_empty() {
            return nxt;
        }
        while let Some(r) = self.ranges.front() {
            if r.start > nxt {
                break;
            }
            nxt = nxt.max(r.end);
            self.ranges.pop_front();
        }
        self.recent.retain(|r| r.start > nxt);
        nxt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn blocks(a: &Assembly) -> Vec<Span> {
        a.blocks().iter().cloned().collect()
    }

    #[test]
    fn the_first_block_holds_the_segment_that_arrived_last() {
        let mut a = Assembly::default();
        assert_eq!(a.insert(20..30), None);
        assert_eq!(a.insert(60..70), None);
        assert_eq!(a.insert(40..50), None);
        assert_eq!(blocks(&a), [40..50, 60..70, 20..30]);
        assert_eq!(a.insert(30..40), None);
        assert_eq!(blocks(&a), [20..50, 60..70]);
    }

    #[test]
    fn a_fifth_block_pushes_the_oldest_report_out() {
        let mut a = Assembly::default();
        for i in 1..=5 {
            a.insert(i * 10..i * 10 + 5);
        }
        assert_eq!(blocks(&a), [50..55, 40..45, 30..35, 20..25]);
    }

    #[test]
    fn a_third_block_and_what_extends_it_are_urgent_and_what_extends_the_first_two_is_not() {
        let mut a = Assembly::new(true);
        let crowded = [10, 30, 50, 55, 35, 15].map(|at| {
            let crowds = a.crowds(&(at..at + 5));
            a.insert(at..at + 5);
            crowds
        });
        // The last three: the first block, the second one, and the third one.
        assert_eq!(crowded, [false, false, true, false, false, true]);
    }

    #[test]
    fn filling_the_gap_gives_everything_up_to_the_next_gap() {
        let mut a = Assembly::default();
        a.insert(20..30);
        a.insert(40..50);
        assert_eq!(a.advance(20), 30);
        assert_eq!(blocks(&a), std::slice::from_ref(&(40..50)));
        assert_eq!(a.advance(45), 50);
        assert!(a.is_empty());
    }

    #[test]
    fn the_part_that_was_there_already_is_named() {
        let mut a = Assembly::default();
        a.insert(20..30);
        assert_eq!(a.insert(25..35), Some(25..30));
        assert_eq!(a.insert(20..35), Some(20..35));
    }

    #[test]
    fn linux_appends_to_a_range_without_a_check_of_the_next() {
        for (linux, reported) in [(false, Some(50..60)), (true, None)] {
            let mut a = Assembly::new(linux);
            a.insert(30..40);
            a.insert(50..60);
            assert_eq!(a.insert(40..60), reported);
            assert_eq!(blocks(&a), std::slice::from_ref(&(30..60)));
        }
    }

    #[test]
    fn a_block_of_linux_does_not_grow_by_what_was_pushed_out() {
        for (linux, first) in [(false, 10..25), (true, 15..25)] {
            let mut a = Assembly::new(linux);
            for i in 1..=5 {
                a.insert(i * 10..i * 10 + 5);
            }
            // 10..15 is no block any more, 20..25 is one.
            a.insert(15..20);
            assert_eq!(blocks(&a)[0], first);
        }
    }

    proptest! {
        #[test]
        fn the_ranges_are_the_set_of_positions_that_arrived(
            spans in prop::collection::vec((0u64..200, 1u64..20), 1..60), cut in 0u64..220,
        ) {
            let mut a = Assembly::default();
            let mut set = BTreeSet::new();
            for (start, len) in spans {
                a.insert(start..start + len);
                set.extend(start..start + len);
                for b in a.blocks() {
                    prop_assert!(a.ranges.contains(b));
                }
            }
            let flat: Vec<u64> = a.ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(flat, set.iter().copied().collect::<Vec<_>>());
            let nxt = a.advance(cut);
            let mut want = cut;
            while set.contains(&want) {
                want += 1;
            }
            prop_assert_eq!(nxt, want);
            prop_assert!(a.ranges.iter().all(|r| r.start > nxt));
        }
    }
}
