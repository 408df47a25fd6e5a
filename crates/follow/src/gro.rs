//! What a stack received from a NIC that merges packets: the packets, and the lengths of the segments that the stack processed.

use crate::end::Row;
use tcpassay_units::Time;
use tcpassay_wire::{Ecn, Flags, Segment};

/// A packet that arrived, and whether a segment contains it.
struct Packet {
    at: Time,
    segment: Segment,
    ecn: Ecn,
    used: bool,
}

/// Replaces packets by the merged segments that contain them. `merged`: when the stack processed a segment with payload, and its length, in
/// order of time; `opened`: when a server's connection was established. The segment that does so is not among `merged`, because the kernel
/// tells only those of established connections (`tcp_rcv_established`). A packet that no segment contains stays as it is.
pub(crate) fn merge(
    rows: Vec<(Time, Row)>,
    merged: &[(Time, u32)],
    opened: Option<Time>,
) -> Vec<(Time, Row)> {
    if merged.is_empty() {
        return rows;
    }
    let mut packets = Vec::new();
    let mut made: Vec<(Time, Row)> = Vec::with_capacity(rows.len());
    // An ACK without data came first and has established the connection.
    let mut acked = false;
    for (at, row) in rows {
        match row {
            Row::In { segment, ecn, .. } if segment.len > 0 && !segment.flags.has(Flags::SYN) => {
                packets.push(Packet { at, segment, ecn, used: false });
            }
            _ => {
                let bare = matches!(row, Row::In { segment, .. } if !segment.flags.has(Flags::SYN));
                acked |= bare && packets.is_empty();
                made.push((at, row));
            }
        }
    }
    if let (false, Some(opened), Some(packet)) = (acked, opened, packets.first_mut())
        && packet.at <= opened
    {
        packet.used = true;
        made.push((opened, Row::In { segment: packet.segment, ecn: packet.ecn, packets: 1, size: 0 }));
    }
    let mut first = 0;
    for (at, len) in merged {
        while packets.get(first).is_some_and(|packet| packet.used) {
            first += 1;
        }
        let last = packets.partition_point(|packet| packet.at <= *at);
        if let Some(row) = (first..last).find_map(|place| segment_from(&mut packets, place, (*at, *len))) {
            made.push((*at, row));
        }
    }
    let rest = packets.iter().filter(|packet| !packet.used);
    made.extend(rest.map(|p| (p.at, Row::In { segment: p.segment, ecn: p.ecn, packets: 1, size: 0 })));
    made.sort_by_key(|(at, row)| (*at, !matches!(row, Row::In { .. })));
    made
}

/// The segment of `len` bytes that begins with packet `place`, if the packets behind it continue it.
fn segment_from(packets: &mut [Packet], place: usize, (at, len): (Time, u32)) -> Option<Row> {
    if packets[place].used {
        return None;
    }
    let (mut segment, ecn) = (packets[place].segment, packets[place].ecn);
    let size = segment.len;
    let mut members = vec![place];
    for (next, packet) in packets.iter().enumerate().skip(place + 1) {
        if segment.len >= len || packet.at > at {
            break;
        }
        if !packet.used && packet.segment.seq == segment.end() {
            segment.len += packet.segment.len;
            for flag in [Flags::PSH, Flags::FIN] {
                if packet.segment.flags.has(flag) {
                    segment.flags |= flag;
                }
            }
            members.push(next);
        }
    }
    if segment.len != len {
        return None;
    }
    let count = u16::try_from(members.len()).ok()?;
    for member in members {
        packets[member].used = true;
    }
    Some(Row::In { segment, ecn, packets: count, size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::SeqNum;

    fn packet(ns: u64, seq: u32, flags: Flags) -> (Time, Row) {
        let segment = Segment { seq: SeqNum::new(seq), len: 1000, flags, ..Segment::default() };
        (Time::from_nanos(ns), Row::In { segment, ecn: Ecn::NotEct, packets: 1, size: 0 })
    }

    fn sizes(rows: &[(Time, Row)]) -> Vec<u32> {
        rows.iter().map(|(_, row)| if let Row::In { size, .. } = row { *size } else { 0 }).collect()
    }

    fn told(rows: &[(Time, Row)]) -> Vec<(u64, u32, u32, u16, bool)> {
        let one = |(at, row): &(Time, Row)| match row {
            Row::In { segment: s, packets, .. } => {
                (at.as_nanos(), s.seq.get(), s.len, *packets, s.flags.has(Flags::PSH))
            }
            _ => panic!("only arrivals"),
        };
        rows.iter().map(one).collect()
    }

    #[test]
    fn consecutive_packets_are_one_segment_at_the_time_of_the_stack_with_the_push_of_the_last() {
        let rows = vec![packet(10, 1, Flags::ACK), packet(20, 1001, Flags::ACK | Flags::PSH)];
        let merged = merge(rows, &[(Time::from_nanos(30), 2000)], None);
        assert_eq!(told(&merged), [(30, 1, 2000, 2, true)]);
        assert_eq!(sizes(&merged), [1000]);
    }

    #[test]
    fn a_packet_that_no_segment_contains_stays_and_one_is_used_once() {
        let rows =
            vec![packet(10, 1, Flags::ACK), packet(12, 5001, Flags::ACK), packet(20, 1001, Flags::ACK)];
        let merged = merge(rows, &[(Time::from_nanos(20), 2000), (Time::from_nanos(20), 2000)], None);
        assert_eq!(told(&merged), [(12, 5001, 1000, 1, false), (20, 1, 2000, 2, false)]);
    }

    #[test]
    fn packets_after_the_segment_was_processed_are_not_in_it() {
        let rows = vec![packet(10, 1, Flags::ACK), packet(20, 1001, Flags::ACK)];
        let merged = merge(rows, &[(Time::from_nanos(10), 1000), (Time::from_nanos(20), 1000)], None);
        assert_eq!(told(&merged), [(10, 1, 1000, 1, false), (20, 1001, 1000, 1, false)]);
    }

    #[test]
    fn the_segment_that_establishes_a_connection_is_not_among_the_merged_ones() {
        let rows = || vec![packet(10, 5001, Flags::ACK), packet(20, 1, Flags::ACK)];
        let merged = [(Time::from_nanos(30), 1000)];
        let opened = Some(Time::from_nanos(15));
        assert_eq!(
            told(&merge(rows(), &merged, opened)),
            [(15, 5001, 1000, 1, false), (30, 1, 1000, 1, false)]
        );
        // An ACK without data has established it before, perhaps at the same instant.
        let ack = Segment { flags: Flags::ACK, seq: SeqNum::new(1), ..Segment::default() };
        for opened in [5, 10] {
            let at = Time::from_nanos(opened);
            let mut with = vec![(at, Row::In { segment: ack, ecn: Ecn::NotEct, packets: 1, size: 0 })];
            with.extend(rows());
            assert_eq!(
                told(&merge(with, &merged, Some(at))),
                [(opened, 1, 0, 1, false), (20, 1, 1000, 1, false), (30, 5001, 1000, 1, false)]
            );
        }
    }
}
