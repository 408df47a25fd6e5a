//! Findings as text.

use crate::flow::{
    BlackHole, Connection, EcnFeedback, Ending, EndingKind, Half, HalfCounters, Offers, Place, StallCause,
    Stalls, TimeShares,
};
use crate::icmp::{IcmpErrors, IcmpKind};
use crate::summary::{FlowSummary, RoundTrips};
use tcpassay_units::Dur;

/// A duration with two or three significant digits: `40us`, `1.3ms`, `204ms`, `1.25s`.
pub(crate) fn time(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a few digits for people")]
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..999_500 => format!("{:.0}us", value / 1e3),
        999_500..99_950_000 => format!("{:.1}ms", value / 1e6),
        99_950_000..999_500_000 => format!("{:.0}ms", value / 1e6),
        _ => format!("{:.2}s", value / 1e9),
    }
}

/// A duration, or that it is shorter than the step of the clock.
pub(crate) fn time_of(ns: u64, clock_ns: u64) -> String {
    if ns < clock_ns { format!("<{}", time(clock_ns)) } else { time(ns) }
}

/// An amount of data in powers of 1000: `512B`, `14.3KB`.
pub(crate) fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a few digits for people")]
    let value = count as f64;
    match count {
        0..1_000 => format!("{count}B"),
        1_000..999_950 => format!("{:.1}KB", value / 1e3),
        999_950..999_950_000 => format!("{:.1}MB", value / 1e6),
        _ => format!("{:.1}GB", value / 1e9),
    }
}

/// A rate: `85.83 Mbps`.
pub(crate) fn rate(bps: f64) -> String {
    let (unit, name) = match bps {
        _ if bps >= 999.995e6 => (1e9, "Gbps"),
        _ if bps >= 999.995e3 => (1e6, "Mbps"),
        _ if bps >= 999.995 => (1e3, "Kbps"),
        _ => (1.0, "bps"),
    };
    format!("{:.2} {name}", bps / unit)
}

pub(crate) fn share(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a few digits for people")]
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    if part == 0 {
        "0%".to_owned()
    } else if percent < 0.095 {
        format!("{percent:.2}%")
    } else if percent < 9.95 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

pub(crate) fn many(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Describes a flow; `to_sender` is the time from the capture point to the sender and back, `clock_ns` the step of the capture's clock;
/// `routers`: the packets of the end at which the capture seems to have been taken have passed some.
pub(crate) fn found(flow: &FlowSummary, to_sender: Option<Dur>, clock_ns: u64, routers: bool) -> Vec<String> {
    let mut said = vec![place(flow.place, to_sender, clock_ns, if routers { "near" } else { "at" })];
    said.extend(flow.round_trips.as_ref().map(|trips| round_trips(flow, trips, clock_ns)));
    said.extend(flow.round_trips.as_ref().and_then(bimodal));
    said.extend(flow.time_shares.as_ref().and_then(time_shares));
    said.extend(flow.stalls.iter().map(|stalls| stall(flow, stalls)));
    said.extend(flow.black_hole.as_ref().map(|hole| black_hole(hole, &flow.icmp)));
    said.extend(flow.icmp.iter().map(|one| format!("{}.", icmp_error(one))));
    let counters = &flow.counters;
    if counters.retransmissions > 0 {
        said.push(retransmissions(flow));
    }
    if flow.spurious.total() > 0 {
        said.push(spurious(flow));
    }
    if counters.unexplained_dsacks > 0 {
        said.push(format!(
            "The receiver reported duplicates {} (DSACK) of which the capture shows no retransmission: the network copied packets, or \
             the capture missed them.",
            times(counters.unexplained_dsacks)
        ));
    }
    if counters.reordered + counters.reordered_behind > 0 {
        said.push(reordering(flow));
    }
    if counters.duplicates > 0 {
        said.push(copies(counters));
    }
    said.extend(probes(counters));
    said.extend(marks(flow));
    if counters.window_limited_rounds > 0 {
        said.push(format!(
            "The receive window limited {} of {}.",
            counters.window_limited_rounds,
            many(flow.rounds, "round")
        ));
    }
    if counters.syn_retransmissions > 0 {
        said.push(format!("The SYN was sent again {}.", times(counters.syn_retransmissions)));
    }
    said.push(ending(flow, &flow.ending));
    said
}

/// What the SYNs say of limits of throughput.
pub(crate) fn of_handshake(connection: &Connection, half: &Half) -> Vec<String> {
    let mut said = Vec::new();
    let refused = Offers::refused(connection.offers);
    if !refused.is_empty() {
        let window = if refused.contains(&"window scale") { ": no window is larger than 64 KB" } else { "" };
        said.push(format!(
            "The SYN offers what the SYN-ACK lacks: {}{window}. The end does not support it, or the path removes it.",
            refused.join(", ")
        ));
    }
    if half.counters.window_limited_rounds > 0
        && connection.offers[0].is_some_and(|offers| !offers.has_scale())
    {
        said.push("The SYN has no window scale: no window is larger than 64 KB.".to_owned());
    }
    let first = half.counters.packets - half.counters.retransmissions.min(half.counters.packets);
    if Offers::agree_on_ecn(connection.offers) && half.counters.ect == 0 && first > 0 {
        said.push(format!(
            "ECN was negotiated, and none of {} is ECN-capable (ECT): the sender does not set it, or the path clears it.",
            many(half.counters.packets, "data packet")
        ));
    }
    said
}

/// Nothing was answered after a pause.
pub(crate) fn forgotten(flow: &FlowSummary, pause: Dur, since: Dur) -> String {
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let second = since.as_nanos() as f64 / 1e9;
    format!(
        "After a pause of {} at {second:.6} nothing of {} was answered any more: a middlebox (NAT, firewall) may have forgotten the \
         connection, or {} is gone.",
        time(pause.as_nanos()),
        flow.sender,
        flow.receiver
    )
}

/// Data that never arrived because of the length of their packets.
fn black_hole(hole: &BlackHole, icmp: &[IcmpErrors]) -> String {
    let shorter = match hole.passed {
        0 => "packets without data pass".to_owned(),
        passed => format!("packets with up to {passed}B pass"),
    };
    let over = if hole.over { "; the data arrived in shorter packets at last" } else { "" };
    let told = if icmp.iter().any(|one| one.kind == IcmpKind::TooBig) {
        "ICMP told the sender"
    } else {
        "the capture has no ICMP error that tells the sender"
    };
    format!(
        "No packet with {}B arrives (the first was sent {}), while {shorter}{over}. A link with a smaller MTU would do this (black hole); \
         {told}.",
        hole.length,
        times(u64::from(hole.transmissions))
    )
}

/// ICMP errors of one kind, without a full stop.
pub(crate) fn icmp_error(one: &IcmpErrors) -> String {
    let mtu = match (one.kind, one.mtu) {
        (IcmpKind::TooBig, 0) => ", without the MTU of the next link".to_owned(),
        (IcmpKind::TooBig, mtu) => format!(", the MTU of the next link is {mtu}"),
        _ => String::new(),
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let second = one.first_ns as f64 / 1e9;
    // Some routers cut the length field of what they quote.
    let length = match (one.kind, one.mtu) {
        (IcmpKind::TooBig, mtu) if one.length <= mtu => String::new(),
        _ => format!(" (up to {}B)", one.length),
    };
    format!(
        "ICMP of {} about packets of {}{length}: {}{mtu} ({}, first at {second:.6})",
        one.router,
        one.about,
        one.kind.words(),
        times(one.count)
    )
}

/// A connection that was not opened.
pub(crate) fn unopened([opener, other]: [&str; 2], syns: u64, duration_ns: u64, refused: bool) -> String {
    let sent = many(syns, "SYN");
    let passed = time(duration_ns);
    match (refused, syns) {
        (true, 1) => format!("{opener} > {other}: {sent}, refused by a reset (RST) after {passed}"),
        (true, _) => format!("{opener} > {other}: {sent} in {passed}, refused by a reset (RST)"),
        (false, 1) => format!("{opener} > {other}: {sent}, no answer"),
        (false, _) => format!("{opener} > {other}: {sent} in {passed}, no answer"),
    }
}

/// Other connections to the port of one that was not opened.
pub(crate) fn others_opened(count: u64, at_host: bool) -> String {
    let what = many(count, "other connection");
    if at_host {
        format!(
            "{what} to this port opened within a minute, and the capture was taken at its host: its listen queue may be full"
        )
    } else {
        format!(
            "{what} to this port opened within a minute: the path lost the SYNs or their answers, or the listen queue of the host is full"
        )
    }
}

fn ending(flow: &FlowSummary, ending: &Ending) -> String {
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let second = |ns: u64| format!("{:.6}", ns as f64 / 1e9);
    let by = ending.by.as_deref().unwrap_or_default();
    let at = ending.at_ns.map(second).unwrap_or_default();
    let outstanding = match ending.outstanding {
        0 => String::new(),
        count => format!(", with {} of {} not acknowledged", bytes(count), flow.sender),
    };
    match ending.how {
        EndingKind::Open => {
            format!("Still open at the end: neither FIN nor RST is in the capture{outstanding}.")
        }
        EndingKind::HalfClosed => format!("{by} closed at {at} (FIN), the other end did not{outstanding}."),
        EndingKind::Closed => {
            let other = ending.other_at_ns.map(second).unwrap_or_default();
            format!("Closed (FIN): {by} first, at {at}, the other end at {other}{outstanding}.")
        }
        EndingKind::Reset => {
            let more = if ending.went_on {
                " It went on sending, so that the reset was not its own, or had no effect."
            } else {
                ""
            };
            format!("Ended by a reset (RST) of {by} at {at}{outstanding}.{more}")
        }
    }
}

fn time_shares(shares: &TimeShares) -> Option<String> {
    let told: Vec<String> =
        shares.words().iter().map(|(what, share)| format!("{what} {:.0}%", 100.0 * share)).collect();
    (!told.is_empty())
        .then(|| format!("Time of the sender by what kept it from sending: {}.", told.join(", ")))
}

fn copies(counters: &HalfCounters) -> String {
    let also = if counters.network_duplicates > 0 {
        format!(
            " {} reached the receiver, too (DSACK): the network copied them.",
            counters.network_duplicates
        )
    } else {
        String::new()
    };
    format!(
        "{} captured twice, with the same header and sooner than a sender repeats them: the network or the capture copied them.{also}",
        many(counters.duplicates, "data packet")
    )
}

/// Segments that only a timer sends.
fn probes(counters: &HalfCounters) -> Option<String> {
    let kinds = [
        (counters.window_probes, "a closed window"),
        (counters.keepalives, "a connection on which the application sent nothing (keepalive)"),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} of {what}", many(*count, "probe")))
        .collect();
    (!told.is_empty()).then(|| format!("{}.", told.join(", ")))
}

fn marks(flow: &FlowSummary) -> Option<String> {
    let counters = &flow.counters;
    let sent =
        format!("Congestion marks: CE on {} of the data packets", share(counters.ce, counters.packets));
    match flow.ecn_feedback {
        EcnFeedback::Accurate => {
            let size = match counters.ce_reported_bytes {
                0 => String::new(),
                count => format!(" ({})", bytes(count)),
            };
            let reported = many(counters.ce_reported, "packet");
            Some(format!("{sent}, the receiver reported {reported}{size} with CE (accurate ECN, RFC 9768)."))
        }
        EcnFeedback::Echo if counters.ce > 0 || counters.ece > 0 => {
            Some(format!("{sent}, ECE on {} of the ACKs.", share(counters.ece, counters.acks)))
        }
        EcnFeedback::Unknown if counters.ce > 0 => Some(format!("{sent}.")),
        EcnFeedback::Echo | EcnFeedback::Unknown => None,
    }
}

pub(crate) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn place(place: Place, to_sender: Option<Dur>, clock_ns: u64, at: &str) -> String {
    let way = to_sender.map(|time| time_of(time.as_nanos(), clock_ns)).unwrap_or_default();
    match place {
        Place::Sender => format!("Captured {at} the sender: rounds are round trips as the sender sees them."),
        Place::Receiver => format!(
            "Captured {at} the receiver: the time to the sender and back, which is {way} at least, is estimated by echoed timestamps or its \
             smallest value, and part of each round."
        ),
        Place::Between => format!(
            "Captured between the ends: the time to the sender and back, which is {way} at least, is estimated by echoed timestamps or its \
             smallest value, and part of each round."
        ),
        Place::Unknown => {
            "Where the capture was taken is unknown: rounds last from a data packet to its ACK at the capture point.".to_owned()
        }
    }
}

fn round_trips(flow: &FlowSummary, trips: &RoundTrips, clock_ns: u64) -> String {
    let time = |ns| time_of(ns, clock_ns);
    let step = if trips.min_ns < clock_ns {
        format!(" The clock of the capture advances in steps of {}.", self::time(clock_ns))
    } else {
        String::new()
    };
    // The text has two or three digits.
    let error = match trips.quantile_error {
        error if error > 0.001 => format!(" (to {:.1}%)", 100.0 * error),
        _ => String::new(),
    };
    format!(
        "{}, round-trip time {} to {}, median {}, 99% within {}{error}.{step}",
        many(flow.rounds, "round"),
        time(trips.min_ns),
        time(trips.max_ns),
        time(trips.median_ns),
        time(trips.p99_ns)
    )
}

fn bimodal(trips: &RoundTrips) -> Option<String> {
    let (low, high, upper) = trips.modes?;
    Some(format!(
        "The round-trip times are bimodal: {:.0}% are around {}, {:.0}% around {}.",
        100.0 * (1.0 - upper),
        time(low),
        100.0 * upper,
        time(high)
    ))
}

fn stall(flow: &FlowSummary, stalls: &Stalls) -> String {
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let second = stalls.longest_at_ns as f64 / 1e9;
    let (from, to) = (&flow.sender, &flow.receiver);
    let what = match stalls.cause {
        StallCause::RetransmissionTimer => {
            format!(
                "{from} waited for its retransmission timer (RTO): no ACK arrived for the outstanding data"
            )
        }
        StallCause::TailLossProbe => {
            format!("{from} waited for the timer of a tail loss probe")
        }
        StallCause::FastRetransmission => {
            format!(
                "{to} waited for lost data, which {from} sent again after reports of the loss (fast retransmission)"
            )
        }
        StallCause::DelayedAck => format!("{from} waited for an ACK that {to} delayed"),
        StallCause::PossibleDelayedAck => format!(
            "{from} waited for an ACK of less than two segments, which came late: {to} delayed it, or the path did"
        ),
        // At the receiver an ACK is seen when it leaves.
        StallCause::LateAck if flow.place == Place::Receiver => {
            format!("{from} waited for an ACK that {to} sent late, and not as a delayed ACK")
        }
        StallCause::LateAck => {
            format!("{from} waited for an ACK that came late: the receiver {to} or the path")
        }
        StallCause::ClosedWindow => {
            format!("{from} waited for a window: the application of {to} did not read")
        }
        StallCause::FullWindow => {
            format!(
                "{from} waited for a window: the window of {to} was used up, and the ACK that opened it came late"
            )
        }
        StallCause::Path => format!(
            "the path between {from} and {to} (or a queue of a host) held packets: by their timestamps they had been sent before"
        ),
        StallCause::Application => {
            format!(
                "{to} waited for data: nothing was outstanding, and the application of {from} sent nothing"
            )
        }
        StallCause::Unanswered => format!(
            "{from} waited for an answer to data that had been acknowledged: the application of {to} sent nothing until {from} closed the \
             connection"
        ),
        StallCause::OneOfTheApplications => format!(
            "one of the applications: that of {to} did not answer data that had been acknowledged, or that of {from} had no more to send \
             before it closed the connection"
        ),
        StallCause::NoData => {
            format!("no data of {from} arrived: its application, its window or the path")
        }
        StallCause::MissingData => format!(
            "data that {from} had sent had not arrived at {to}: the path, or the retransmission timer of {from}"
        ),
        StallCause::SenderResumed => format!(
            "{from} paused with data outstanding and continued with new data before an ACK arrived: its application, its \
             pacing or a probe{}",
            if flow.place == Place::Sender { "" } else { ", or the path" }
        ),
        StallCause::SynTimer => format!("{from} waited for the timer of its SYN"),
    };
    format!(
        "Stalls: {what} ({}, {} in total, longest {} at {second:.6}).",
        times(stalls.count),
        time(stalls.total_ns),
        time(stalls.longest_ns)
    )
}

fn retransmissions(flow: &FlowSummary) -> String {
    let counters = &flow.counters;
    let behind = counters.retransmissions - counters.lost_before;
    let where_ = match (counters.lost_before, behind) {
        (0, _) => "the capture has the first copies of all of them".to_owned(),
        (_, 0) => "all first copies were lost before the capture point".to_owned(),
        (before, behind) => {
            format!("{before} first copies were lost before the capture point, {behind} passed it")
        }
    };
    format!(
        "{} of {} ({}) retransmitted, {} of the packets; {where_}.",
        counters.retransmissions,
        many(counters.packets, "data packet"),
        bytes(counters.retransmitted_bytes),
        share(counters.retransmissions, counters.packets)
    )
}

fn spurious(flow: &FlowSummary) -> String {
    let spurious = &flow.spurious;
    let kinds = [
        (spurious.dsack, "reported as duplicates (DSACK)"),
        (spurious.timestamp, "acknowledged with a timestamp older than the retransmission"),
        (spurious.early_ack, "acknowledged sooner than the receiver can answer"),
        (spurious.acknowledged_before, "acknowledged before they were sent again"),
        (spurious.sacked_before, "reported by SACK before they were sent again"),
    ];
    let told: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
    format!("{} unnecessary: {}.", many(spurious.total(), "retransmission"), told.join(", "))
}

fn reordering(flow: &FlowSummary) -> String {
    let counters = &flow.counters;
    let mut said = Vec::new();
    if counters.reordered > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = counters.sum_of_extents as f64 / counters.reordered as f64;
        said.push(format!(
            "{} ({}) arrived late; extent of reordering (RFC 4737: packets that arrived since the first one behind it) {mean:.1} in \
             the mean, {} at most; {} by three or more, which three duplicate ACKs report as loss.",
            many(counters.reordered, "data packet"),
            share(counters.reordered, counters.packets),
            counters.largest_extent,
            counters.beyond_three
        ));
    }
    if counters.reordered_behind > 0 {
        said.push(format!(
            "SACK reported {} behind the capture point that closed without a retransmission: reordering by up to {}.",
            many(counters.reordered_behind, "gap"),
            many(counters.largest_extent_behind, "packet")
        ));
    }
    said.join(" ")
}
