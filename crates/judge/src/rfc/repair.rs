//! Repair of losses that SACK shows: RFC 6675 section 5, RFC 8985 section 6.2.

use super::bound::{Bound, PerEnd, Strength, time, took};
use crate::end::End;
use crate::finding::Findings;
use crate::kinds::Sorts;
use crate::needs::Need;
use crate::step::{Context, Step};
use tcpassay_measure::EventKind;
use tcpassay_units::{Dur, Time};

pub(super) const REPAIR: Bound = Bound {
    name: "loss-waits-for-timeout",
    title: "a loss that SACK shows waits for a timeout",
    section: "RFC 6675 section 5 and RFC 8985 section 6.2, SHOULD",
    strength: Strength::Should,
    statement: "the first outstanding segment, which was sent once, is sent again within two of the longest round trips and \
                150 ms after SACK blocks have reported three segments (in bytes) above it; during a recovery, after all outstanding \
                data but one segment have been reported as received or lost.",
    exceptions: "during a recovery the congestion window decides when a further loss is repaired (RFC 6675 section 5, step C), \
                 whose smallest value is two segments (RFC 5681 equation 4): what a receiver does not report counts as in flight. A sender that has seen reordering may wait longer, so \
                 that it is not judged from then on. The host may have been stopped, or a queue in it may hold the \
                 retransmission.",
    needs: &[Need::BothDirections, Need::Handshake, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
    looks: Sorts::SACKS_IN.or(Sorts::EMPTY_IN).or(Sorts::DATA_IN).or(Sorts::DATA_OUT),
    new: |flows| PerEnd::<Hole>::rule(flows, on),
};

/// Added to two round trips: the rest of a timer's tick, and the time in which a host acts.
const SPARE: Dur = Dur::from_millis(150);
/// RFC 6675 section 2: `DupThresh`.
const SEGMENTS: u64 = 3;

#[derive(Clone, Debug, Default)]
struct Hole {
    /// When SACK blocks showed that the first outstanding segment is lost, and the row.
    since: Option<(Time, usize)>,
    /// An original was delivered after one that was sent later.
    reordered: bool,
    /// `RecoveryPoint` of RFC 6675 section 5: what had been sent when the last recovery began.
    recover: u64,
}

fn on(state: &mut Hole, context: &Context<'_>, step: &Step<'_>, found: &mut Findings) {
    let end = step.end;
    if step.is_arrival() {
        state.reordered |= end.taken.late > 0;
        let once = end.out.front().is_some_and(|first| first.tries == 1 && !first.sacked);
        if end.taken.acked > 0 || state.reordered {
            state.since = None;
        }
        let shown = end.sacked >= SEGMENTS * context.mss(step.flow) && end.again == 0;
        let usual = once && shown && !state.reordered && end.open && !end.over;
        if usual && (end.now.una >= state.recover || permitted(end, context.mss(step.flow))) {
            state.since = state.since.or(Some((step.at(), step.row)));
        }
        return;
    }
    if step.event.kind != EventKind::Retransmit {
        return;
    }
    if step.before.una >= state.recover {
        state.recover = step.before.nxt;
    }
    if step.seq() > step.before.una {
        return;
    }
    let Some((since, row)) = state.since.take() else { return };
    let Some((_, longest)) = end.round_trips else { return };
    let waited = step.at().since(since);
    if waited > longest * 2 + SPARE {
        found.add(REPAIR.of_sender(context, step).since(row, since), || {
            format!(
                "{} knew at {} that three segments above position {} had arrived, and sent it again {} later; the longest round trip was {}.",
                context.who(step.flow),
                time(since),
                step.before.una,
                took(waited),
                took(longest)
            )
        });
    }
}

/// Whether the smallest window of a recovery permits a segment: `Pipe` of RFC 6675 section 4 is at most one segment. Data are lost if three
/// segments (in bytes) above them are `SACKed`.
fn permitted(end: &End, mss: u64) -> bool {
    let (mut above, mut pipe) = (0, 0);
    end.out.iter().rev().all(|one| {
        let length = one.end - one.start;
        if one.sacked {
            above += length;
        } else if above < SEGMENTS * mss || one.tries > 1 {
            pipe += length;
        }
        pipe <= mss
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, data, found, opened, sacked};

    const NOTHING: [Vec<u64>; 0] = [];

    #[test]
    fn a_loss_that_three_reported_segments_show_does_not_wait_for_a_timeout() {
        let mut log = opened();
        log.extend([(10_000, 0, data(1, 1000)), (20_000, 1, ack(1001))]);
        log.extend(
            (0..4).map(|n| (30_000 + n * 10, 0, data(1001 + 1000 * u32::try_from(n).expect("small"), 1000))),
        );
        log.push((45_000, 1, sacked(1001, &[(2001, 5001)])));
        log.push((400_000, 0, data(1001, 1000)));
        assert_eq!(found("loss-waits-for-timeout", &log), [vec![10, 11]]);
        // At once, or at a timeout if two segments are reported.
        log[10].0 = 46_000;
        assert_eq!(found("loss-waits-for-timeout", &log), NOTHING);
        log[10].0 = 400_000;
        log[9].2 = sacked(1001, &[(2001, 4001)]);
        assert_eq!(found("loss-waits-for-timeout", &log), NOTHING);
    }

    #[test]
    fn a_further_loss_of_a_recovery_waits_for_the_window() {
        let mut log = opened();
        log.extend([(10_000, 0, data(1, 1000)), (20_000, 1, ack(1001))]);
        log.extend(
            (0..8).map(|n| (30_000 + n * 10, 0, data(1001 + 1000 * u32::try_from(n).expect("small"), 1000))),
        );
        log.push((45_000, 1, sacked(1001, &[(2001, 3001), (4001, 7001)])));
        log.push((46_000, 0, data(1001, 1000)));
        log.push((60_000, 1, sacked(3001, &[(4001, 7001)])));
        log.push((400_000, 0, data(3001, 1000)));
        assert_eq!(found("loss-waits-for-timeout", &log), NOTHING);
        // One segment is in flight, and the smallest window is two segments.
        log[15].2 = sacked(3001, &[(4001, 8001)]);
        assert_eq!(found("loss-waits-for-timeout", &log), [vec![16, 17]]);
        // The first loss, which begins the recovery, does not.
        log[14].0 = 400_000;
        log.truncate(15);
        assert_eq!(found("loss-waits-for-timeout", &log), [vec![14, 15]]);
    }
}
