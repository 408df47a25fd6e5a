//! SYNs that cross, and SYNs of an open connection: RFC 9293 sections 3.5, 3.10.7.

use super::bound::{Bound, PerEnd, Strength, time, took};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::Flags;

pub(super) const SIMULTANEOUS: Bound = Bound {
    name: "simultaneous-open",
    title: "a SYN that crosses the own one is not answered",
    section: "RFC 9293 section 3.5, MUST-10",
    strength: Strength::Must,
    statement: "an end that has sent a SYN and receives a SYN without ACK answers with SYN and ACK, and does not only send its SYN again.",
    exceptions: "a packet filter may hide the SYN that arrives from the stack. Only a SYN that is sent again later than a second after \
                 the peer's is reported.",
    needs: &[Need::BothDirections, Need::AtEnd, Need::NoCopies],
    looks: Sorts::SYN.or(Sorts::LAST),
    new: |flows| PerEnd::<Crossing>::rule(flows, crossing),
};

pub(super) const SYN_AGAIN: Bound = Bound {
    name: "syn-of-open-connection",
    title: "a SYN of an open connection is not answered",
    section: "RFC 9293 section 3.10.7.4 and RFC 5961 section 4, MUST",
    strength: Strength::Must,
    statement: "a SYN that arrives on an open connection is answered by an ACK, which tells a peer that has lost the connection the truth.",
    exceptions: "such ACKs may be limited in their rate: an end that sent anything in the second before the SYN is not judged. A packet \
                 filter may hide the SYN from the stack.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
    looks: Sorts::SYN,
    new: |flows| PerEnd::<Owed>::rule(flows, again),
};

const PATIENCE: Dur = Dur::from_secs(1);

#[derive(Clone, Debug, Default)]
struct Crossing {
    sent: bool,
    /// A SYN without ACK arrived afterwards: time and row.
    come: Option<(Time, usize)>,
    over: bool,
}

fn crossing(state: &mut Crossing, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let flags = step.flags();
    if !flags.has(Flags::SYN) || flags.any(Flags::ACK | Flags::RST) || state.over {
        state.over = true;
        return;
    }
    if step.event.kind == EventKind::In {
        if state.sent {
            state.come.get_or_insert((step.at(), step.row));
        }
        // An end that is only opened to sends no SYN before.
        state.over |= !state.sent;
        return;
    }
    state.sent = true;
    if let Some((at, row)) = state.come
        && step.at().since(at) >= PATIENCE
    {
        state.over = true;
        found.add(SIMULTANEOUS.of_receiver(context, step).since(row, at), || {
            let at = time(at);
            format!(
                "{} had sent a SYN and received one at {at}; at {} it sent its SYN again without acknowledging the other.",
                context.who(step.flow),
                time(step.at())
            )
        });
    }
}

#[derive(Clone, Debug, Default)]
struct Owed(Option<(Time, usize)>);

fn again(state: &mut Owed, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if let Some((at, row)) = state.0
        && step.at().since(at) > PATIENCE
    {
        state.0 = None;
        if step.before.spoke < at {
            found.add(SYN_AGAIN.of_receiver(context, step).since(row, at), || {
                let (at, waited) = (time(at), took(step.at().since(at)));
                format!(
                    "{} received a SYN of an open connection at {at} and had sent nothing {} later.",
                    context.who(step.flow),
                    waited
                )
            });
        }
    }
    let open = step.end.open && !step.end.over && step.end.fin_in.is_none() && step.end.fin_out.is_none();
    let syn =
        step.event.kind == EventKind::In && step.flags().has(Flags::SYN) && !step.flags().has(Flags::RST);
    if open && syn && step.at().since(step.before.spoke) > PATIENCE {
        state.0.get_or_insert((step.at(), step.row));
    }
    step.deadline(state.0.map(|(at, _)| at), PATIENCE);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, data, found, opened, syn};
    use tcpassay_wire::Flags;

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn a_syn_that_crosses_the_own_one_is_acknowledged() {
        let mut log = vec![
            (0, 0, syn(Flags::SYN, 0)),
            (100, 1, syn(Flags::SYN, 0)),
            (1_000_000, 0, syn(Flags::SYN, 0)),
            (3_000_000, 0, syn(Flags::SYN, 0)),
            (3_000_100, 1, syn(Flags::SYN | Flags::ACK, 1)),
        ];
        assert_eq!(found("simultaneous-open", &log), [vec![2, 4]]);
        log[2] = (200, 0, syn(Flags::SYN | Flags::ACK, 1));
        assert_eq!(found("simultaneous-open", &log), NOTHING);
    }

    #[test]
    fn a_syn_of_an_open_connection_is_answered() {
        let mut log = opened();
        log.extend([
            (10_000, 0, data(1, 1000)),
            (10_100, 1, ack(1001)),
            (2_000_000, 0, syn(Flags::SYN, 0)),
            (4_000_000, 0, data(1001, 1000)),
            (4_000_100, 1, ack(2001)),
        ]);
        assert_eq!(found("syn-of-open-connection", &log), [vec![6, 7]]);
        log.insert(6, (2_000_100, 1, ack(1001)));
        assert_eq!(found("syn-of-open-connection", &log), NOTHING);
    }
}
