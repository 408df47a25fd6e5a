//! Negotiation of ECN: RFC 3168 section 6.1.1.

use super::bound::{Bound, PerEnd, Strength, time};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_wire::Flags;

pub(super) const ANSWER: Bound = Bound {
    name: "ecn-answer",
    title: "ECN is accepted without an offer",
    section: "RFC 3168 section 6.1.1, MUST NOT",
    strength: Strength::Must,
    statement: "the answer to a SYN that has none of the flags ECE, CWR and AE does not have ECE.",
    exceptions: "a middlebox that changes the flags of ECN of a SYN between its sender and the place of the log.",
    needs: &[Need::BothDirections, Need::Handshake, Need::AtEnd],
    looks: Sorts::SYN,
    new: |flows| PerEnd::<Negotiation>::rule(flows, answer),
};

pub(super) const USE: Bound = Bound {
    name: "ecn-without-negotiation",
    title: "ECN is used without negotiation",
    section: "RFC 3168 section 6.1.1, MUST NOT",
    strength: Strength::Must,
    statement: "data are sent in ECN-capable packets only if both SYNs have flags of ECN.",
    exceptions: "an application that sets all bits of the type of service, where its host permits that.",
    needs: &[Need::Headers, Need::BothDirections, Need::Handshake, Need::AtEnd],
    looks: Sorts::SYN.or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Negotiation>::rule(flows, uses),
};

/// The flags of ECN of all SYNs: the own ones, the peer's.
#[derive(Clone, Debug, Default)]
struct Negotiation([bool; 2]);

impl Negotiation {
    fn syn(&mut self, step: &Step<'_>) {
        let flags = step.flags().any(Flags::ECE | Flags::CWR | Flags::AE);
        self.0[usize::from(!step.is_sent())] |= flags;
    }
}

fn answer(state: &mut Negotiation, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    state.syn(step);
    let flags = step.flags();
    let accepts = step.is_sent() && flags.has(Flags::ACK | Flags::ECE) && !flags.any(Flags::CWR | Flags::RST);
    if accepts && !state.0[1] {
        found.add(ANSWER.of_receiver(context, step), || {
            format!(
                "{} accepted ECN in its answer to a SYN at {}, which did not offer it.",
                context.who(step.flow),
                time(step.at())
            )
        });
    }
}

fn uses(state: &mut Negotiation, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if step.flags().has(Flags::SYN) {
        return state.syn(step);
    }
    if step.event.kind == EventKind::In || step.flags().has(Flags::RST) || state.0 == [true; 2] {
        return;
    }
    let Some(packet) = context.captured.map(|captured| captured.packet(step.row)) else { return };
    if packet.ecn.is_capable() {
        found.add(USE.of_sender(context, step), || {
            format!(
                "{} sent data with the ECN field {:02b} at {}; the SYNs did not negotiate ECN.",
                context.who(step.flow),
                packet.ecn.bits(),
                time(step.at())
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{data, found, judged, opened};
    use tcpassay_wire::{Ecn, Flags};

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn ecn_is_accepted_only_if_it_was_offered() {
        let mut log = opened();
        log[1].2.flags |= Flags::ECE;
        assert_eq!(found("ecn-answer", &log), [vec![2]]);
        log[0].2.flags = Flags::SYN | Flags::ECE | Flags::CWR;
        assert_eq!(found("ecn-answer", &log), NOTHING);
    }

    #[test]
    fn data_are_ecn_capable_only_if_it_was_negotiated() {
        let mut log = opened();
        log.push((10_000, 0, data(1, 1000)));
        assert_eq!(judged("ecn-without-negotiation", &log, &[], Ecn::Ect0), [vec![4]]);
        assert_eq!(judged("ecn-without-negotiation", &log, &[], Ecn::NotEct), NOTHING);
        log[0].2.flags = Flags::SYN | Flags::ECE | Flags::CWR;
        assert_eq!(judged("ecn-without-negotiation", &log, &[], Ecn::Ect0), [vec![4]]);
        log[1].2.flags |= Flags::ECE;
        assert_eq!(judged("ecn-without-negotiation", &log, &[], Ecn::Ect0), NOTHING);
    }
}
