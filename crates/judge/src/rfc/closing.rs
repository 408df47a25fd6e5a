//! The FIN: RFC 9293 sections 3.4 and 3.10.4.

use super::bound::{Bound, PerEnd, Strength};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_wire::Flags;

pub(super) const AFTER_FIN: Bound = Bound {
    name: "data-after-fin",
    title: "data after the FIN",
    section: "RFC 9293 section 3.10.4, where a FIN ends the stream; MUST",
    strength: Strength::Must,
    statement: "no data are sent at positions beyond the FIN, which is the end of the stream.",
    exceptions: "a new connection between the same ports whose SYN the capture missed; a segment far beyond the FIN is therefore not judged. Up \
                 to six bytes are not judged either: some devices count the padding of Ethernet as payload.",
    needs: &[Need::Handshake],
    looks: Sorts::DATA_OUT,
    new: |flows| PerEnd::<()>::rule(flows, after),
};

pub(super) const FIN_MOVED: Bound = Bound {
    name: "fin-moved",
    title: "a FIN at another position than before",
    section: "RFC 9293 section 3.4, where the FIN has one sequence number; MUST",
    strength: Strength::Must,
    statement: "a FIN that is sent again has the position at which it was sent for the first time.",
    exceptions: "a new connection between the same ports whose SYN the capture missed; a FIN far from the first one is therefore not judged. \
                 Segments with one to six bytes are not judged either: some devices count the padding of Ethernet as payload.",
    needs: &[Need::Handshake],
    looks: Sorts::LAST,
    new: |flows| PerEnd::<Option<(u64, usize)>>::rule(flows, moved),
};

/// The shortest frame of Ethernet has six bytes more than headers without options.
const PADDING: u64 = 6;
/// A segment further away belongs to another connection.
const NEAR: u64 = 1 << 20;

fn after((): &mut (), context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(fin) = step.end.fin_out else { return };
    let near = step.seq() <= fin + NEAR;
    if step.is_sent() && !step.flags().has(Flags::RST) && step.seq_end() > fin && step.len() > PADDING && near
    {
        found.add(AFTER_FIN.of_sender(context, step), || {
            format!(
                "{} sent positions up to {}, beyond its FIN at {fin}.",
                context.who(step.flow),
                step.seq_end()
            )
        });
    }
}

fn moved(state: &mut Option<(u64, usize)>, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    if !step.is_sent() || !step.flags().has(Flags::FIN) || step.flags().has(Flags::RST) {
        return;
    }
    if (1..=PADDING).contains(&step.len()) {
        return;
    }
    let position = step.seq_end();
    let (known, row) = *state.get_or_insert((position, step.row));
    if known.abs_diff(position) > NEAR {
        return;
    }
    if known != position {
        *state = Some((position, step.row));
        found.add(FIN_MOVED.of_sender(context, step).since(row, step.at()), || {
            format!("{} sent its FIN at position {known} and later at {position}.", context.who(step.flow))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{data, found, opened, segment};
    use tcpassay_wire::Flags;

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn nothing_follows_the_fin() {
        let fin = |seq| segment(seq, 0, 1, Flags::ACK | Flags::FIN);
        let mut log = opened();
        log.extend([(10_000, 0, data(1, 1000)), (10_010, 0, fin(1001)), (20_000, 0, data(1001, 1000))]);
        assert_eq!(found("data-after-fin", &log), [vec![6]]);
        log[5] = (20_000, 0, data(1, 1000));
        assert_eq!(found("data-after-fin", &log), NOTHING);
        log[5] = (20_000, 0, fin(1001));
        assert_eq!(found("fin-moved", &log), NOTHING);
        log[5] = (20_000, 0, segment(1, 1000, 1, Flags::ACK | Flags::FIN));
        assert_eq!(found("fin-moved", &log), NOTHING);
        log[5] = (20_000, 0, fin(1002));
        assert_eq!(found("fin-moved", &log), [vec![5, 6]]);
    }
}
