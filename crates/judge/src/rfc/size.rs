//! Sizes of segments: RFC 9293 section 3.7.1.

use super::bound::{Bound, PerEnd, Strength};
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::Bytes;
use tcpassay_wire::Flags;

pub(super) const ABOVE_MSS: Bound = Bound {
    name: "segment-above-mss",
    title: "segments above the peer's MSS",
    section: "RFC 9293 section 3.7.1, MUST-16",
    strength: Strength::Must,
    statement: "no segment has more payload than the MSS option of the peer's SYN permits, without the option 536 bytes with IPv4 and 1220 \
                with IPv6.",
    exceptions: "segmentation and receive offload make packets of several segments. Only two successive segments of one length without \
                 PSH are reported, and only if this length is not a multiple of a segment of a plausible size: three quarters of the MSS or \
                 more, or the sizes to which paths of 576 to 1500 bytes limit segments (496 to 536 bytes, 1180 to 1460). Of runs only those \
                 of other TCPs than the model are judged, whose hosts have no such offload; there every segment counts, and the MSS is \
                 that of the case.",
    needs: &[Need::BothDirections, Need::Handshake],
    looks: Sorts::SYN.or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Sizes>::rule(flows, size),
};

/// Payload of segments on paths of 576 bytes, and of 1280 to 1500 bytes, with up to 40 bytes of options.
const USUAL: [std::ops::RangeInclusive<u64>; 2] = [496..=536, 1180..=1460];
/// Linux takes a smaller MSS for this one (`TCP_MIN_MSS`), and a few bytes would make headers most of the traffic.
const LEAST: u64 = 88;

#[derive(Clone, Debug, Default)]
struct Sizes {
    /// What the peer accepts.
    mss: Option<u64>,
    /// Length, end and row of the last segment if it is above the MSS and has no PSH.
    last: Option<(u64, u64, usize)>,
}

fn size(state: &mut Sizes, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let Some(captured) = context.captured else { return of_run(context, step, found) };
    let packet = captured.packet(step.row);
    if step.event.kind == EventKind::In {
        if step.flags().has(Flags::SYN) && !packet.cut {
            let host = &context.recording.hosts[context.recording.flows[step.flow].from as usize];
            let default = if host.matches(':').count() > 1 { 1220 } else { 536 };
            let mss = packet.mss.map_or(default, u64::from);
            state.mss = Some(state.mss.unwrap_or(0).max(mss));
        }
        return;
    }
    let Some(mss) = state.mss.filter(|mss| *mss >= LEAST) else { return };
    let len = step.len();
    let before = state.last.take();
    if len <= mss || step.flags().any(Flags::SYN | Flags::RST) || explained(len, mss) {
        return;
    }
    if let Some((_, _, row)) = before.filter(|(known, end, _)| *known == len && *end == step.seq()) {
        found.add(ABOVE_MSS.of_sender(context, step).since(row, step.at()), || {
            format!(
                "{} sent successive segments of {len} bytes; the MSS of its peer is {mss}.",
                context.who(step.flow)
            )
        });
    }
    state.last = (!step.flags().has(Flags::PSH)).then_some((len, step.seq_end(), step.row));
}

/// A segment of a run that another TCP than the model sent.
fn of_run(context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let header = &context.recording.header;
    let host = |flow: usize| context.recording.flows[flow].from;
    let other = |flow: usize| header.stacks.iter().any(|stack| stack.host == host(flow));
    if step.event.kind == EventKind::In || !other(step.flow) || other(step.peer) {
        return;
    }
    let name = &context.recording.hosts[host(step.peer) as usize];
    let of_peer = header.case.iter().find(|one| one.entity == *name && one.parameter == "stack.mss");
    let mss = of_peer.and_then(|one| one.value.parse::<Bytes>().ok()).map(Bytes::get);
    if let Some(mss) = mss.filter(|mss| *mss >= LEAST && step.len() > *mss) {
        found.add(ABOVE_MSS.of_sender(context, step), || {
            let who = context.who(step.flow);
            format!("{who} sent a segment of {} bytes; the MSS of its peer is {mss}.", step.len())
        });
    }
}

/// Whether a packet can consist of whole segments.
fn explained(len: u64, mss: u64) -> bool {
    let usual = |size: u64| size * 4 >= mss * 3 || USUAL.iter().any(|range| range.contains(&size));
    (2..=len / LEAST).any(|count| len.is_multiple_of(count) && len / count <= mss && usual(len / count))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{data, found, opened, segment};
    use super::explained;
    use tcpassay_wire::Flags;

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn successive_segments_above_the_mss_are_found_unless_offload_explains_them() {
        let mut log = opened();
        log.extend([(10_000, 0, data(1, 1200)), (10_010, 0, data(1201, 1200))]);
        assert_eq!(found("segment-above-mss", &log), [vec![4, 5]]);
        // Two segments of 988 bytes each, merged.
        log[3] = (10_000, 0, data(1, 1976));
        log[4] = (10_010, 0, data(1977, 1976));
        assert_eq!(found("segment-above-mss", &log), NOTHING);
        // One write of 1200 bytes, cut by the network card.
        log[3] = (10_000, 0, segment(1, 1200, 1, Flags::ACK | Flags::PSH));
        log[4] = (10_010, 0, segment(1201, 1200, 1, Flags::ACK | Flags::PSH));
        assert_eq!(found("segment-above-mss", &log), NOTHING);
        // Without the option the MSS is 536.
        log[1].2.options.mss = None;
        log[3] = (10_000, 0, data(1, 700));
        log[4] = (10_010, 0, data(701, 700));
        assert_eq!(found("segment-above-mss", &log), [vec![4, 5]]);
    }

    #[test]
    fn a_multiple_of_a_segment_with_options_is_explained() {
        assert!(explained(2896, 1460));
        assert!(explained(2 * 536, 536));
        assert!(!explained(1460, 536));
        assert!(!explained(1400, 1360));
        // A path of 1280 bytes, and one of 1500 between hosts with larger packets.
        assert!(explained(2 * 1208, 1420));
        assert!(explained(10 * 1448, 8960));
    }
}
