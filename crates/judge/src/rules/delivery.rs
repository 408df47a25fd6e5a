//! Bytes are delivered once and in order: RFC 9293 sections 2.2, 3.4, 3.10.4.

use crate::finding::{Findings, Occurrence, Oracle};
use crate::history::{History, NEVER, Segment, at};
use crate::needs::Need;
use tcpassay_units::Time;
use tcpassay_wire::Flags;

pub(super) const NAME: &str = "delivery";
pub(super) const ORACLE: Oracle = Oracle {
    name: NAME,
    title: "bytes not delivered once and in order",
    asserts: "a receiver acknowledges only what has arrived without a gap, and never takes an acknowledgement back; its \
              application reads no more bytes than arrived, and after a regular close it has read all of them. A real stack \
              (`stack.implementation`) sends and delivers the bytes that were written, with correct checksums, and the state that it \
              shows does not contradict its segments.",
    why: "TCP provides a reliable, in-order stream (RFC 9293 section 2.2). An ACK number says that everything before it was \
          received (section 3.4), and a close delivers what was sent before it (section 3.10.4). The checksum is mandatory \
          (MUST-2, section 3.1).",
    evidence: "the ACK that is wrong and the arrival, if any, that it should have waited for; for bytes read, the counters of \
               the flow in `recording.json`.",
    wrong_when: "the log misses arrivals (it was cut short, or packets took a path that it does not record). The model and \
                 kernels carry positions, not contents: what the bytes say is compared only at a real stack.",
    needs: &[Need::BothDirections, Need::EveryPacket, Need::NoCopies, Need::AtEnd],
};

/// Judges every ACK, and what was read of every flow.
pub(super) fn look(history: &History<'_>, found: &mut Findings) {
    if history.halves.iter().all(|half| half.segments.is_empty()) {
        return;
    }
    for half in 0..history.halves.len() {
        acks(history, half, found);
        contents(history, half, found);
    }
    for flow in 0..history.halves.len() {
        read(history, flow, found);
    }
}

fn acks(history: &History<'_>, half: usize, found: &mut Findings) {
    let flow = history.peer(half);
    let ledger = history.ledger(flow);
    let who = history.who(half);
    let mut before: Option<&Segment> = None;
    let (mut complete, mut near) = (Time::ZERO, 0);
    let plain =
        history.halves[half].segments.iter().filter(|s| s.sent && !s.flags.any(Flags::SYN | Flags::RST));
    for ack in plain {
        let occurrence = |title, rows| Occurrence {
            start: ack.at,
            end: ack.at,
            rows,
            ..history.occurrence(NAME, title, flow, half)
        };
        let said = || {
            format!("{who} acknowledged {} up to position {} at {}", history.name(flow), ack.ack, at(ack.at))
        };
        // Most ACKs of a receiver without new data repeat the previous one.
        complete = before
            .filter(|before| before.ack == ack.ack)
            .map_or_else(|| ledger.reach(ack.ack, &mut near), |_| complete);
        // Whether PAWS refused an arrival is known of the model only: a stack without it has taken these data.
        let doubtful = || {
            let before = |s: &Segment| !s.sent && s.refused && s.at <= ack.at && s.start < ack.ack;
            !history.recording.is_of_model() && history.halves[half].segments.iter().any(before)
        };
        if ack.at < complete && !doubtful() {
            found.add(occurrence("acknowledged before it arrived", vec![ack.row]), || {
                if complete == NEVER {
                    format!("{}, but not all of the bytes before it arrived in this run.", said())
                } else {
                    format!(
                        "{}, but the last of the bytes before it arrived only at {}.",
                        said(),
                        at(complete)
                    )
                }
            });
        }
        if let Some(before) = before.filter(|before| before.ack > ack.ack) {
            found.add(occurrence("acknowledgement taken back", vec![before.row, ack.row]), || {
                format!("{}, after it had acknowledged up to {} at {}.", said(), before.ack, at(before.at))
            });
        }
        before = Some(ack);
    }
}

/// What a real stack sent or delivered, and nobody wrote.
fn contents(history: &History<'_>, half: usize, found: &mut Findings) {
    for mark in &history.halves[half].damaged {
        let row = history.row(mark);
        let delivered = row.why == "read";
        let (title, did) = match &*row.why {
            "read" => (
                "delivered bytes that were not sent",
                "delivered other bytes to its application than its peer wrote",
            ),
            "content" => ("sent bytes that were not written", "sent other bytes than its application wrote"),
            shown if shown.starts_with("shown ") => {
                ("a state that segments contradict", "showed a state that its segments contradict")
            }
            _ => ("a wrong checksum", "sent a packet with a wrong checksum"),
        };
        let flow = if delivered { history.peer(half) } else { half };
        let rows = vec![mark.row];
        let occurrence = history.occurrence(NAME, title, flow, half);
        found.add(Occurrence { start: mark.at, end: mark.at, rows, ..occurrence }, || {
            if row.why.starts_with("shown ") {
                let (who, what) = (history.who(half), &row.why["shown ".len()..]);
                let (shown, bound) = (row.seq.unwrap_or(0), row.value.unwrap_or(0));
                let against = match what {
                    "SND.WND" => format!(
                        "the largest window that its peer had announced was {bound} bytes; that of a SYN is not scaled (RFC 7323 \
                         section 2.2)"
                    ),
                    "SND.UNA" => format!("its peer had acknowledged only what is below {bound}"),
                    "SND.NXT" => format!("it had sent only what is below {bound}"),
                    _ if shown > bound => format!("only what is below {bound} had arrived"),
                    _ => format!("it had acknowledged what is below {bound}"),
                };
                return format!("{who} {did} at {}: its {what} is {shown}, but {against}.", at(mark.at));
            }
            let (from, len) = (row.seq.unwrap_or(0), u64::from(row.len.unwrap_or(0)));
            let who = history.who(half);
            format!("{who} {did} ({}) at {}: positions {from} to {}.", row.why, at(mark.at), from + len)
        });
    }
}

fn read(history: &History<'_>, flow: usize, found: &mut Findings) {
    let receiver = history.peer(flow);
    if receiver == flow {
        return;
    }
    let reset = |half: usize| history.halves[half].segments.iter().any(|s| s.flags.has(Flags::RST));
    let fins =
        || history.halves[receiver].segments.iter().filter(|s| s.is_arrival() && s.flags.has(Flags::FIN));
    // Position 0 is the SYN.
    let in_order = history.ledger(flow).in_order().saturating_sub(1);
    let closed = fins().map(|fin| fin.end).max() == Some(in_order + 1);
    let bytes = if closed { in_order.saturating_sub(1) } else { in_order };
    let flows = &history.recording.flows;
    let counters = &flows[flow].counters;
    // What a guest's network still holds at the end of the run arrives after the log has ended, and is read.
    let most = if history.of_model() || counters.unseen { bytes } else { bytes.max(counters.sent_bytes) };
    let occurrence = |title| Occurrence {
        start: Time::ZERO,
        end: history.end(),
        rows: fins().next_back().map(|fin| fin.row).into_iter().collect(),
        ..history.occurrence(NAME, title, flow, receiver)
    };
    let (name, host, read) = (history.name(flow), history.host_name(receiver), counters.read_bytes);
    let ended = [flow, receiver].iter().all(|half| flows[*half].end.is_some());
    let aborted = [flow, receiver].iter().any(|half| history.halves[*half].aborted || reset(*half));
    if read > most {
        found.add(occurrence("more was read than arrived"), || {
            format!(
                "The application at {host} read {read} bytes of {name}, but only {bytes} had arrived without a gap: some were \
                 delivered twice, or made up."
            )
        });
    } else if closed && ended && !aborted && read < bytes {
        found.add(occurrence("less was read than arrived"), || {
            format!(
                "{name} was closed regularly after {bytes} bytes had arrived at {host}, but its application read only {read}."
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::judge;
    use std::collections::BTreeMap;
    use tcpassay_case::params::Value;
    use tcpassay_measure::{CollectOptions, EventKind, EventRow, Reason};
    use tcpassay_sim::{SimOptions, run};
    use tcpassay_units::{Dur, Seed, Time};

    /// The text about a variable that a stack showed with a value, where its segments give a bound.
    fn said(what: &'static str, shown: u64, bound: u64) -> String {
        let rows = [("app.flow_size", "20KB"), ("sender/stack.implementation", "smoltcp")];
        let triples = rows.map(|(path, value)| (path.to_owned(), Value::Text(value.to_owned())));
        let case = tcpassay_case::Case::from_triples(&BTreeMap::from(triples)).expect("a case");
        let collect = CollectOptions { events: true, ..CollectOptions::default() };
        let mut recording = run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording;
        let at = Time::ZERO + recording.header.duration.min(Dur::from_millis(1));
        let mut row = EventRow::new(at, 0, Some(0), EventKind::Damaged);
        (row.why, row.seq, row.len, row.value) = (Reason::Borrowed(what), Some(shown), Some(0), Some(bound));
        recording.events = recording.events.iter().chain([row]).collect();
        let found = judge(&recording, &["delivery"]);
        assert_eq!(found.len(), 1);
        found[0].text.clone()
    }

    #[test]
    fn a_shown_state_is_told_with_what_the_segments_show() {
        let scaled = said("shown SND.WND", 33_553_920, 65_535);
        assert!(
            scaled.contains(
                "its SND.WND is 33553920, but the largest window that its peer had announced was 65535 bytes; that of a SYN is not \
                 scaled (RFC 7323 section 2.2)"
            ),
            "{scaled}"
        );
        let acked = said("shown RCV.NXT", 4, 9);
        assert!(acked.contains("its RCV.NXT is 4, but it had acknowledged what is below 9"), "{acked}");
        let arrived = said("shown RCV.NXT", 9, 4);
        assert!(arrived.contains("its RCV.NXT is 9, but only what is below 4 had arrived"), "{arrived}");
    }
}
