//! A capture at one end is followed without its calls: the profile's own runs to the end, and a packet that was changed is the first difference.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use tcpassay_case::Case;
use tcpassay_case::params::{Substrate, Value};
use tcpassay_follow::capture::{CaptureOutcome, CapturedEnd, CapturedPacket, follow, profile};
use tcpassay_measure::CollectOptions;
use tcpassay_sim::{SimOptions, run};
use tcpassay_units::{Dur, Seed, Time};
use tcpassay_wire::{Flags, SackBlock};

/// What the receiver of a bulk transfer sent and received in three seconds, with losses and duplicates.
fn receiver(profile: &str, more: &[(&str, &str)]) -> CapturedEnd {
    end("receiver", profile, more)
}

/// What `host` of a bulk transfer sent and received.
fn end(host: &str, profile: &str, more: &[(&str, &str)]) -> CapturedEnd {
    let mut triples = vec![
        ("stack.profile", profile),
        ("link.rate", "10Mbit"),
        ("link.delay", "20ms"),
        ("app.duration", "3s"),
        ("link.loss", "1%"),
        ("link.duplicate", "1%"),
    ];
    triples.extend(more);
    let triples: BTreeMap<String, Value> =
        triples.iter().map(|(path, value)| ((*path).to_owned(), Value::Text((*value).to_owned()))).collect();
    let none = |name: &str| Err(std::io::Error::other(name.to_owned()));
    let case = Case::on(Substrate::Model, &triples, &none).expect("a valid case");
    let collect = CollectOptions { events: true, packets: true, ..CollectOptions::default() };
    let recording = run(&case, Seed(5), &SimOptions { collect, ..SimOptions::default() }).recording;
    let place = recording.hosts.iter().position(|name| name == host).expect("there is one");
    let place = u32::try_from(place).expect("few hosts");
    let of_place = recording.packets.iter().enumerate().filter(|(_, packet)| packet.interface == place);
    let packets: Vec<CapturedPacket> = of_place
        .map(|(number, packet)| CapturedPacket {
            at: packet.at,
            frame: number as u64 + 1,
            sent: packet.from == place,
            segment: packet.segment.expect("a TCP segment"),
            ecn: packet.ecn,
            cut: false,
            layouts: [true; 2],
        })
        .collect();
    let ends = ["10.0.0.2:5001", "10.0.0.1:32768"].map(|end| end.parse::<SocketAddr>().expect("an address"));
    CapturedEnd {
        ends,
        until: packets.last().expect("there are packets").at,
        packets,
        acts_within: Dur::from_micros(200),
        queued: None,
        is_incomplete: false,
        refused: None,
    }
}

fn followed(end: &CapturedEnd, name: &str) -> CaptureOutcome {
    follow(end, &profile(name).expect("a profile"))
}

/// The place of the first packet that left after the first half and is like this.
fn place(end: &CapturedEnd, which: impl Fn(&CapturedPacket) -> bool) -> usize {
    let half = end.packets.len() / 2;
    half + end.packets[half..].iter().position(|p| p.sent && which(p)).expect("there is one")
}

/// A pure ACK of data in order, with nothing else near it.
fn plain(p: &CapturedPacket) -> bool {
    p.segment.options.sack.is_empty()
}

fn reports(p: &CapturedPacket) -> bool {
    p.segment.options.sack.iter().count() == 1
}

#[test]
fn the_profiles_follow_their_own_receivers_without_calls_and_not_each_others() {
    for (case, name, other) in [("linux", "linux-6.1", "freebsd"), ("freebsd", "freebsd", "linux-6.1")] {
        for more in [&[][..], &[("app.read_rate", "5Mbit")], &[("link.reorder", "2%:3")]] {
            let end = receiver(case, more);
            let outcome = followed(&end, name);
            assert_eq!((&outcome.first, &outcome.stop), (&None, &None), "{name} {more:?}");
            assert_eq!(outcome.followed, end.packets.len());
            assert!(outcome.acks > 200 && outcome.arrivals > 500, "{outcome:?}");
            let outcome = followed(&end, other);
            assert!(
                outcome.first.is_some() && outcome.followed < 200,
                "{name} as {other} {more:?} {outcome:?}"
            );
        }
    }
}

#[test]
fn an_ack_that_is_later_than_any_timer_allows_is_the_first_difference_at_the_arrival_that_it_answers() {
    let mut end = receiver("freebsd", &[]);
    let place = place(&end, plain);
    // It and what left after it are late by 300 ms, so that nothing else is in another order.
    let before = end.packets[..place].iter().rposition(|p| !p.sent).expect("an arrival");
    for packet in &mut end.packets[place..] {
        packet.at += Dur::from_millis(300);
    }
    end.until += Dur::from_millis(300);
    let (frame, first) = followed(&end, "freebsd").first.expect("a difference");
    assert_eq!(frame, end.packets[before].frame);
    assert!(first.cause.starts_with("an ACK of the model is missing"), "{}", first.cause);
}

#[test]
fn a_wrong_sack_block_echo_or_number_is_the_first_difference_at_its_frame() {
    type Change = fn(&mut CapturedPacket);
    let good = receiver("linux", &[]);
    let with_block = place(&good, reports);
    let without = place(&good, plain);
    let changes: [(usize, &str, Change); 3] = [
        (with_block, "SACK blocks", |p| {
            let block = *p.segment.options.sack.iter().next().expect("one");
            p.segment.options.sack = [SackBlock { end: block.end + 1448, ..block }].into_iter().collect();
        }),
        (without, "TSecr", |p| p.segment.options.timestamps.as_mut().expect("timestamps").ecr -= 1),
        (without, "acknowledgment number", |p| p.segment.ack = p.segment.ack - 1448),
    ];
    for (place, field, change) in changes {
        let mut end = good.clone();
        change(&mut end.packets[place]);
        let (frame, first) = followed(&end, "linux-6.1").first.expect("a difference");
        assert_eq!(frame, end.packets[place].frame, "{field}: {first:?}");
        assert!(first.cause.contains(field), "{field}: {}", first.cause);
    }
}

#[test]
fn an_ack_that_no_rule_asks_for_is_the_first_difference_at_its_frame() {
    let mut end = receiver("freebsd", &[]);
    let place = place(&end, plain);
    let mut again = end.packets[place];
    again.frame = 1_000_000;
    again.at += Dur::from_nanos(1);
    end.packets.insert(place + 1, again);
    let (frame, first) = followed(&end, "freebsd").first.expect("a difference");
    assert_eq!(frame, 1_000_000);
    assert!(first.cause.starts_with("an ACK that the model would not have sent"), "{}", first.cause);
    assert!(!first.source.contains("tcp_"), "functions of Linux are no source for FreeBSD: {}", first.source);
}

#[test]
fn a_capture_that_contradicts_itself_is_followed_up_to_there_and_no_difference_is_claimed() {
    let good = receiver("linux", &[]);
    let half = good.packets.len() / 2;
    let stopped = |end: &CapturedEnd| {
        let outcome = followed(end, "linux-6.1");
        assert_eq!(outcome.first, None);
        outcome.stop.expect("it stopped")
    };
    let mut back = good.clone();
    back.packets[half].at = Time::ZERO;
    assert_eq!(stopped(&back).why, "the clock of the capture goes back");
    let mut cut = good.clone();
    cut.packets[half].cut = true;
    let stop = stopped(&cut);
    assert_eq!(
        stop.why,
        "the captured bytes end inside of the options of the packet, or the options are malformed"
    );
    assert_eq!(stop.frame, Some(good.packets[half].frame));
    let mut reset = good.clone();
    reset.packets[half].segment.flags |= Flags::RST;
    assert_eq!(stopped(&reset).why, "the connection is reset");
    // Arrivals that the capture lacks: the next ACK is of more than what it shows.
    let mut lacking = good.clone();
    let end = lacking.packets[half].at + Dur::from_millis(20);
    let at = lacking.packets[half].at;
    lacking.packets.retain(|p| p.sent || p.at < at || p.at > end);
    let stop = stopped(&lacking);
    assert_eq!(stop.why, "the end acknowledges data that the capture lacks");
    // The same where a difference comes before.
    lacking.packets.retain(|p| !p.sent || p.at < at || p.at > end + Dur::from_millis(100));
    lacking.is_incomplete = true;
    let stop = stopped(&lacking);
    assert!(stop.why.starts_with("the capture lacks packets"), "{}", stop.why);
    let mut none = good.clone();
    none.packets.retain(|p| !p.segment.flags.has(Flags::SYN));
    assert_eq!(stopped(&none).why, "the capture has no whole handshake of the connection");
    let mut refused = good;
    refused.refused = Some("elsewhere".to_owned());
    assert_eq!((stopped(&refused).frame, stopped(&refused).why), (None, "elsewhere".to_owned()));
}

#[test]
fn options_that_a_syn_lacks_are_named_and_in_an_answer_only_those_that_the_peer_offers() {
    let mut end = receiver("linux", &[]);
    assert_eq!(end.lacks(), [""; 0]);
    for packet in &mut end.packets {
        packet.segment.options.timestamps = None;
    }
    assert_eq!(end.lacks(), [""; 0], "the peer does not offer timestamps either");
    let own = end.packets.iter().position(|p| p.sent).expect("it sent something");
    end.packets[own].segment.options.sack_permitted = false;
    assert_eq!(end.lacks(), ["SACK"]);
}

#[test]
fn a_linux_that_reports_no_duplicate_at_all_has_switched_that_off() {
    let end = receiver("linux", &[("stack.dsack", "off")]);
    let outcome = followed(&end, "linux-6.1");
    assert_eq!((&outcome.first, outcome.setting), (&None, Some("net.ipv4.tcp_dsack = 0")));
    assert_eq!(outcome.followed, end.packets.len());
    assert_eq!(followed(&receiver("linux", &[]), "linux-6.1").setting, None);
}

#[test]
fn a_timeout_below_the_usual_minimum_is_that_of_the_route_if_nothing_else_differs() {
    // The application sends less than the path takes, so that a pause is longer than the timeout, and nothing is lost.
    let paused = [
        ("link.pause", "1s,300ms"),
        ("app.workload", "paced"),
        ("app.rate", "2Mbit"),
        ("app.burst", "20KB"),
        ("stack.sack", "off"),
        ("link.loss", "0"),
        ("link.duplicate", "0"),
    ];
    let with = |min: &'static str| {
        let more: Vec<_> = paused.iter().copied().chain([("stack.min_rto", min)]).collect();
        followed(&end("sender", "linux", &more), "linux-6.1")
    };
    let short = with("40ms");
    assert_eq!((&short.first, short.setting), (&None, Some("a smaller rto_min of the route")));
    assert_eq!((with("200ms").first, with("200ms").setting), (None, None));
}

#[test]
fn a_host_that_answers_within_two_milliseconds_keeps_what_arrives() {
    let later = |by: u64| {
        let mut end = receiver("linux", &[]);
        let packets = end.packets.iter_mut().skip(3).filter(|packet| packet.sent);
        packets.for_each(|packet| packet.at += Dur::from_micros(by));
        end.packets.sort_by_key(|packet| packet.at);
        followed(&end, "linux-6.1")
    };
    let kept = later(1000);
    assert_eq!(kept.first, None);
    assert_eq!(kept.setting, Some("up to 2 ms between the arrival and TCP (gro_flush_timeout)"));
    assert!(later(5000).first.is_some(), "no setting explains this");
}

fn arrival(p: &CapturedPacket) -> bool {
    !p.sent && p.segment.len > 0
}

#[test]
fn an_ack_whose_timer_is_about_to_expire_leaves_at_a_later_arrival_where_ticks_are_longer() {
    let mut end =
        receiver("linux", &[("app.read_rate", "1Mbit"), ("link.loss", "0"), ("link.duplicate", "0")]);
    // An ACK at an arrival, with two further ones in the next 4 ms, a tick of 250 Hz, before the timer of 40 ms.
    let which = |place: usize| {
        let p = &end.packets[place - 1..place + 3];
        let last = end.packets[..place].iter().rfind(|p| p.sent).map_or(Time::ZERO, |last| last.at);
        let waited = p[1].at.since(last);
        let at_arrival = p[1].sent && arrival(&p[0]) && p[0].at == p[1].at;
        let range = Dur::from_millis(28)..Dur::from_millis(35);
        at_arrival && range.contains(&waited) && arrival(&p[2]) && arrival(&p[3])
    };
    let place = (1..end.packets.len() - 2).rfind(|place| which(*place)).expect("there is one");
    let (mut ack, later) = (end.packets[place], end.packets[place + 2]);
    assert!(later.at.since(ack.at) < Dur::from_millis(4));
    ack.segment.ack = later.segment.end();
    ack.at = later.at + Dur::from_micros(7);
    end.packets.truncate(place + 3);
    end.packets.push(ack);
    end.packets.remove(place);
    end.until = ack.at;
    let outcome = followed(&end, "linux-6.1");
    assert_eq!((&outcome.first, outcome.followed), (&None, end.packets.len()));
}

#[test]
fn quick_acks_are_counted_by_the_window_of_the_syn() {
    // Half of the segments that fit into 30 KB, not of those that fit into 64 KB.
    let end = receiver("linux", &[("app.rcvbuf", "60KB"), ("link.loss", "0"), ("link.duplicate", "0")]);
    let syn = end.packets.iter().find(|p| p.sent).expect("a SYN-ACK").segment;
    assert!(syn.window < 32_000, "{syn:?}");
    let outcome = followed(&end, "linux-6.1");
    assert_eq!((&outcome.first, &outcome.stop), (&None, &None));
}

#[test]
fn senders_of_the_profiles_keep_their_bounds() {
    for (case, name) in [("linux", "linux-6.1"), ("freebsd", "freebsd")] {
        for more in [&[][..], &[("link.reorder", "2%:3"), ("stack.sack", "off")], &[("link.loss", "10%")]] {
            let end = end("sender", case, more);
            let outcome = followed(&end, name);
            assert_eq!((&outcome.first, &outcome.stop), (&None, &None), "{name} {more:?}");
            assert!(outcome.carriers > 100, "{outcome:?}");
        }
    }
}

#[test]
fn a_retransmission_that_nothing_asks_for_is_the_first_difference_at_its_frame() {
    for (case, name) in [("linux", "linux-6.1"), ("freebsd", "freebsd")] {
        let mut end = end("sender", case, &[("link.loss", "0"), ("link.duplicate", "0")]);
        let place = place(&end, |p| p.segment.len > 0);
        let mut again = end.packets[place];
        again.frame = 1_000_000;
        again.at += Dur::from_micros(1);
        end.packets.insert(place + 1, again);
        let (frame, first) = followed(&end, name).first.expect("a difference");
        assert_eq!(
            (frame, first.cause.as_str()),
            (1_000_000, "a retransmission that the model would not have sent: early")
        );
    }
}

#[test]
fn an_initial_window_that_is_larger_than_that_of_the_profile_is_a_difference_at_the_second_segment_beyond_it()
{
    let end = end("sender", "linux", &[("stack.initial_window", "20"), ("link.loss", "0")]);
    let (frame, first) = followed(&end, "linux-6.1").first.expect("a difference");
    let data: Vec<u64> =
        end.packets.iter().filter(|p| p.sent && p.segment.len > 0).map(|p| p.frame).collect();
    assert_eq!(
        (frame, first.cause.as_str()),
        (data[11], "new data that the model would not have sent: initial window")
    );
}
