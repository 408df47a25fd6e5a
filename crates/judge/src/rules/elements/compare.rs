//! The difference between what an element did and what its rule says.

use super::element::{CE, Effect, NOT_ECT};
use tcpassay_measure::{DropReason, ElementEvent, ElementPacket, ElementRow};
use tcpassay_units::Time;

pub(super) const MISSING: &str = "an element of the case is missing";
pub(super) const ASTRAY: &str = "a packet does not continue on its way as it left an element";
pub(super) const MISCOUNTED: &str = "a counter of the recording differs from what happened";
const EARLY: &str = "an element acts before its rule permits it";
const LATE: &str = "an element does not act when its rule requires it";
const ORDER: &str = "an element serves packets in a wrong order";
const DROPPED: &str = "an element drops a packet against its rule";
const KEPT: &str = "an element does not drop a packet as its rule requires";
const MARKED: &str = "an element marks a packet against its rule";
const UNMARKED: &str = "an element does not mark a packet as its rule requires";
const CHANGED: &str = "an element changes a packet against its rule";

/// A difference.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub title: &'static str,
    /// What the rule says.
    expected: Option<Effect>,
    /// When the rule says it, where that is not the time of the row.
    at: Option<Time>,
    /// Whether the row shows another event than the expected one.
    other: bool,
}

impl Mismatch {
    /// What the element should have done at `at` is not in the log.
    pub fn absent(expected: Effect, at: Time) -> Mismatch {
        let title = match expected.event {
            ElementEvent::Dropped(_) => KEPT,
            ElementEvent::Marked => UNMARKED,
            ElementEvent::Arrived | ElementEvent::Began | ElementEvent::Departed => LATE,
        };
        Mismatch { title, expected: Some(expected), at: Some(at), other: false }
    }

    /// The text of the finding.
    pub fn text(&self, name: &str, row: &ElementRow) -> String {
        let rule = self.expected.map(|effect| describe(effect.event, &effect.packet));
        match (self.other, rule, self.at) {
            (true, Some(rule), _) => {
                format!(
                    "At {} the element `{name}` does: {}. By its rule it does: {rule}.",
                    row.at,
                    describe(row.event, &row.packet)
                )
            }
            (true, None, Some(due)) => {
                format!(
                    "At {} the element `{name}` does: {}. By its rule it does nothing before {due}.",
                    row.at,
                    describe(row.event, &row.packet)
                )
            }
            (true, None, None) => {
                format!(
                    "At {} the element `{name}` does: {}. By its rule it does nothing.",
                    row.at,
                    describe(row.event, &row.packet)
                )
            }
            (false, rule, at) => format!(
                "By the rule of the element `{name}` it does at {}: {}. By {} it has not done so.",
                at.unwrap_or(row.at),
                rule.unwrap_or_default(),
                row.at
            ),
        }
    }
}

/// Whether a row is exactly what the rule says, as most rows are.
#[inline]
pub(super) fn is_the_same(expected: &Effect, row: &ElementRow) -> bool {
    expected.known && expected.event == row.event && expected.packet == row.packet
}

/// Compares a row with what the rule says; `due`: when the rule says that the element acts next.
pub(super) fn compare(expected: Option<Effect>, row: &ElementRow, due: Option<Time>) -> Option<Mismatch> {
    let Some(expected) = expected else {
        let title = match row.event {
            ElementEvent::Dropped(_) => DROPPED,
            ElementEvent::Marked => MARKED,
            ElementEvent::Arrived | ElementEvent::Began | ElementEvent::Departed => EARLY,
        };
        return Some(Mismatch { title, expected: None, at: due, other: true });
    };
    let title = title(&expected, row)?;
    Some(Mismatch { title, expected: Some(expected), at: None, other: true })
}

/// The kind of difference, if there is one.
fn title(expected: &Effect, row: &ElementRow) -> Option<&'static str> {
    use ElementEvent::{Dropped, Marked};
    match (expected.event, row.event) {
        (wanted, is) if wanted == is => {}
        (Dropped(_), Dropped(_)) => return Some(CHANGED),
        (_, Dropped(_)) => return Some(DROPPED),
        (Dropped(_), _) => return Some(KEPT),
        (_, Marked) => return Some(MARKED),
        (Marked, _) => return Some(UNMARKED),
        _ => return Some(ORDER),
    }
    let (a, b) = (&expected.packet, &row.packet);
    let same_packet = if expected.known { a.id == b.id } else { (a.flow, a.src) == (b.flow, b.src) };
    if !same_packet {
        return Some(ORDER);
    }
    if contents(a) == contents(b) {
        return None;
    }
    let only_mark = contents(&ElementPacket { ecn: 0, ..*a }) == contents(&ElementPacket { ecn: 0, ..*b });
    Some(match (only_mark, b.ecn == CE) {
        (true, true) => MARKED,
        (true, false) if a.ecn == CE => UNMARKED,
        _ => CHANGED,
    })
}

/// The contents of which a packet consists. The size of its parts matters only inside of elements.
fn contents(packet: &ElementPacket) -> ElementPacket {
    let mss = if packet.segs > 1 { packet.mss } else { 0 };
    ElementPacket { id: 0, mss, ..*packet }
}

pub(super) fn describe(event: ElementEvent, packet: &ElementPacket) -> String {
    let what = match event {
        ElementEvent::Arrived => "receives",
        ElementEvent::Began => "begins to process",
        ElementEvent::Departed => "delivers",
        ElementEvent::Marked => "marks",
        ElementEvent::Dropped(why) => match why {
            DropReason::Full => "drops (full)",
            DropReason::Early => "drops (early)",
            DropReason::Loss => "loses",
            DropReason::Policed => "drops (policed)",
            DropReason::Thinned => "drops (thinned)",
            DropReason::Checksum => "drops (checksum)",
            DropReason::Ring => "drops (ring)",
        },
    };
    let ecn = match packet.ecn {
        NOT_ECT => "",
        CE => ", CE",
        _ => ", ECN-capable",
    };
    let (size, segs, seq, len) = (packet.size, packet.segs, packet.seq, packet.len);
    let flags = tcpassay_wire::Flags::from_bits(packet.flags);
    format!(
        "{what} packet {} of flow {} ({size} bytes, {segs} on the wire, sequence number {seq}, {len} bytes of data, {flags:?}{ecn})",
        packet.id, packet.flow
    )
}
