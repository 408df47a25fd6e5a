//! The congestion window on leaving fast recovery: RFC 5681 section 3.1, RFC 6582 section 3.2, RFC 9937 section 6.

use crate::finding::{Findings, Occurrence, Oracle};
use crate::history::{History, Mark, at};
use crate::needs::Need;
use tcpassay_measure::EventKind;
use tcpassay_tcp::CongestionState;
use tcpassay_units::Bytes;

pub(super) const NAME: &str = "small-window-after-recovery";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "cwnd below two segments on leaving recovery",
    asserts: "when a sender leaves fast recovery, its congestion window is at least two segments.",
    why: "ssthresh is never set below two segments (RFC 5681 section 3.1, equation 4), and recovery ends with cwnd = ssthresh or \
          min(ssthresh, max(FlightSize, SMSS) + SMSS) (RFC 6582 section 3.2 step 3), or ssthresh (RFC 9937 section 6). With a \
          window of one segment the receiver may hold its ACK back for the delayed-ACK time, and the sender, which may not send \
          a second segment, waits for it. Marks may reduce the window to one segment, and what is lost in the same round trip \
          reduces it no more (RFC 3168 section 6.1.2): a recovery that begins while the window is being reduced for marks is \
          not judged.",
    evidence: "the ACK that ended recovery, the window that was then in force, the change of state.",
    wrong_when: "the maximum segment size changed during the run (path MTU), or the sender's limit on cwnd is below two segments \
                 by configuration. Of a real kernel the window is the one that the next segment met, which the same ACK may have \
                 opened already, so that a fault may go unseen; a recovery that ended without a segment after it is not judged.",
    needs: &[Need::Event(EventKind::Congestion), Need::Event(EventKind::Window)],
};

const SEGMENTS: u64 = 2;
/// The largest length of the option of accurate ECN with its padding (RFC 9768 section 3.2.3).
const OPTIONS: u64 = 12;

/// Judges the end of every recovery.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    for flow in 0..history.halves.len() {
        let mut by_marks = false;
        let changes = &history.halves[flow].changes;
        for (index, mark) in changes.iter().enumerate() {
            let Some(change) = history.change(mark) else { continue };
            if change.to == Some(CongestionState::Recovery) {
                by_marks = change.from == Some(CongestionState::Cwr);
            }
            let leaves = change.from == Some(CongestionState::Recovery)
                && change.to != Some(CongestionState::Loss)
                && change.window_known();
            if leaves && !by_marks {
                let next = changes.get(index + 1).map_or(usize::MAX, |next| next.place);
                judge(history, flow, (mark, next), change.cause, found);
            }
        }
    }
}

/// `next`: the place of the change of state that follows.
fn judge(
    history: &History<'_>,
    flow: usize,
    (left, next): (&Mark, usize),
    cause: &str,
    found: &mut Findings,
) {
    let half = &history.halves[flow];
    // BBR restores the window that it had before the recovery with the ACK that ends it, after the change of state.
    let restores = history.recording.flows[flow].cc.starts_with("bbr");
    let before = half.windows.partition_point(|window| {
        window.place < left.place || restores && window.at == left.at && window.place < next
    });
    let Some(window) = before.checked_sub(1).map(|place| &half.windows[place]) else { return };
    let mss = history.recording.flows[flow].mss.get();
    // The option of accurate ECN takes a part of a segment.
    let options = if history.said("stack.ecn") == Some("accurate") { OPTIONS } else { 0 };
    let minimum = SEGMENTS * mss.saturating_sub(options);
    let Some(cwnd) = history.row(window).cwnd.map(Bytes::get).filter(|cwnd| *cwnd < minimum) else {
        return;
    };
    let last = half.before(left.place).map(|place| &half.segments[place]);
    let mut rows: Vec<usize> = last.filter(|last| !last.sent).map(|last| last.row).into_iter().collect();
    rows.extend([window.row, left.row]);
    let one = Occurrence { start: left.at, end: left.at, rows, ..history.occurrence(NAME, "", flow, flow) };
    found.add(one, || {
        let outstanding =
            last.map_or_else(String::new, |last| format!(", and {} bytes outstanding", last.nxt - last.una));
        #[expect(clippy::cast_precision_loss, reason = "windows of a few segments")]
        let segments = cwnd as f64 / mss as f64;
        format!(
            "{} left fast recovery of {} at {} ({cause}) with cwnd = {cwnd} bytes, {segments:.2} segments of {mss}{outstanding}. \
             With a single segment in flight the receiver may wait for its delayed-ACK timer before it acknowledges.",
            history.who(flow),
            history.name(flow),
            at(left.at),
        )
    });
}
