//! The order of the packets of one instant, which a capture of two taps or a coarse clock does not keep.

use super::packet::CapturedPacket;
use std::collections::BTreeMap;
use tcpassay_units::SeqNum;
use tcpassay_wire::{Flags, SackBlock, Segment};

/// Linux takes timestamps that are older by this (`TCP_PAWS_WINDOW`).
const PAWS: u32 = 1;
/// In instants with more packets the number of answers does not count.
const MANY: usize = 256;

/// The positions of one direction that have passed, from its SYN on.
#[derive(Clone, Default, Debug)]
pub(super) struct Stream {
    initial: Option<SeqNum>,
    /// Everything before it has passed.
    end: u64,
    /// Ranges behind it, by their begin.
    later: BTreeMap<u64, u64>,
    /// TS.Recent (RFC 7323 section 4.3), and the first and the last position of the last segment.
    stamp: Option<u32>,
    last: Option<(SeqNum, SeqNum)>,
    /// Its SYN permits SACK.
    sack: bool,
    /// The last ACK field of the other direction, and up to where its data have left.
    pub acked: Option<SeqNum>,
    left: Option<SeqNum>,
}

impl Stream {
    /// A segment of this direction passes. Linux drops data that are too old.
    pub fn passes(&mut self, segment: &Segment) {
        if segment.len > 0 && self.is_old(segment) {
            self.last = Some((segment.seq, segment.end()));
            return;
        }
        if let Some(stamps) = segment.options.timestamps {
            let latest = self.stamp.get_or_insert(stamps.val);
            let counts = self.acked.is_some_and(|acked| segment.seq.distance(acked) <= 0);
            if counts && is_later(stamps.val, *latest) {
                *latest = stamps.val;
            }
        }
        self.last = Some((segment.seq, segment.end()));
        let first = *self.initial.get_or_insert(segment.seq);
        let flags = segment.flags;
        self.sack |= segment.options.sack_permitted;
        let positions = segment.len + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        let Some(start) = segment.seq.unwrap_near(first, self.end) else { return };
        let last = self.later.entry(start).or_insert(start);
        *last = (*last).max(start + u64::from(positions));
        while let Some(range) = self.later.first_entry().filter(|range| *range.key() <= self.end) {
            self.end = self.end.max(range.remove());
        }
    }

    /// How much of what `number` acknowledges has not passed.
    pub fn lacks(&self, number: SeqNum) -> u64 {
        let Some(first) = self.initial else { return 0 };
        number.unwrap_near(first, self.end).map_or(0, |position| position.saturating_sub(self.end))
    }

    /// Whether the positions up to `number`, which is behind a gap, have passed.
    fn has(&self, number: SeqNum) -> bool {
        let position = self.initial.and_then(|first| number.unwrap_near(first, self.end)).unwrap_or(0);
        position <= self.end || self.later.values().any(|end| *end >= position)
    }

    /// Whether an answer may report what has passed: its ACK field, its SACK blocks and its echo of a timestamp.
    pub fn explains(&self, answer: &Segment) -> bool {
        let echo = answer.options.timestamps.zip(self.stamp);
        self.lacks(answer.ack) == 0
            && answer.options.sack.iter().all(|block| self.has(block.end))
            && echo.is_none_or(|(echo, stamp)| !is_later(echo.ecr, stamp))
    }

    /// Whether a segment has to be answered at once: it is out of order, fills a gap, repeats what has passed, or is too old.
    fn demands(&self, segment: &Segment) -> bool {
        let start = self.initial.and_then(|first| segment.seq.unwrap_near(first, self.end));
        segment.len > 0 && (start != Some(self.end) || !self.later.is_empty() || self.is_old(segment))
    }

    /// Whether the timestamp of a segment is older than what Linux takes.
    fn is_old(&self, segment: &Segment) -> bool {
        let stamps = segment.options.timestamps.zip(self.stamp);
        stamps.is_some_and(|(one, latest)| is_later(latest, one.val.wrapping_add(PAWS)))
    }

    /// Whether an answer may have left when nothing but this segment had passed in addition: it acknowledges as much, and if the segment is
    /// behind a gap, it reports that.
    fn is_told(&self, segment: &Segment, answer: &Segment) -> bool {
        let Some(first) = self.initial else { return false };
        let position = |number: SeqNum| number.unwrap_near(first, self.end);
        let gap = position(segment.seq).is_some_and(|start| start > self.end);
        let told = answer
            .options
            .sack
            .iter()
            .any(|block| covers((block.start, block.end), (segment.seq, segment.end())));
        position(answer.ack) == Some(self.end) && (!gap || told || !self.sack)
    }
}

/// Whether a packet repeats the data of another one.
fn is_copy(one: &CapturedPacket, other: &CapturedPacket) -> bool {
    one.segment.len > 0 && one.segment.seq == other.segment.seq
}

/// Whether a timestamp is later than another one.
fn is_later(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// The range that an answer reports to have arrived twice (RFC 2883).
fn repeated(answer: &Segment) -> Option<(SeqNum, SeqNum)> {
    let mut blocks = answer.options.sack.iter();
    let first = blocks.next()?;
    let inside =
        |block: &SackBlock| first.start.distance(block.start) >= 0 && first.end.distance(block.end) <= 0;
    let old = first.start.distance(answer.ack) < 0 || blocks.next().is_some_and(inside);
    old.then_some((first.start, first.end))
}

/// Whether a segment was processed after an answer left: it has the next data in order, which the answer does not acknowledge, or a newer
/// timestamp than the answer echoes. Timestamps are taken up to the ACK field that left before (RFC 7323 section 4.3); data with an old one are
/// answered and dropped.
fn is_behind(segment: &Segment, answer: &Segment, arrived: &Stream) -> bool {
    let old = arrived.is_old(segment);
    let unread = segment.len > 0 && segment.end().distance(answer.ack) > 0 && !old;
    let begins = |number: SeqNum| segment.seq.distance(number) <= 0;
    let counts = arrived.acked.is_some_and(|acked| begins(acked) && segment.end().distance(acked) >= 0);
    let stamps = segment.options.timestamps.zip(answer.options.timestamps);
    // What is sent again is an answer to what arrived.
    let new = arrived.left.is_none_or(|left| answer.seq.distance(left) >= 0);
    let counts = counts && new;
    unread && begins(answer.ack)
        || counts && stamps.is_some_and(|(stamp, echo)| is_later(stamp.val, echo.ecr))
}

/// Whether a segment has a range.
fn covers(segment: (SeqNum, SeqNum), range: (SeqNum, SeqNum)) -> bool {
    segment.0.distance(range.0) <= 0 && segment.1.distance(range.1) >= 0
}

/// Puts the packets of one instant in order: what arrived comes first, because it may be the cause of what left, but not what arrived after the
/// data that a segment acknowledges. `arrived`: what has arrived before, and at the end what has arrived.
pub(super) fn order(instant: &mut [CapturedPacket], arrived: &mut Stream) {
    instant.sort_by_key(|packet| packet.sent);
    let left = instant.partition_point(|packet| !packet.sent);
    let mut made = Vec::with_capacity(instant.len());
    let mut waiting = &instant[..left];
    for (number, sent) in instant[left..].iter().enumerate() {
        if sent.segment.flags.has(Flags::ACK) {
            let answers = if instant.len() <= MANY { &instant[left + number..] } else { &[] };
            let taken = causes(waiting, &sent.segment, answers, arrived);
            made.extend_from_slice(&waiting[..taken]);
            waiting = &waiting[taken..];
            arrived.acked = Some(sent.segment.ack);
            let end = sent.segment.end();
            arrived.left = arrived.left.filter(|left| left.distance(end) > 0).or(Some(end));
        }
        made.push(*sent);
    }
    for packet in waiting {
        arrived.passes(&packet.segment);
    }
    made.extend_from_slice(waiting);
    instant.copy_from_slice(&made);
}

/// After how many of the packets that arrived an answer was sent. They pass `arrived`. `answers`: it and what leaves after it in the same
/// instant; empty if these are too many.
fn causes(
    waiting: &[CapturedPacket],
    answer: &Segment,
    answers: &[CapturedPacket],
    arrived: &mut Stream,
) -> usize {
    let (mut taken, mut demanded) = (0, false);
    while taken < waiting.len() && !arrived.explains(answer) {
        demanded |= arrived.demands(&waiting[taken].segment);
        arrived.passes(&waiting[taken].segment);
        taken += 1;
    }
    let is_copied = |range| move |segment: &Segment| covers((segment.seq, segment.end()), range);
    if let Some(range) = repeated(answer)
        && !arrived.last.is_some_and(|last| covers(last, range))
        && let Some(copy) = waiting[taken..].iter().position(|packet| is_copied(range)(&packet.segment))
    {
        waiting[taken..=taken + copy].iter().for_each(|packet| arrived.passes(&packet.segment));
        (taken, demanded) = (taken + copy + 1, true);
    }
    let rest = &waiting[taken..];
    let more = match waiting[..taken].last() {
        None => {
            rest.iter().position(|packet| is_behind(&packet.segment, answer, arrived)).unwrap_or(rest.len())
        }
        Some(cause) => {
            // Of copies of the data after all if there are fewer answers than copies.
            let copies = rest.iter().take_while(|packet| is_copy(packet, cause)).count();
            let same = answers.iter().filter(|one| one.segment.ack == answer.ack).count();
            if (1..=copies).contains(&same) {
                copies
            } else if demanded || answers.is_empty() {
                0
            } else {
                next_demand(rest, answer, answers.len(), arrived)
            }
        }
    };
    rest[..more].iter().for_each(|packet| arrived.passes(&packet.segment));
    taken + more
}

/// Behind which of the packets that arrived an answer left if as many of them have to be answered at once as there are answers: the first of
/// those, or before all of them.
fn next_demand(rest: &[CapturedPacket], answer: &Segment, answers: usize, arrived: &Stream) -> usize {
    let mut then = arrived.clone();
    let (mut first, mut demands) = (None, 0);
    for (place, packet) in rest.iter().enumerate() {
        let demanding = then.demands(&packet.segment);
        then.passes(&packet.segment);
        demands += usize::from(demanding);
        if demanding && first.is_none() {
            first = Some(place + 1).filter(|_| then.is_told(&packet.segment, answer));
            if first.is_none() {
                return 0;
            }
        }
    }
    first.filter(|_| demands >= answers).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::Time;
    use tcpassay_wire::{Ecn, Timestamps};

    fn packet(sent: bool, segment: Segment) -> CapturedPacket {
        CapturedPacket {
            at: Time::ZERO,
            frame: 0,
            sent,
            segment,
            ecn: Ecn::NotEct,
            cut: false,
            layouts: [true; 2],
        }
    }

    /// Data that arrive, with a timestamp.
    fn data(seq: u32, len: u32, val: u32) -> CapturedPacket {
        let mut segment = Segment { seq: SeqNum::new(seq), len, flags: Flags::ACK, ..Segment::default() };
        segment.options.timestamps = Some(Timestamps { val, ecr: 0 });
        packet(false, segment)
    }

    /// An answer with its echo and SACK blocks.
    fn answer(ack: u32, ecr: u32, blocks: &[(u32, u32)]) -> CapturedPacket {
        let mut segment = Segment { ack: SeqNum::new(ack), flags: Flags::ACK, ..Segment::default() };
        segment.options.timestamps = Some(Timestamps { val: 0, ecr });
        let block =
            |&(start, end): &(u32, u32)| SackBlock { start: SeqNum::new(start), end: SeqNum::new(end) };
        segment.options.sack = blocks.iter().map(block).collect();
        packet(true, segment)
    }

    /// The order of an instant after a SYN with the number 0, by the positions before.
    fn ordered(sack: bool, packets: &[CapturedPacket]) -> Vec<usize> {
        let mut syn = Segment { flags: Flags::SYN, ..Segment::default() };
        syn.options.sack_permitted = sack;
        syn.options.timestamps = Some(Timestamps { val: 1, ecr: 0 });
        let mut arrived = Stream::default();
        arrived.passes(&syn);
        arrived.acked = Some(SeqNum::new(1));
        let mut all = packets.to_vec();
        for (frame, packet) in all.iter_mut().enumerate() {
            packet.frame = frame as u64;
        }
        order(&mut all, &mut arrived);
        all.iter().map(|packet| usize::try_from(packet.frame).expect("few packets")).collect()
    }

    #[test]
    fn an_answer_follows_the_data_that_fill_the_gap_below_its_ack_field() {
        // What arrived is 1..101 last, so that 301 can be acknowledged after both only.
        let packets = [answer(301, 1, &[]), data(101, 200, 1), data(1, 100, 1), data(301, 100, 1)];
        assert_eq!(ordered(true, &packets), [1, 2, 0, 3]);
    }

    #[test]
    fn an_answer_follows_the_data_of_its_sack_blocks_and_the_timestamp_of_its_echo() {
        let packets =
            [answer(1, 1, &[(201, 301)]), answer(101, 7, &[(201, 301)]), data(201, 100, 5), data(1, 100, 7)];
        assert_eq!(ordered(true, &packets), [2, 0, 3, 1]);
    }

    #[test]
    fn new_data_with_an_older_echo_left_before_an_ack_with_a_newer_timestamp_and_retransmissions_did_not() {
        let mut new = answer(1, 1, &[]);
        new.segment.len = 100;
        let update = data(1, 0, 9);
        assert_eq!(ordered(true, &[update, new]), [1, 0]);
        // The second one is sent again.
        assert_eq!(ordered(true, &[update, new, new]), [1, 0, 2]);
    }

    #[test]
    fn without_sack_as_many_answers_as_arrivals_out_of_order_left_one_after_each() {
        let packets =
            [answer(101, 1, &[]), answer(401, 1, &[]), data(1, 100, 1), data(201, 200, 1), data(101, 100, 1)];
        assert_eq!(ordered(false, &packets), [2, 3, 0, 4, 1]);
        assert_eq!(ordered(true, &packets), [2, 0, 3, 4, 1], "with SACK the first answer had reported it");
    }

    #[test]
    fn data_that_fail_paws_are_answered_and_do_not_count() {
        let packets = [answer(101, 9, &[]), data(1, 100, 9), data(101, 100, 3)];
        assert_eq!(ordered(true, &packets), [1, 2, 0]);
        let packets = [answer(101, 9, &[]), data(1, 100, 9), data(101, 100, 8)];
        assert_eq!(ordered(true, &packets), [1, 0, 2], "Linux takes timestamps that are older by one");
    }
}
