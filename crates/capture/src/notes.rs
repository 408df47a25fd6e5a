//! What could not be read or used of a capture, as text.

use crate::analysis::Analysis;
use crate::counts::PacketCounts;
use crate::reader::{Interface, MOST_INTERFACES};
use crate::table::MOST_TUNNELS;
use crate::words::{bytes, many, time, times};

/// Number of capture points, of link types and of ICMP errors that notes list.
const MOST_POINTS: usize = 10;

/// Notes about what there was of something.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn say(&mut self, count: u64, text: String) {
        if count > 0 {
            self.0.push(text);
        }
    }
}

fn packets(count: u64) -> String {
    many(count, "packet")
}

/// Describes the parts of the capture that could not be read or used.
pub(crate) fn notes(analysis: &Analysis, interfaces: &[Interface]) -> Vec<String> {
    let counts = &analysis.counts;
    let mut notes = Notes::default();
    if let Some(error) = &analysis.error {
        notes.say(
            1,
            format!("The capture is incomplete: {error}. The packets before this place were analysed."),
        );
    }
    notes
        .say(counts.skipped_blocks, format!("{} damaged and skipped.", many(counts.skipped_blocks, "block")));
    notes.say(
        counts.lost_by_capture,
        format!(
            "The capture lost {}, as the file says: data and ACKs that are not in it may have been on the wire.",
            packets(counts.lost_by_capture)
        ),
    );
    notes.say(u64::from(counts.packets == 0), "The capture has no packets.".to_owned());
    notes.say(
        u64::from(counts.packets > 0 && counts.segments == 0),
        "The capture has no TCP segments that can be analysed.".to_owned(),
    );
    notes.say(
        counts.icmp_of_others,
        format!(
            "{} about connections that are not in the capture, of {} about TCP segments.",
            many(counts.icmp_of_others, "ICMP error"),
            counts.icmp_errors
        ),
    );
    for error in analysis.errors_without_flow(MOST_POINTS) {
        notes.say(1, format!("{error}; the connection has no data in the capture."));
    }
    undecoded(&mut notes, counts);
    malformed_options(&mut notes, analysis);
    limits(&mut notes, counts);
    clocks(&mut notes, counts);
    let (flows, unseen) = analysis.flows_of_acks_alone();
    notes.say(
        flows,
        format!(
            "{} of which only the ACKs are in the capture, for {}: the capture has one direction only.",
            many(flows, "flow"),
            bytes(unseen)
        ),
    );
    let (flows, missing) = analysis.flows_of_missing_data();
    notes.say(
        flows,
        format!(
            "{} of which no data are in the capture although sequence numbers show that {} were sent: all data packets were lost before the \
             capture (a path that drops packets above a length does this), or the capture missed them.",
            many(flows, "flow"),
            bytes(missing)
        ),
    );
    let points: Vec<&str> = interfaces.iter().take(MOST_POINTS).map(|one| one.name.as_str()).collect();
    let several = interfaces.len() > 1 && !analysis.is_of_one_point();
    let more = match interfaces.len().saturating_sub(MOST_POINTS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    notes.say(
        u64::from(several),
        format!(
            "The capture has {} points, and each connection is analysed at each of them: {}{more}. `--point NAME` selects one, \
             `--merge` considers all as one.",
            interfaces.len(),
            points.join(", ")
        ),
    );
    notes.0
}

/// Packets that were not decoded, or not whole.
fn undecoded(notes: &mut Notes, counts: &PacketCounts) {
    for (link, count) in counts.unsupported_links.iter().take(MOST_POINTS) {
        notes.say(*count, format!("{} of link type {link}, which is not supported.", packets(*count)));
    }
    let tunnelled: Vec<String> =
        counts.tunnels.iter().map(|(kind, count)| format!("{} {count}", kind.words())).collect();
    notes.say(
        counts.tunnels.values().sum(),
        format!(
            "TCP segments in tunnels, of which the inner packets were analysed: {}.",
            tunnelled.join(", ")
        ),
    );
    for (what, count) in &counts.undecoded {
        notes.say(*count, format!("{}: {}, which are not decoded.", packets(*count), what.words()));
    }
    notes.say(
        counts.fragments,
        format!("{} of fragmented IP datagrams, which are not reassembled.", packets(counts.fragments)),
    );
    notes.say(
        counts.short,
        format!(
            "{} cut inside the TCP header or before: capture at least 96 bytes of each packet.",
            packets(counts.short)
        ),
    );
    notes.say(counts.malformed, format!("{} with inconsistent headers.", packets(counts.malformed)));
    notes.say(
        counts.options_cut,
        format!(
            "{} cut inside the TCP options: timestamps, SACK and the window scale may be missing.",
            many(counts.options_cut, "segment")
        ),
    );
}

/// Who sent options that contradict themselves.
fn malformed_options(notes: &mut Notes, analysis: &Analysis) {
    let count = analysis.counts.malformed_options;
    let senders: Vec<String> = analysis.malformed_from.iter().map(ToString::to_string).collect();
    notes.say(
        count,
        format!(
            "{} with malformed TCP options (an option runs past the header, or its length is wrong), sent by {}: the options of these \
             segments are unknown.",
            many(count, "segment"),
            senders.join(", ")
        ),
    );
}

/// What was more than may be in memory.
fn limits(notes: &mut Notes, counts: &PacketCounts) {
    notes.say(
        counts.too_many_tunnels,
        format!(
            "{} in tunnels beyond the first {MOST_TUNNELS}, which were not analysed.",
            many(counts.too_many_tunnels, "segment")
        ),
    );
    notes.say(
        counts.too_many_connections,
        format!(
            "{} of connections beyond those that may be in memory, which were not analysed: `--max-connections` raises the limit.",
            many(counts.too_many_connections, "segment")
        ),
    );
    notes.say(
        counts.undescribed_flows,
        format!(
            "{} of connections that ended, beyond those that may be in memory, which are counted only: `--max-connections` raises the limit.",
            many(counts.undescribed_flows, "flow")
        ),
    );
    notes.say(
        counts.too_many_interfaces,
        format!(
            "{} beyond the first {MOST_INTERFACES}, whose packets were not read.",
            many(counts.too_many_interfaces, "interface")
        ),
    );
}

/// Packets without a time, or with one that is not plausible.
fn clocks(notes: &mut Notes, counts: &PacketCounts) {
    notes.say(
        counts.backwards,
        format!(
            "Time goes backwards at {}, by up to {}: durations there are too short.",
            packets(counts.backwards),
            time(counts.most_backwards_ns)
        ),
    );
    notes.say(
        counts.contradictory_times,
        format!(
            "{} with a time that is more than ten years from the first one, which cannot be true: each has the time of the packet before it.",
            packets(counts.contradictory_times)
        ),
    );
    notes.say(
        counts.clocks_set,
        format!(
            "The clock was set by more than ten years {}: from there on times continue those before.",
            times(counts.clocks_set)
        ),
    );
    notes
        .say(counts.timeless, format!("{} without a time (simple packet blocks).", packets(counts.timeless)));
}
