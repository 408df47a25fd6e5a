//! What differs between the segment that was sent and the one that the model would have sent.

use tcpassay_wire::{Ecn, Flags, Segment};

/// The names of the fields that differ, in the order of the header.
pub(crate) fn compare(sent: (&Segment, Ecn), model: (&Segment, Ecn)) -> Vec<&'static str> {
    let (s, m) = (sent.0, model.0);
    let changed = Flags::from_bits(s.flags.bits() ^ m.flags.bits());
    let flag = |flag, name| (changed.has(flag), name);
    let others = changed.without(Flags::PSH | Flags::ECE | Flags::CWR | Flags::FIN | Flags::AE);
    let (a, b) = (&s.options, &m.options);
    let stamps = (a.timestamps, b.timestamps);
    let both = if let (Some(x), Some(y)) = stamps { Some((x, y)) } else { None };
    let differs = [
        (s.seq != m.seq, "sequence number"),
        (s.len != m.len, "length"),
        (s.flags.has(Flags::ACK) && s.ack != m.ack, "acknowledgment number"),
        flag(Flags::FIN, "FIN"),
        flag(Flags::PSH, "PSH"),
        flag(Flags::ECE, "ECE"),
        flag(Flags::CWR, "CWR"),
        flag(Flags::AE, "AE"),
        (others != Flags::NONE, "flags"),
        (s.window != m.window, "window"),
        (stamps.0.is_some() != stamps.1.is_some(), "timestamps"),
        (both.is_some_and(|(x, y)| x.val != y.val), "TSval"),
        (both.is_some_and(|(x, y)| x.ecr != y.ecr), "TSecr"),
        (a.sack != b.sack, "SACK blocks"),
        (
            (a.mss, a.window_scale, a.sack_permitted) != (b.mss, b.window_scale, b.sack_permitted),
            "options of the SYN",
        ),
        (sent.1 != model.1, "ECN field"),
    ];
    differs.into_iter().filter(|(differs, _)| *differs).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_units::SeqNum;
    use tcpassay_wire::Timestamps;

    #[test]
    fn each_field_that_differs_is_named() {
        let mut one = Segment { flags: Flags::ACK, ..Segment::default() };
        one.options.timestamps = Some(Timestamps { val: 5, ecr: 7 });
        let other = Segment { window: 3, flags: Flags::ACK | Flags::PSH, ack: SeqNum::new(1), ..one };
        assert_eq!(compare((&one, Ecn::NotEct), (&one, Ecn::NotEct)), [""; 0]);
        assert_eq!(
            compare((&one, Ecn::NotEct), (&other, Ecn::Ect0)),
            ["acknowledgment number", "PSH", "window", "ECN field"]
        );
        let mut later = one;
        later.options.timestamps = Some(Timestamps { val: 5, ecr: 8 });
        assert_eq!(compare((&one, Ecn::NotEct), (&later, Ecn::NotEct)), ["TSecr"]);
        later.options.timestamps = None;
        assert_eq!(compare((&one, Ecn::NotEct), (&later, Ecn::NotEct)), ["timestamps"]);
    }
}
